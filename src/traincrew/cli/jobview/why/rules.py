"""Rules that recognize a cause by the words of a message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.jobview.why.facts import brief

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Match", "Rule", "first"]


class Rule(NamedTuple):
    """Recognizes a cause.

    Attributes:
        cause: Its name.
        pattern: A regular expression that a message of the cause contains, in any case of letters.
        text: What it means; groups of the pattern may be used, and ``{subject}``.
        fix: What to do; the same names, and ``{namespace}``, ``{pod}``, ``{image}``.
    """

    cause: str
    pattern: str
    text: str
    fix: str


class Match(NamedTuple):
    """A cause that was recognized, with its texts."""

    cause: str
    text: str
    fix: str


def first(rules: Iterable[Rule], message: str, words: Mapping[str, str]) -> Match | None:
    """Return the first rule that recognizes a message, with its texts filled in."""
    for rule in rules:
        found = re.search(rule.pattern, message, re.IGNORECASE | re.DOTALL)
        if found is not None:
            groups = {key: brief(value or "") for key, value in found.groupdict().items()}
            filled = {**words, **groups}
            return Match(rule.cause, rule.text.format(**filled), rule.fix.format(**filled))
    return None
