"""Subresources that answer at once; logs and commands are in `podstreams`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import podactions, podstreams
from .errors import bad_request
from .negotiation import decode_body
from .pipeline import check_kind
from .requests import write_options
from .scale import get_scale, write_scale

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from .dispatch import Dispatcher
    from .registry import ResourceType
    from .requests import Call
    from .storage import Entry

__all__ = ["SUBRESOURCES"]

Document = dict[str, Any]


def _entry(server: Dispatcher, call: Call, resource: ResourceType) -> Entry:
    assert call.target.name is not None
    return server.verbs.find(resource, call.target.namespace, call.target.name)


def _body(call: Call, kind: str) -> Document:
    document, _ = decode_body(call.body, call.content_type)
    if document.get("kind", kind) != kind:
        raise bad_request(f"the body must be a {kind}, not a {document['kind']}")
    return document


async def _status(
    server: Dispatcher, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    if call.method == "GET":
        return await server.read(call, resource)
    return await server.write(call, resource)


async def _scale(
    server: Dispatcher, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    entry = _entry(server, call, resource)
    if call.method == "GET":
        return await server.tell(call, get_scale(resource, entry))
    return await server.tell(call, write_scale(server.verbs, call, resource, entry))


async def _binding(
    server: Dispatcher, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    entry = _entry(server, call, resource)
    podactions.bind(server.verbs, call, resource, entry, _body(call, "Binding"))
    return await server.tell(call, podactions.created(), code=201)


async def _eviction(
    server: Dispatcher, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    entry = _entry(server, call, resource)
    podactions.evict(server.verbs, call, resource, entry, _body(call, "Eviction"))
    return await server.tell(call, podactions.created(), code=201)


async def _token(
    server: Dispatcher, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    entry = _entry(server, call, resource)
    write_options(call, "CreateOptions")
    request = _body(call, "TokenRequest")
    bound = _bound(server, entry.key[0], (request.get("spec") or {}).get("boundObjectRef") or {})
    return await server.tell(call, server.tokens.issue(entry.obj, request, bound), code=201)


def _bound(server: Dispatcher, namespace: str, reference: Document) -> dict[str, Document]:
    """The pod a token is for, and its node."""
    if reference.get("kind") != "Pod":
        return {}
    pod = server.verbs.storage.get("pods", (namespace, reference.get("name", "")))
    if pod is None or reference.get("uid") not in {None, "", pod.obj["metadata"]["uid"]}:
        return {}
    found = [("pod", pod)]
    node = server.verbs.storage.get("nodes", ("", pod.obj["spec"].get("nodeName", "")))
    if node is not None:
        found.append(("node", node))
    return {
        kind: {"name": entry.key[1], "uid": entry.obj["metadata"]["uid"]} for kind, entry in found
    }


async def _finalize(
    server: Dispatcher, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    """PUT of a namespace with fewer ``spec.finalizers``; without any it goes."""
    entry = _entry(server, call, resource)
    options = write_options(call, "UpdateOptions")
    document = _body(call, "Namespace")
    check_kind(resource, document)
    entry = server.verbs.finalize(resource, entry, document, options)
    return await server.show(call, resource, entry)


SUBRESOURCES: dict[tuple[str, str], Callable[..., Awaitable[web.StreamResponse]]] = {
    ("", "status"): _status,
    ("", "scale"): _scale,
    ("namespaces", "finalize"): _finalize,
    ("pods", "binding"): _binding,
    ("pods", "eviction"): _eviction,
    ("pods", "exec"): podstreams.serve_exec,
    ("pods", "log"): podstreams.serve_log,
    ("serviceaccounts", "token"): _token,
}
"""What serves a subresource, by resource (empty: any) and name."""
