"""Checks of documents that are made here, and by a chart: what is wrong at which field.

A field has ``[]`` for the index of a list and ``[*]`` for the key of a mapping that `Each` goes
over, from the outermost to the innermost.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.api.expressions import Get, Node, text
from traincrew.api.meta import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traincrew.api.expressions import Scope


Checks = tuple["Check | First | Each", ...]


class Find(Struct, frozen=True):
    """The first entry of a list for which something is so.

    Attributes:
        over: The list.
        variable: The name of each entry in the test.
        test: What is to be so.
        found: The name of the entry that is found; it is not set if there is none.
        before: Whether only entries before the one of the innermost `Each` are asked.
    """

    over: Get
    variable: str
    test: Node
    found: str
    before: bool = False


class Check(Struct, frozen=True):
    """What a field must not be.

    Attributes:
        field: The field.
        wrong: Whether it is wrong.
        says: What is wrong, and the fix.
        find: What is looked for first.
    """

    field: str
    wrong: Node
    says: Node
    find: Find | None = None


class First(Struct, frozen=True):
    """Checks of one thing, of which the first that finds something says it."""

    checks: tuple[Check, ...]


class Each(Struct, frozen=True):
    """Checks of each entry of a list, or of each value of a mapping.

    Attributes:
        over: The list or mapping.
        variable: The name of an entry in the checks.
        checks: The checks.
        mapping: Whether it is a mapping; then the key is the variable ``<variable>Key``.
    """

    over: Get
    variable: str
    checks: Checks
    mapping: bool = False

    @property
    def at(self) -> str:
        """Name of the variable that is the index or key."""
        return f"{self.variable}Key"


def check(field: str, wrong: Node, *says: str | Node, find: Find | None = None) -> Check:
    """Return a check; what it says may have several parts."""
    return Check(field, wrong, text(*says), find)


def problems(checks: Checks, scope: Scope) -> Iterator[Problem]:
    """Yield what is wrong."""
    return _problems(checks, scope, ())


def _problems(checks: Checks, scope: Scope, places: tuple[Any, ...]) -> Iterator[Problem]:
    for each in checks:
        match each:
            case Each():
                given = each.over.value(scope) or ()
                for place, entry in given.items() if isinstance(given, dict) else enumerate(given):
                    inside = {**scope, each.variable: entry, each.at: place}
                    yield from _problems(each.checks, inside, (*places, place))
            case First(several):
                yield from islice(_problems(several, scope, places), 1)
            case Check(field, wrong, says, find):
                seen = scope
                if find is not None:
                    seen = {**scope, find.found: _found(find, scope, places)}
                if wrong.value(seen):
                    yield Problem(at(field, places), says.value(seen))


def _found(find: Find, scope: Scope, places: tuple[Any, ...]) -> Any:
    entries = find.over.value(scope) or ()
    return next(
        (
            entry
            for entry in (entries[: places[-1]] if find.before else entries)
            if find.test.value({**scope, find.variable: entry})
        ),
        None,
    )


def at(field: str, places: Sequence[Any]) -> str:
    """Return a field with indexes and keys in the place of ``[]`` and ``[*]``."""
    for place in places:
        mark = min((mark for mark in ("[]", ".[*]") if mark in field), key=field.index)
        field = field.replace(mark, f"[{place}]" if mark == "[]" else f".{place}", 1)
    return field
