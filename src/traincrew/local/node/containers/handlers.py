"""Handlers of probes and lifecycle hooks: a command, an HTTP request, a connection, or a sleep."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from traincrew.local.node.runtime.commands import run_command
from traincrew.local.node.runtime.processes import StartFailedError

if TYPE_CHECKING:
    from traincrew.local.node.runtime.forkserver import ForkServer
    from traincrew.local.node.runtime.instances import Instance

__all__ = ["Target", "act"]

Document = Mapping[str, Any]

_BODY_LIMIT = 10 * 1024


class Target(NamedTuple):
    """The container that a handler acts on."""

    fork_server: ForkServer
    instance: Instance
    container: Document
    address: str


async def act(target: Target, handler: Document, seconds: float | None) -> tuple[bool, str]:
    """Run the handler of a probe or hook.

    Args:
        target: The container.
        handler: With one of `exec`, `httpGet`, `tcpSocket`, `grpc`, `sleep`.
        seconds: Timeout; None for no limit.

    Returns:
        Whether it succeeded, and its output or the reason of the failure.
    """
    try:
        async with asyncio.timeout(seconds):
            if (command := handler.get("exec")) is not None:
                result = await run_command(
                    target.fork_server, target.instance, list(command.get("command") or ())
                )
                return result.exit_code == 0, result.output
            if (request := handler.get("httpGet")) is not None:
                return await _http(target, request)
            if (pause := handler.get("sleep")) is not None:
                await asyncio.sleep(float(pause.get("seconds", 0)))
                return True, ""
            socket = handler.get("tcpSocket") or handler.get("grpc") or {}
            return await _connect(target, socket)
    except TimeoutError:
        return False, f"command timed out after {seconds:g}s" if "exec" in handler else (
            f"no answer within {seconds:g}s"
        )
    except StartFailedError as error:
        return False, error.message
    except (OSError, aiohttp.ClientError, ValueError) as error:
        return False, str(error)


def _port(target: Target, port: Any) -> int:
    """Return the number of a port, which may be given by name.

    Raises:
        ValueError: The container has no such port.
    """
    if isinstance(port, int):
        return port
    for declared in target.container.get("ports") or ():
        if declared.get("name") == port:
            return int(declared["containerPort"])
    if str(port).isdigit():
        return int(port)
    raise ValueError(f"couldn't find port: {port!r} is not a port of the container")


async def _http(target: Target, request: Document) -> tuple[bool, str]:
    scheme = str(request.get("scheme") or "HTTP").lower()
    host = request.get("host") or target.address
    path = str(request.get("path") or "/")
    url = f"{scheme}://{host}:{_port(target, request.get('port'))}/{path.removeprefix('/')}"
    headers = {"User-Agent": "kube-probe/traincrew", "Accept": "*/*"}
    for header in request.get("httpHeaders") or ():
        headers[header["name"]] = str(header.get("value", ""))
    async with (
        # Certificates are not verified, as upstream.
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
        session.get(url, headers=headers) as answer,
    ):
        body = (await answer.content.read(_BODY_LIMIT)).decode("utf-8", "replace")
        if 200 <= answer.status < 400:
            return True, body
        return False, f"HTTP probe failed with statuscode: {answer.status}"


async def _connect(target: Target, socket: Document) -> tuple[bool, str]:
    host = socket.get("host") or target.address
    _, writer = await asyncio.open_connection(host, _port(target, socket.get("port")))
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True, ""
