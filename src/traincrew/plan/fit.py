"""Which workers of a job are given up for want of room, as it is stored.

The decisions are a kind's own; see `traincrew.plan.elasticjob_fit`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

GIVEN_UP = "WorkersGivenUp"
ALL_WANTED = "AllWorkersAskedFor"


class Fit(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The workers that are given up. All there is to know, so that any operator goes on from it."""

    given_up_indexes: str = ""
    """As of a Job's ``completedIndexes``; see `indexes`."""
    retry_index: int | None = None
    """The one of them whose pod is made all the same, to see whether there is room now."""
    last_given_up_time: str | None = None
    """When one was last found to have no room."""


def indexes(text: str, below: int) -> set[int]:
    """The numbers less than `below` in a text such as ``1,3-5``; what is not ours is left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), min(int(last or first) + 1, below)))
    return found


def text_of(numbers: Iterable[int]) -> str:
    """Numbers as a text such as ``1,3-5``."""
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
