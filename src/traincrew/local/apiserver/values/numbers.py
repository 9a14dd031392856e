"""Whole numbers of 64 bits: Go's ``int64``, as the options of requests are."""

from __future__ import annotations

import re

__all__ = ["int64", "is_int64"]

# More digits need not be read: the interpreter limits them, too.
_INTEGER = re.compile(r"[+-]?[0-9]{1,100}")
_LIMIT = 1 << 63


def is_int64(value: int) -> bool:
    """Return whether a number has 64 bits."""
    return -_LIMIT <= value < _LIMIT


def int64(text: str) -> int | None:
    """Return a number as Go's ``strconv.ParseInt`` reads it; None for any other text."""
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if is_int64(value) else None
