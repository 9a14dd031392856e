"""A line of output."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from traincrew.cli.display.states import Tone


class Line(NamedTuple):
    """One line to show.

    Attributes:
        text: The text, without line breaks and control characters.
        tone: How good the reported state is.
        source: The pod that wrote it (``pod`` or ``pod/container``); empty for our own lines.
        at: Seconds since the start, for our own lines that have a time.
    """

    text: str
    tone: Tone = "plain"
    source: str = ""
    at: float | None = None
