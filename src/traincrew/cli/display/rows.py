"""Rows of tables, and of the block at the bottom of a terminal: what is left out there.

Knows widths and no job: `traincrew.cli.terminal.block` says what the rows are about, and
`traincrew.cli.display.console` draws them as wide as the terminal is at that moment.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.cli.display.states import Sign

GAP = "  "
SHORTEST_NAME = 8
SHORTEST_BAR = 8
LONGEST_BAR = 20
FULL, EMPTY = "█", "░"
PLAIN_FULL, PLAIN_EMPTY = "#", "-"


class Row(NamedTuple):
    """One row; what it is about, from the most important word to the least important one.

    Attributes:
        name: Stands first, and is shortened for the words.
        words: The last of them are left out if not all fit.
        endings: Ways to say the last word, from the longest one; the first that fits is shown.
        done: A fraction, drawn as a progress bar in place of the name; None for no bar.
        sign: Stands before the first word.
    """

    name: str = ""
    words: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    done: float | None = None
    sign: Sign | None = None


def width_of(text: str) -> int:
    """Return the number of terminal columns of a text."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """Shorten text to a number of terminal columns, with an ellipsis."""
    if width_of(text) <= columns:
        return text
    used = 0
    for index, character in enumerate(text):
        used += _columns(character)
        if used > columns - 1:
            return text[:index] + "…"
    return text


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: each column is as wide as its longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def drawn(row: Row, columns: int, *, plain: bool = False) -> str:
    """Return the text of a row.

    Args:
        row: The row.
        columns: Its greatest width.
        plain: Draw bar and sign with characters of ASCII.
    """
    if row.sign is not None:
        first = row.sign.before(row.words[0], plain=plain)
        row = row._replace(words=(first, *row.words[1:]))
    if row.done is None:
        wanted = sum(len(GAP) + width_of(word) for word in row.words)
        text = cut(row.name, max(columns - wanted, min(SHORTEST_NAME, columns)))
    else:
        # Its length depends on the terminal alone, so that it grows only with what is done.
        length = min(max(columns // 4, SHORTEST_BAR), LONGEST_BAR, columns)
        text = bar(row.done, length, plain=plain)
    words = []
    used = width_of(text)
    for word in row.words:
        if used + len(GAP) + width_of(word) > columns:
            break
        words.append(word)
        used += len(GAP) + width_of(word)
    else:
        fitting = (one for one in row.endings if used + len(GAP) + width_of(one) <= columns)
        words += [one for one in [next(fitting, "")] if one]
    return GAP.join(filter(None, (text, *words)))


def bar(done: float, length: int, *, plain: bool = False) -> str:
    """Return a progress bar; it is full only if all is done.

    Args:
        done: The fraction.
        length: Its width in columns.
        plain: Use characters of ASCII.
    """
    full, empty = (PLAIN_FULL, PLAIN_EMPTY) if plain else (FULL, EMPTY)
    filled = int(min(max(done, 0.0), 1.0) * length)
    return full * filled + empty * (length - filled)
