"""SPDY/3.1, by which kubectl runs commands and forwards ports where it has no websockets."""

from .connection import Connection, SpdyError, Stream, Transport
from .transport import UpgradedConnection, WebSocketTransport
from .upgrade import asks_for_spdy, negotiate

__all__ = [
    "Connection",
    "SpdyError",
    "Stream",
    "Transport",
    "UpgradedConnection",
    "WebSocketTransport",
    "asks_for_spdy",
    "negotiate",
]
