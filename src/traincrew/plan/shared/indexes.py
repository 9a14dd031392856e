"""Sets of indexes as text, as in a Job's ``completedIndexes``: ``1,3-5``."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def parse(text: str, below: int) -> set[int]:
    """Return the numbers less than `below` in a text such as ``1,3-5``; skip malformed parts."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), min(int(last or first) + 1, below)))
    return found


def text_of(numbers: Iterable[int]) -> str:
    """Format numbers as a text such as ``1,3-5``."""
    ordered = sorted(numbers)
    if not ordered:
        return ""
    gaps = [(before, after) for before, after in pairwise(ordered) if after != before + 1]
    firsts = [ordered[0], *(after for _, after in gaps)]
    lasts = [*(before for before, _ in gaps), ordered[-1]]
    return ",".join(
        str(first) if first == last else f"{first}-{last}"
        for first, last in zip(firsts, lasts, strict=True)
    )
