"""``WWW-Authenticate``: how a registry wants to be asked (RFC 9110, section 11.6.1)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Challenge", "parse_challenges"]

_MAX_HEADER = 8192
_SCHEME = re.compile(r"[\s,]*([A-Za-z][A-Za-z0-9-]*)(?=\s|,|$)(?!\s*=)")
_PARAMETER = re.compile(r'[\s,]*([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


class Challenge(Struct, frozen=True):
    """One way to authenticate.

    Attributes:
        scheme: In lower case: ``bearer`` or ``basic``.
        parameters: Such as ``realm``, ``service`` and ``scope``; names in lower case.
    """

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """Parse the headers of an answer; what is malformed is left out."""
    found: list[Challenge] = []
    for header in headers:
        text = header[:_MAX_HEADER]
        position = 0
        while match := _SCHEME.match(text, position):
            position = match.end()
            parameters: dict[str, str] = {}
            while part := _PARAMETER.match(text, position):
                position = part.end()
                quoted, token = part[2], part[3]
                value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else token
                parameters.setdefault(part[1].lower(), value)
            found.append(Challenge(match[1].lower(), parameters))
    return found
