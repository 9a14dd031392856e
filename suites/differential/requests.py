"""Requests to both servers, and their responses."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

Document = dict[str, Any]

CONTENT_TYPES = {
    "apply": "application/apply-patch+yaml",
    "json-patch": "application/json-patch+json",
    "merge-patch": "application/merge-patch+json",
    "strategic-patch": "application/strategic-merge-patch+json",
}
METHODS = {"create": "POST", "update": "PUT", "delete": "DELETE", "get": "GET"}


@dataclass(frozen=True)
class Resource:
    """The API resource of a kind."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.plural, *filter(None, (name, subresource))])


@dataclass(frozen=True)
class Request:
    """One request for one object, the same for both servers.

    Attributes:
        verb: a key of `METHODS` or of `CONTENT_TYPES`.
        body: a JSON document; missing apiVersion, kind and name are filled in.
        manager: ``fieldManager``.
        query: further query parameters.
        subresource: such as ``status``.
        carried: metadata fields an update copies from the object as last returned by the server.
    """

    verb: str
    body: Any = None
    manager: str = ""
    query: dict[str, str] = field(default_factory=dict)
    subresource: str = ""
    carried: tuple[str, ...] = ()

    def encoded(self, resource: Resource, name: str, live: Document | None) -> bytes | None:
        """Return the body to send to a server that returned `live` last."""
        body = self.body
        if body is None:
            return None
        if self.verb in {"create", "update", "apply"} and isinstance(body, dict):
            metadata = body.get("metadata", {})
            if isinstance(metadata, dict):
                metadata = {"name": name} | metadata
                for key in self.carried:
                    if live is not None and key in live["metadata"]:
                        metadata[key] = live["metadata"][key]
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            body = head | body | {"metadata": metadata}
        return json.dumps(body).encode()

    @property
    def method(self) -> str:
        return METHODS.get(self.verb, "PATCH")

    @property
    def content_type(self) -> str:
        return CONTENT_TYPES.get(self.verb, "application/json")

    def path(self, resource: Resource, namespace: str, name: str) -> str:
        if self.verb == "create":
            name = ""
        path = resource.path(namespace, name, self.subresource)
        query = dict(self.query)
        if self.manager:
            query["fieldManager"] = self.manager
        return f"{path}?{urlencode(query)}" if query else path

    def with_query(self, **more: str) -> Request:
        return replace(self, query=self.query | more)

    def with_body(self, body: Any) -> Request:
        return replace(self, body=body)

    def __str__(self) -> str:
        """Return an approximation of the kubectl command that would send it."""
        words = {
            "create": "kubectl create -f -",
            "update": "kubectl replace -f -",
            "apply": "kubectl apply --server-side -f -",
            "delete": "kubectl delete",
            "get": "kubectl get -o yaml",
        }.get(self.verb, f"kubectl patch --type={self.verb.removesuffix('-patch')}")
        if self.subresource:
            words += f" --subresource={self.subresource}"
        if self.manager:
            words += f" --field-manager={self.manager}"
        words += "".join(f" [{key}={value}]" for key, value in self.query.items())
        if self.carried:
            words += f" [with its own {', '.join(self.carried)}]"
        return words if self.body is None else f"{words}\n    {json.dumps(self.body)}"


HUNG_UP = 0
"""Code for a missing response: the server closed the connection."""


@dataclass(frozen=True)
class Answer:
    """The response of a server."""

    code: int
    text: str
    warnings: tuple[str, ...] = ()
