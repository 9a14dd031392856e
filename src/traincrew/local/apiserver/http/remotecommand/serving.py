"""The subresources ``pods/NAME/exec`` and ``attach``: who runs what, over which framing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.http.messages import is_websocket
from traincrew.local.apiserver.http.node_backend import StreamRefusedError
from traincrew.local.apiserver.http.pods import check_host, container_of, node_of, pod_of
from traincrew.local.apiserver.http.spdy import asks_for_spdy
from traincrew.local.apiserver.values.errors import bad_request

from .spdy import run_over_spdy
from .websocket import check_protocols, run_over_websocket

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from traincrew.local.apiserver.http.node_backend import ExecStreams
    from traincrew.local.apiserver.http.responder import Responder
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["serve_attach", "serve_exec"]


async def serve_exec(
    responder: Responder,
    call: Call,
    resource: ResourceType,
    request: web.BaseRequest,
    *_: Any,
) -> web.StreamResponse:
    """Run a command in a container.

    Raises:
        StatusError: 400 for an unknown container, no command, or a request without an upgrade.
    """
    pod = pod_of(responder, call, resource)
    container = container_of(pod, call.text("container"))
    command = call.query.get("command", [])
    if not command:
        raise bad_request("you must specify at least one command for the container")
    check_host(pod)
    node = node_of(responder)

    async def run(streams: ExecStreams) -> int:
        return await node.exec(pod, container, command, streams)

    return await _serve(call, request, run)


async def serve_attach(
    responder: Responder,
    call: Call,
    resource: ResourceType,
    request: web.BaseRequest,
    *_: Any,
) -> web.StreamResponse:
    """Attach a client to a container's main process.

    Raises:
        StatusError: 400 for an unknown container, or a request without an upgrade.
    """
    pod = pod_of(responder, call, resource)
    container = container_of(pod, call.text("container"))
    check_host(pod)
    node = node_of(responder)

    async def run(streams: ExecStreams) -> int:
        await node.attach(pod, container, streams)
        return 0

    return await _serve(call, request, run)


async def _serve(
    call: Call, request: web.BaseRequest, run: Callable[[ExecStreams], Awaitable[int]]
) -> web.StreamResponse:
    async def outcome(streams: ExecStreams) -> Document:
        try:
            return _exit_status(await run(streams))
        except StreamRefusedError as error:
            return bad_request(str(error)).status()

    if is_websocket(request):
        check_protocols(request)
        return await run_over_websocket(call, request, outcome)
    if asks_for_spdy(request):
        return await run_over_spdy(call, request, outcome)
    raise bad_request("Upgrade request required")


def _exit_status(code: int) -> Document:
    """Return the Status for a command's exit code."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
