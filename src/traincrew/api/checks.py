"""Checks of documents that are made here, and by a chart: what is wrong at which field."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.api.expressions import Get, Node, Not, get, misses, text
from traincrew.api.meta import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    """What a field must not be, and what is said then; something may be looked for before."""

    field: Get
    wrong: Node
    says: Node
    find: Find | None = None


class First(Struct, frozen=True):
    """Checks of one thing, of which the first that finds something says it."""

    checks: tuple[Check, ...]


class Each(Struct, frozen=True):
    """Checks of each entry of a list, or of each value of a mapping.

    The index or key is another variable, ``<variable>Key``.
    """

    over: Get
    variable: str
    checks: Checks
    mapping: bool = False

    def path(self, paths: Mapping[str, str], place: Any) -> str:
        """Return the path of the entry at an index or key."""
        path = path_of(self.over, paths)
        return f"{path}.{place}" if self.mapping else f"{path}[{place}]"


def check(field: str, wrong: Node, *says: str | Node, find: Find | None = None) -> Check:
    """Return a check; what it says may have several parts."""
    return Check(get(field), wrong, text(*says), find)


def required(field: str, says: str) -> Check:
    """Return the check that a field is not empty."""
    return check(field, Not(get(field)), says)


def matching(field: str, pattern: str, says: str) -> Check:
    """Return the check that a field is empty, or a pattern matches it."""
    return check(field, misses(get(field), pattern), says)


def path_of(field: Get, paths: Mapping[str, str]) -> str:
    """Return the path of a field, by those of the variables; that of a document is empty."""
    return ".".join((paths.get(field.variable, ""), *field.keys)).lstrip(".")


def problems(checks: Checks, scope: Scope) -> Iterator[Problem]:
    """Yield what is wrong."""
    return _problems(checks, scope, {}, 0)


def _problems(
    checks: Checks, scope: Scope, paths: Mapping[str, str], index: int
) -> Iterator[Problem]:
    for each in checks:
        match each:
            case Each(over, variable, inner, mapping):
                given = over.value(scope) or {}
                for place, entry in given.items() if mapping else enumerate(given):
                    within = {**scope, variable: entry, f"{variable}Key": place}
                    inside = {**paths, variable: each.path(paths, place)}
                    yield from _problems(inner, within, inside, 0 if mapping else place)
            case First(several):
                yield from islice(_problems(several, scope, paths, index), 1)
            case Check(field, wrong, says, find):
                seen = scope if find is None else {**scope, find.found: _found(find, scope, index)}
                if wrong.value(seen):
                    yield Problem(path_of(field, paths), says.value(seen))


def _found(find: Find, scope: Scope, index: int) -> Any:
    entries = (find.over.value(scope) or [])[: index if find.before else None]
    return next((each for each in entries if find.test.value({**scope, find.variable: each})), None)
