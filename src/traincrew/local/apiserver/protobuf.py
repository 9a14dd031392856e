"""Request bodies in Kubernetes' protobuf form."""

from __future__ import annotations

from typing import Any

__all__ = ["ProtobufError", "decode"]


class ProtobufError(ValueError):
    """The bytes are not a message this server knows."""


def decode(body: bytes) -> dict[str, Any]:
    """Decode a body that starts with ``k8s\\0``.

    Raises:
        ProtobufError: the message is malformed or of a kind the server does not know.
    """
    raise ProtobufError("no message table")
