"""Text for terminals: what a cluster has sent must not control them.

A name, a message or a log may contain control sequences that move the cursor, set the title, or
make a terminal answer. All that the program writes goes through one of two places: standard output
and error are a `SafeStream`, and the lines of a `Console` are painted with `shown`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TextIO

from traincrew.plan.shared.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SafeStream", "shown", "unguarded"]

_COLOUR = re.compile(r"(\x1b\[[0-9;:]*m)")
_RESET = "\x1b[0m"


class SafeStream:
    """A text stream that takes text and line breaks, and drops what would control a terminal.

    Args:
        stream: Where the text goes. Everything but writing is left to it.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text; return its length."""
        self.stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def unguarded(stream: Any) -> Any:
    """Return the stream that takes everything, for our own control sequences."""
    return stream.stream if isinstance(stream, SafeStream) else stream


def shown(text: str, *, colour: bool) -> str:
    """Return a text without what would control a terminal.

    Args:
        text: The text. Its line breaks and tabs stay.
        colour: Keep colours, and end with none.
    """
    if text.isprintable():
        return text
    if not colour:
        return printable(text)
    parts = _COLOUR.split(text)
    if len(parts) == 1:
        return printable(text)
    safe = "".join(part if number % 2 else printable(part) for number, part in enumerate(parts))
    return safe if safe.endswith(_RESET) else safe + _RESET
