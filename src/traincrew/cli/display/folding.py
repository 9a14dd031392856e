"""Wraps lines for terminals between words.

A terminal itself breaks long lines within words. Files and pipes get whole lines, for the programs
that read them.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

_NARROWEST = 20


def columns_of(stream: TextIO) -> int | None:
    """Return the width of the terminal of a stream; None if it is not a terminal."""
    try:
        if not stream.isatty():
            return None
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def folded(text: str, columns: int | None, indent: int = 0) -> str:
    """Wrap one line between words; continuation lines are indented by two more columns.

    Args:
        text: The line. A word that is longer than a line is not broken.
        columns: The width of the terminal; None for no limit.
        indent: Number of columns in use on the left of every line.
    """
    if columns is None or indent + len(text) < columns:
        return text
    import textwrap

    leading = " " * (len(text) - len(text.lstrip()))
    lines = textwrap.wrap(
        text.lstrip(),
        max(columns - 1 - indent, _NARROWEST),
        initial_indent=leading,
        subsequent_indent=leading + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return ("\n" + " " * indent).join(lines)


def say(text: str) -> None:
    """Write lines to standard error, wrapped to the width of its terminal."""
    columns = columns_of(sys.stderr)
    sys.stderr.write("\n".join(_lines(text.rstrip("\n"), columns)) + "\n")
    sys.stderr.flush()


def _lines(text: str, columns: int | None) -> Iterator[str]:
    for line in text.split("\n"):
        yield folded(line, columns)
