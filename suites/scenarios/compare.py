"""Compares what two clusters told, and lets only differences pass that are listed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .differences import Difference
    from .story import Story

_CONTEXT = 2
"""Lines shown around a difference."""


class Finding(NamedTuple):
    """A line that only one of the clusters has."""

    section: str
    side: str
    """`embedded` or `real`."""
    line: str


class Comparison(NamedTuple):
    """What differs in one scenario.

    Attributes:
        text: The differences nobody has listed, for people; empty when there are none.
        used: The listed differences that were met.
    """

    text: str
    used: set[str]


def compare(
    scenario: str, embedded: Story, real: Story, differences: Iterable[Difference]
) -> Comparison:
    """Compare the stories of one scenario."""
    listed = list(differences)
    used: set[str] = set()

    def is_listed(finding: Finding) -> bool:
        found = {each.name for each in listed if each.covers(scenario, finding)}
        used.update(found)
        return bool(found)

    parts = []
    for section in sorted(embedded.keys() | real.keys()):
        old, new = embedded.get(section, []), real.get(section, [])
        if old == new:
            continue
        part = _differing(section, old, new, is_listed)
        if part:
            parts.append("\n".join([f"== {section}", *part]))
    return Comparison("\n".join(parts), used)


def _differing(section: str, old: list[str], new: list[str], is_listed: object) -> list[str]:
    """The unlisted part of a section's difference, with some context; empty if there is none."""
    assert callable(is_listed)
    shown: list[str] = []
    wanted: set[int] = set()
    for line in difflib.ndiff(old, new):
        mark, text = line[0], line[2:]
        if mark == "?":
            continue
        if mark != " " and is_listed(Finding(section, "embedded" if mark == "-" else "real", text)):
            continue
        if mark != " ":
            wanted.update(range(len(shown) - _CONTEXT, len(shown) + _CONTEXT + 1))
        shown.append({"-": "embedded", "+": "real    ", " ": "        "}[mark] + f" | {text}")
    return [line for index, line in enumerate(shown) if index in wanted]
