"""Compares the transcripts of two clusters; only listed differences are permitted."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, NamedTuple

from .differences import Difference, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .transcript import Transcript

_CONTEXT = 2
"""Lines shown around a difference."""
_OF_COMPONENTS = re.compile(
    ".*, events of (kubelet|default-scheduler"
    "|(endpoint-slice|ipallocator-repair|job|node|statefulset|taint-eviction)-controller)"
)
"""Sections that components of Kubernetes have written, on a real cluster."""


class Comparison(NamedTuple):
    """The differences in one scenario.

    Attributes:
        text: The unlisted differences, for people; empty if there are none.
        used: The listed differences that were found.
        unlisted: The lines that are in no listed difference.
    """

    text: str
    used: set[str]
    unlisted: list[Finding]

    @property
    def may_be_chance(self) -> bool:
        """Whether a real cluster says the same as the embedded one, and its components say more.

        They do so when another program was faster or slower than usual. If they say it again in
        another run, it is no chance.
        """
        return bool(self.unlisted) and all(
            each.side == "real" and _OF_COMPONENTS.fullmatch(each.section) for each in self.unlisted
        )


def compare(
    scenario: str, embedded: Transcript, real: Transcript, differences: Iterable[Difference]
) -> Comparison:
    """Compare the transcripts of one scenario."""
    listed = list(differences)
    used: set[str] = set()
    unlisted: list[Finding] = []

    def is_listed(finding: Finding) -> bool:
        found = {each.name for each in listed if each.covers(scenario, finding)}
        used.update(found)
        if not found:
            unlisted.append(finding)
        return bool(found)

    parts = []
    for section in sorted(embedded.keys() | real.keys()):
        old, new = embedded.get(section, []), real.get(section, [])
        if old == new:
            continue
        part = _differing(section, old, new, is_listed)
        if part:
            parts.append("\n".join([f"== {section}", *part]))
    return Comparison("\n".join(parts), used, unlisted)


def _differing(section: str, old: list[str], new: list[str], is_listed: object) -> list[str]:
    """Return a section's unlisted differences with some context; empty if there are none."""
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
