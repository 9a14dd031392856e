"""Websockets, as this server opens them."""

from __future__ import annotations

from aiohttp import web

from traincrew.local.apiserver.values.errors import bad_request

__all__ = ["is_websocket", "offered", "open_websocket"]

# Upstream: 32 MiB. kubectl sends at most 32 KiB at a time, the Python client what it is given, or
# a mebibyte of a port.
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024


def is_websocket(request: web.BaseRequest) -> bool:
    """Return whether a request asks for a websocket."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


def offered(request: web.BaseRequest, header: str) -> list[str]:
    """Return the protocols that a client names in a header, its favourite first."""
    values = ",".join(request.headers.getall(header, []))
    return [each.strip() for each in values.split(",") if each.strip()]


async def open_websocket(request: web.BaseRequest, *protocols: str) -> web.WebSocketResponse:
    """Answer a request with a websocket for one of the subprotocols.

    It never compresses: a small compressed message may be a huge one. A longer
    message than `_MAX_MESSAGE_BYTES` closes it (1009).

    Raises:
        StatusError: 400 for a handshake that is not one of RFC 6455.
    """
    socket = web.WebSocketResponse(
        protocols=protocols, max_msg_size=_MAX_MESSAGE_BYTES, compress=False
    )
    try:
        await socket.prepare(request)
    except web.HTTPBadRequest as error:
        raise bad_request(f"unable to upgrade: {error.text}") from None
    return socket
