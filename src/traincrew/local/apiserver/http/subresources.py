"""Subresources with a single response; those with streams have modules for themselves."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.requests import write_options
from traincrew.local.apiserver.requests.negotiation import decode_body
from traincrew.local.apiserver.schema import load_builtin
from traincrew.local.apiserver.schema.decoding import decode_fault
from traincrew.local.apiserver.values.errors import bad_request
from traincrew.local.apiserver.writes import podactions
from traincrew.local.apiserver.writes.decoding import check_kind
from traincrew.local.apiserver.writes.scale import get_scale, write_scale

from . import tokenrequests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.storage import Entry
    from traincrew.local.apiserver.values.documents import Document

    from .responder import Responder

__all__ = ["SUBRESOURCES"]


def _entry(responder: Responder, call: Call, resource: ResourceType) -> Entry:
    assert call.target.name is not None
    return responder.verbs.find(resource, call.target.namespace, call.target.name)


def _body(call: Call, kind: str, group: str = "") -> Document:
    """Decode a body of a built-in kind.

    Raises:
        StatusError: 400 for a body of another kind, or with values of a wrong type.
    """
    document, _ = decode_body(call.body, call.content_type)
    if document.get("kind", kind) != kind:
        raise bad_request(f"the body must be a {kind}, not a {document['kind']}")
    if fault := decode_fault(load_builtin(group, "v1", kind).node, document):
        text = f'{kind} in version "v1" cannot be handled as a {kind}: {fault}'
        raise bad_request(text)
    return document


def _admitted(
    responder: Responder, call: Call, resource: ResourceType, body: Document, api_version: str
) -> Document:
    """Return the body of a POST to a subresource, which admission policies have to allow.

    Raises:
        StatusError: a policy denies it.
    """
    kind = resource.subresource_index[call.target.subresource or ""].kind
    shown = {"apiVersion": api_version, "kind": kind, **body}
    responder.webhooks.check(call, resource, "CREATE", shown)
    return body


async def _part(
    responder: Responder, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    """Handle a GET, PUT or PATCH of a subresource that is a part of the object."""
    if call.method == "GET":
        return await responder.read(call, resource)
    return await responder.write(call, resource)


async def _scale(
    responder: Responder, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    def attempt(bound: ResourceType) -> Document:
        entry = _entry(responder, call, bound)
        if call.method == "GET":
            return get_scale(bound, entry)

        def admit(new: Document, old: Document) -> None:
            responder.webhooks.check(call, bound, "UPDATE", new, old)

        return write_scale(responder.verbs, call, bound, entry, admit)

    content = await responder.run_converted(resource, attempt, warnings=call.warnings)
    return await responder.send_document(call, content)


async def _binding(
    responder: Responder, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    entry = _entry(responder, call, resource)
    body = _admitted(responder, call, resource, _body(call, "Binding"), "v1")
    podactions.bind(responder.verbs, call, resource, entry, body)
    return await responder.send_document(call, podactions.created_status(), code=201)


async def _eviction(
    responder: Responder, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    entry = _entry(responder, call, resource)
    body = _admitted(responder, call, resource, _body(call, "Eviction", "policy"), "policy/v1")
    podactions.evict(responder.verbs, call, resource, entry, body)
    return await responder.send_document(call, podactions.created_status(), code=201)


async def _token(
    responder: Responder, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    entry = _entry(responder, call, resource)
    write_options(call, "CreateOptions")
    request = _body(call, "TokenRequest", "authentication.k8s.io")
    request = _admitted(responder, call, resource, request, "authentication.k8s.io/v1")
    content = tokenrequests.issue(responder.tokens, responder.verbs.storage, entry, request)
    return await responder.send_document(call, content, code=201)


async def _finalize(
    responder: Responder, call: Call, resource: ResourceType, *_: Any
) -> web.StreamResponse:
    """Handle a PUT of a namespace with fewer ``spec.finalizers``; the last one deletes it."""
    entry = _entry(responder, call, resource)
    options = write_options(call, "UpdateOptions")
    document = _body(call, "Namespace")
    check_kind(resource, document)
    responder.webhooks.check(call, resource, "UPDATE", document, entry.obj)
    entry = responder.verbs.finalize(resource, entry, document, options)
    return await responder.send_object(call, resource, entry)


def _stream(module: str, function: str) -> Callable[..., Awaitable[web.StreamResponse]]:
    """Return a handler that is imported with its first request: most clusters have none."""

    async def serve(*arguments: Any) -> web.StreamResponse:
        handler = getattr(import_module(f"{__package__}.{module}"), function)
        response: web.StreamResponse = await handler(*arguments)
        return response

    return serve


SUBRESOURCES: dict[str, Callable[..., Awaitable[web.StreamResponse]]] = {
    "approval": _part,
    "attach": _stream("remotecommand", "serve_attach"),
    "binding": _binding,
    "ephemeralcontainers": _part,
    "eviction": _eviction,
    "exec": _stream("remotecommand", "serve_exec"),
    "finalize": _finalize,
    "log": _stream("logs", "serve_log"),
    "portforward": _stream("portforward", "serve_portforward"),
    "resize": _part,
    "scale": _scale,
    "status": _part,
    "token": _token,
}
"""The handlers of subresources, by name; no two kinds have different ones of the same name."""
