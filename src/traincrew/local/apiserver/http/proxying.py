"""``…/pods/NAME/proxy/…`` and ``…/services/NAME/proxy/…``: HTTP requests to programs in pods.

A pod is named ``[SCHEME:]NAME[:PORT]``, a Service likewise with the name or number of one of its
ports. The response is passed on unchanged, except for links in HTML, which are rewritten to lead
through the proxy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

import aiohttp
from aiohttp import web

from traincrew.local.apiserver.reads.endpoints import Endpoint, SchemeNamePort, service_endpoint
from traincrew.local.apiserver.values.errors import (
    StatusError,
    bad_request,
    method_not_allowed,
    no_such_path,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.writes.verbs import Verbs

__all__ = ["ProxyPath", "proxy_path", "serve_proxy"]

_PROXIED = {"pods", "services"}
# RFC 9110, 7.6.1.
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NOT_FORWARDED = _HOP_BY_HOP | {"authorization", "host", "content-length"}
_CHUNK = 64 * 1024
_MAX_PAGE_BYTES = 8 * 1024 * 1024
_LINK = re.compile(
    rb"""(\s(?:href|src|action)\s*=\s*["'])(/[^"'/][^"']*|/)(?=["'])""", re.IGNORECASE
)


class ProxyPath(NamedTuple):
    """A split proxy path; `rest` is the path on the target, with its leading slash."""

    plural: str
    namespace: str
    name: str
    rest: str


def proxy_path(segments: list[str]) -> ProxyPath | None:
    """Split a path; return None when it is not a proxy path."""
    match segments:
        case ["api", "v1", "namespaces", namespace, plural, name, "proxy", *rest] if (
            plural in _PROXIED
        ):
            return ProxyPath(plural, namespace, name, "".join(f"/{each}" for each in rest))
    return None


async def serve_proxy(
    verbs: Verbs, path: ProxyPath, request: web.BaseRequest, query: str
) -> web.StreamResponse:
    """Forward a request to its target, and the response to the client.

    Args:
        verbs: finds pods and Services.
        path: the split path.
        request: the HTTP request.
        query: the raw query of the request.

    Raises:
        StatusError: 404 without the object, 400 for a port it does not have, 503 when the target
            does not respond.
    """
    if request.method in {"CONNECT", "TRACE"}:
        raise method_not_allowed(f"{path.plural}/proxy", "", request.method)
    endpoint = _endpoint(verbs, path)
    base = f"/api/v1/namespaces/{path.namespace}/{path.plural}/{path.name}/proxy"
    query = f"?{query}" if query else ""
    if not path.rest and request.method in {"GET", "HEAD"}:
        # Relative links of the page would be wrong without the slash.
        return web.Response(status=301, headers={"Location": f"{base}/{query}"})
    rest = quote(path.rest or "/", safe="/:@!$&()*+,;=~")
    url = f"{endpoint.scheme}://{endpoint.address}:{endpoint.port}{rest}{query}"
    headers = {
        key: value
        for key, value in request.headers.items()
        if key.lower() not in _NOT_FORWARDED and not key.lower().startswith("impersonate-")
    }
    body = await request.read() if request.body_exists else None
    # A program in a pod may have any certificate, which cannot be known beforehand.
    connector = aiohttp.TCPConnector(ssl=False)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, auto_decompress=False) as session,
            session.request(
                request.method, url, headers=headers, data=body, allow_redirects=False
            ) as answer,
        ):
            return await _send_response(answer, request, base)
    except aiohttp.ClientError as error:
        message = f"error trying to reach service: {error}"
        raise StatusError(503, "ServiceUnavailable", message) from None


async def _send_response(
    answer: aiohttp.ClientResponse, request: web.BaseRequest, base: str
) -> web.StreamResponse:
    headers = [
        (key, value) for key, value in answer.headers.items() if key.lower() not in _HOP_BY_HOP
    ]
    headers = [
        (key, _rewritten_location(value, answer, base) if key.lower() == "location" else value)
        for key, value in headers
    ]
    plain = "content-encoding" not in {key.lower() for key, _ in headers}
    if plain and answer.content_type == "text/html" and request.method != "HEAD":
        page = await answer.content.read(_MAX_PAGE_BYTES)
        page = _LINK.sub(rb"\g<1>" + base.encode() + rb"\g<2>", page)
        kept = [pair for pair in headers if pair[0].lower() != "content-length"]
        return web.Response(status=answer.status, body=page, headers=_multidict(kept))
    response = web.StreamResponse(status=answer.status, headers=_multidict(headers))
    await response.prepare(request)
    async for chunk in answer.content.iter_chunked(_CHUNK):
        await response.write(chunk)
    await response.write_eof()
    return response


def _multidict(pairs: list[tuple[str, str]]) -> Mapping[str, str]:
    from multidict import CIMultiDict

    return CIMultiDict(pairs)


def _rewritten_location(location: str, answer: aiohttp.ClientResponse, base: str) -> str:
    """Return the location of a redirect, rewritten to the proxy if it stays within the pod."""
    target = urlsplit(location)
    if target.netloc and target.netloc != f"{answer.url.host}:{answer.url.port}":
        return location
    tail = (f"?{target.query}" if target.query else "") + (
        f"#{target.fragment}" if target.fragment else ""
    )
    return base + target.path + tail if target.path.startswith("/") else location


def _endpoint(verbs: Verbs, path: ProxyPath) -> Endpoint:
    wanted = _split_name(path.name)
    resource = verbs.registry.find("", "v1", path.plural)
    assert resource is not None
    document = verbs.find(resource, path.namespace, wanted.name).obj
    if path.plural == "services":
        return service_endpoint(verbs.storage, path.namespace, wanted, document["spec"])
    address = document.get("status", {}).get("podIP")
    if not address:
        raise bad_request(f"pod {wanted.name} has no address yet")
    return Endpoint(wanted.scheme, address, _container_port(document["spec"], wanted.port))


def _split_name(text: str) -> SchemeNamePort:
    parts = text.split(":")
    if len(parts) == 3 and parts[0] in {"", "http", "https"}:
        return SchemeNamePort(parts[0] or "http", parts[1], parts[2])
    if len(parts) <= 2:
        return SchemeNamePort("http", parts[0], parts[1] if len(parts) == 2 else "")
    raise no_such_path()


def _container_port(spec: Document, port: str) -> int:
    """Return the port of a pod, by number or name; without one, the first declared port."""
    if port.isdecimal():
        return int(port)
    for container in spec["containers"]:
        for each in container.get("ports") or ():
            if port in {"", each.get("name")}:
                return int(each["containerPort"])
    if port:
        raise bad_request(f'no container declares a port named "{port}"')
    return 80
