"""GET and LIST of resources that nothing stores: the node measures them when they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.reads.lists import Page
from traincrew.local.apiserver.reads.selection import Selection
from traincrew.local.apiserver.storage import Entry
from traincrew.local.apiserver.values.errors import StatusError, not_found

from . import answers

if TYPE_CHECKING:
    from aiohttp import web

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.values.usage import Usage

    from .responder import Responder

__all__ = ["serve_measured"]


async def serve_measured(responder: Responder, call: Call, resource: ResourceType) -> web.Response:
    """Serve a GET or LIST of what stored objects use.

    Raises:
        StatusError: 400 for its selectors, 404, 406, or 503 without a node that measures.
    """
    representation = responder.representation(call, resource)
    target, storage = call.target, responder.verbs.storage
    if target.name is not None:
        entry = storage.get(resource.measures, (target.namespace or "", target.name))
        if entry is None:
            raise not_found(resource.measures, "", target.name)
        usage = await _usage(responder, resource)
        measured = _measured(resource, entry, usage)
        if measured is None:
            path = f"{target.namespace}/{target.name}" if target.namespace else target.name
            raise not_found(resource.kind.lower(), resource.group, path)
        return await responder.send_object(call, resource, measured)
    selection = Selection(call, resource)
    usage = await _usage(responder, resource)
    entries = [
        measured
        for entry in storage.scan(resource.measures, selection.namespace)
        if (measured := _measured(resource, entry, usage)) and selection.matches(measured)
    ]
    body = representation.page(Page(entries, storage.revision, "", None))
    return answers.payload(body, content_type=representation.content_type)


async def _usage(responder: Responder, resource: ResourceType) -> Usage:
    usage = None if responder.node is None else await responder.node.usage()
    if usage is None:
        what = f"{resource.plural}.{resource.group}"
        text = f"the server is currently unable to handle the request: no node here measures {what}"
        raise StatusError(503, "ServiceUnavailable", text)
    return usage


def _measured(resource: ResourceType, entry: Entry, usage: Usage) -> Entry | None:
    """Return what a stored object uses, as an object of the resource."""
    measure = resource.strategy.measure
    assert measure is not None
    obj = measure(entry.obj, usage)
    return None if obj is None else Entry(entry.key, entry.revision, obj)
