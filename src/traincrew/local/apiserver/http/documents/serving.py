"""Answers to requests for paths that are no resources."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.http import answers
from traincrew.local.apiserver.values.errors import no_such_path

from . import discovery, version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from traincrew.local.apiserver.http.openapi.documents import OpenApiDocuments
    from traincrew.local.apiserver.http.openapi.v2 import SwaggerDocument
    from traincrew.local.apiserver.http.tokens import Tokens
    from traincrew.local.apiserver.registry import Registry

    from .metrics import RequestMetrics

__all__ = ["Documents"]


class Documents:
    """Answers requests for paths that are no resources.

    Args:
        registry: the served resources.
        tokens: has the public key of ServiceAccount tokens.
        metrics: counts requests.
    """

    def __init__(self, registry: Registry, tokens: Tokens, metrics: RequestMetrics) -> None:
        self._registry = registry
        self._tokens = tokens
        self._metrics = metrics

    @cached_property
    def _openapi(self) -> tuple[OpenApiDocuments, SwaggerDocument]:
        """The OpenAPI documents, versions 3 and 2; imported when a client first asks for any."""
        from traincrew.local.apiserver.http.openapi import documents, v2

        known = self._registry
        return documents.OpenApiDocuments(known), v2.SwaggerDocument(known)

    async def respond(
        self, method: str, segments: list[str], headers: Mapping[str, str]
    ) -> web.Response:
        """Answer a request for a document.

        Args:
            method: upper case.
            segments: segments of the path.
            headers: headers of the request, with case-insensitive names.

        Raises:
            StatusError: 404 for other paths and methods.
        """
        if method not in {"GET", "HEAD"}:
            raise no_such_path()
        if segments and not segments[-1]:
            segments = segments[:-1]  # /version/ is /version
        accept = headers.get("Accept", "")
        match segments:
            case ["version"]:
                return answers.document(version.document())
            case ["readyz" | "healthz" | "livez", *_]:
                return answers.text("ok")
            case ["api"] | ["apis"]:
                return self._root(segments[0], accept)
            case ["api", "v1"]:
                found = discovery.resource_list(self._registry, "", "v1")
            case ["apis", name]:
                found = discovery.group(self._registry, name)
            case ["apis", name, each]:
                found = discovery.resource_list(self._registry, name, each)
            case [".well-known", "openid-configuration"]:
                keys = f"https://{headers.get('Host', '')}/openid/v1/jwks"
                return _public(self._tokens.issuer(keys), "application/json")
            case ["openid", "v1", "jwks"]:
                return _public(self._tokens.key_set(), "application/jwk-set+json")
            case ["metrics"]:
                return await self._metrics.respond()
            case ["openapi", "v2"]:
                return self._swagger(accept, headers.get("If-None-Match", ""))
            case ["openapi", "v3"]:
                found = self._openapi[0].index()
            case ["openapi", "v3", "api", each]:
                return self._schema("", each)
            case ["openapi", "v3", "apis", name, each]:
                return self._schema(name, each)
            case _:
                found = None
        if found is None:
            raise no_such_path()
        return answers.document(found)

    def _root(self, root: str, accept: str) -> web.Response:
        registry = self._registry
        if wanted := discovery.wanted_aggregation(accept):
            kind = f"application/json;g=apidiscovery.k8s.io;v={wanted};as=APIGroupDiscoveryList"
            content = discovery.aggregated(registry, wanted, core=root == "api")
            return answers.document(content, content_type=kind)
        if root == "apis":
            return answers.document(discovery.group_list(registry))
        return answers.document(
            {
                "kind": "APIVersions",
                "apiVersion": "v1",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            }
        )

    def _schema(self, group: str, each: str) -> web.Response:
        body = self._openapi[0].document(group, each)
        if body is None:
            raise no_such_path()
        return answers.payload(body)

    def _swagger(self, accept: str, known: str) -> web.Response:
        """Send the OpenAPI v2 document, or 304 if the client has it already."""
        body, content_type, tag = self._openapi[1].get(accept)
        if tag in known:
            response = answers.payload(b"", code=304, content_type=content_type)
        else:
            response = answers.payload(body, content_type=content_type)
        response.headers["ETag"] = tag
        response.headers["Vary"] = "Accept"
        return response


def _public(content: Any, content_type: str) -> web.Response:
    """Make a response that anybody may keep for an hour, as upstream."""
    response = answers.document(content, content_type=content_type)
    response.headers["Cache-Control"] = "public, max-age=3600"
    return response
