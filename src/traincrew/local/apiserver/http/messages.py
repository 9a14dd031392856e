"""Websockets, as this server opens them."""

from __future__ import annotations

from aiohttp import web

from traincrew.local.apiserver.values.errors import bad_request

__all__ = ["accept_websocket", "is_websocket", "new_websocket", "offered", "open_websocket"]

# Upstream: 32 MiB. kubectl sends at most 32 KiB at a time, the Python client what it is given, or
# a mebibyte of a port.
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024


def is_websocket(request: web.BaseRequest) -> bool:
    """Return whether a request asks for a websocket."""
    headers = request.headers
    return (
        headers.get("Upgrade", "").lower() == "websocket"
        and "upgrade" in headers.get("Connection", "").lower()
    )


def offered(request: web.BaseRequest, header: str) -> list[str]:
    """Return the protocols that a client names in a header, its favourite first."""
    values = ",".join(request.headers.getall(header, []))
    return [each.strip() for each in values.split(",") if each.strip()]


def new_websocket(*protocols: str) -> web.WebSocketResponse:
    """Return a websocket for one of the subprotocols, to be accepted.

    It never compresses: a small compressed message may be a huge one. A longer
    message than `_MAX_MESSAGE_BYTES` closes it (1009).
    """
    return web.WebSocketResponse(
        protocols=protocols, max_msg_size=_MAX_MESSAGE_BYTES, compress=False
    )


async def accept_websocket(socket: web.WebSocketResponse, request: web.BaseRequest) -> None:
    """Answer a request with a websocket.

    Raises:
        StatusError: 400 for a handshake that is not one of RFC 6455.
    """
    try:
        await socket.prepare(request)
    except web.HTTPBadRequest as error:
        raise bad_request(f"unable to upgrade: {error.text}") from None


async def open_websocket(request: web.BaseRequest, *protocols: str) -> web.WebSocketResponse:
    """Answer a request with a websocket for one of the subprotocols; see both parts.

    Raises:
        StatusError: 400 for a handshake that is not one of RFC 6455.
    """
    socket = new_websocket(*protocols)
    await accept_websocket(socket, request)
    return socket
