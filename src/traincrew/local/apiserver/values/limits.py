"""Limits of what one request may contain, so that none of them takes long to process.

A body is refused for its size before; but 3 MiB may hold a million values, each of which costs a
hundred times its bytes in memory, and nested values cost a function call for each level. Upstream,
which is compiled, has a limit for the depth only (10,000). A stored object may have twice the bytes
of a body, for its ``managedFields``.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from traincrew.engine.decoding import MAX_DEPTH, MAX_OBJECT_BYTES, MAX_VALUES

from .codec import DecodeError, decode
from .errors import StatusError

__all__ = [
    "MAX_DEPTH",
    "MAX_OBJECT_BYTES",
    "MAX_OBJECT_VALUES",
    "MAX_VALUES",
    "decode_request",
    "has_more_values",
    "refuse_deep",
    "refuse_large",
    "too_many_bytes",
    "too_many_values",
]

MAX_OBJECT_VALUES = 5 * MAX_VALUES
"""Values in one stored object; ``managedFields`` may have thrice as many as the rest."""

# What precedes each value, except those that directly follow a bracket: with all up to the next
# one, which may contain texts; also a text without an end, so that nothing is read twice.
_VALUE = re.compile(
    rb'[\[{,](?:[^\[{,"]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+',
    re.DOTALL,
)


def decode_request(data: bytes) -> Any:
    """Decode JSON that a client has sent.

    Raises:
        DecodeError: the bytes are not JSON, or it is nested too deeply.
        StatusError: 413 for more than `MAX_VALUES` values.
    """
    if has_more_values(data, MAX_VALUES):
        raise too_many_values()
    document = decode(data)
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        refuse_deep(document)
    return document


def has_more_values(data: bytes, limit: int) -> bool:
    """Return whether JSON holds more values than this, without decoding it.

    An empty list or object may count twice.
    """
    if len(data) <= limit:
        return False
    # Those in texts are included, so this may be too many, but is nearly always enough to know.
    if data.count(b"[") + data.count(b"{") + data.count(b",") < limit:
        return False
    return sum(1 for _ in islice(_VALUE.finditer(data), limit)) == limit


def refuse_large(data: bytes) -> None:
    """Refuse an object that is too large to be stored: many patches may add up to one.

    Args:
        data: the object as JSON.

    Raises:
        StatusError: 413 for more than `MAX_OBJECT_BYTES` bytes or `MAX_OBJECT_VALUES` values.
    """
    if len(data) > MAX_OBJECT_BYTES:
        limit = f"limit is {MAX_OBJECT_BYTES}"
    elif has_more_values(data, MAX_OBJECT_VALUES):
        limit = f"more than {MAX_OBJECT_VALUES} values"
    else:
        return
    message = f"Request entity too large: {limit}"
    raise StatusError(413, "RequestEntityTooLarge", f"{message}, with what is stored already")


def too_many_values() -> StatusError:
    """Return 413 for a body of more than `MAX_VALUES` values."""
    message = f"Request entity too large: more than {MAX_VALUES} values"
    return StatusError(413, "RequestEntityTooLarge", message)


def too_many_bytes() -> StatusError:
    """Return 413 for a body whose aliases expand to more than `MAX_OBJECT_BYTES`."""
    message = f"Request entity too large: limit is {MAX_OBJECT_BYTES}, with aliases expanded"
    return StatusError(413, "RequestEntityTooLarge", message)


def refuse_deep(document: Any) -> None:
    """Refuse a document of more than `MAX_DEPTH` levels.

    Raises:
        DecodeError: it has more.
    """
    level = [document]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for each in level
            if type(each) is dict or type(each) is list
            for item in (each.values() if type(each) is dict else each)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return
    raise DecodeError("exceeded max depth")
