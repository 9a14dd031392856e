"""Websockets, as this server opens them."""

from __future__ import annotations

from aiohttp import web

__all__ = ["open_websocket"]

# Upstream: 32 MiB. kubectl sends at most 32 KiB at a time, the Python client what it is given, or
# a mebibyte of a port.
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024


def open_websocket(*protocols: str) -> web.WebSocketResponse:
    """Return a websocket for one of the subprotocols.

    It never compresses: a small compressed message may be a huge one. A longer
    message than `_MAX_MESSAGE_BYTES` closes it (1009).
    """
    return web.WebSocketResponse(
        protocols=protocols, max_msg_size=_MAX_MESSAGE_BYTES, compress=False
    )
