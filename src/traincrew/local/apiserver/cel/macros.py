"""Macros: comprehensions over lists and maps, ``has``, and those of optional values.

Which calls are macros, what they expand to and therefore cost: cel-go's ``parser/macro.go``,
``ext/comprehensions.go`` (two variables), ``ext/lists.go`` (``sortBy``) and ``cel/library.go``
(``optMap``). They are compiled directly; the costs are those of the expansions.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Protocol

from . import comprehensions, parts
from .celtypes import BOOL, DYN, INT, Type, assignable
from .costs import sorting_cost
from .overloads import COMPARABLE
from .parts import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from .syntax import Node

__all__ = ["MACROS", "Scope"]


class Scope(Protocol):
    """What macros need of the compiler: nested expressions, variables, errors.

    Attributes:
        unknown_size: the size of values inside of a computed one, as upstream takes it.
    """

    unknown_size: float

    def compile(self, node: Node) -> Part:
        """Compile an expression."""

    def variables(self, *declared: tuple[str, Type]) -> AbstractContextManager[tuple[int, ...]]:
        """Declare variables for the expressions that are compiled meanwhile; yield their slots."""

    def fail(self, node: Node, message: str) -> Part:
        """Report an error of an expression's types."""

    def refuse(self, node: Node, message: str) -> Part:
        """Report an expression that is no CEL; only such errors are reported then."""

    def mismatch(
        self, node: Node, name: str, kinds: Sequence[Type], *, member: bool = False
    ) -> Part:
        """Report that no overload of a function takes these types."""


_RESULTS = frozenset({"__result__", "@result"})
"""Variables that the expansions use themselves."""

_SIZED = frozenset({"string", "bytes", "list", "map"})
_LIST, _MAP = 10, 30
"""What it costs to create a list and a map."""


class _Range:
    """The list or map that a comprehension iterates over, and its variables.

    Attributes:
        failed: what stands for the expression if the variables or the range are invalid.
        values: the list or map.
        variables: names and types: of the item or key; or of the index and item, or key and value.
    """

    def __init__(self, scope: Scope, target: Node, names: Sequence[Node]) -> None:
        self.failed = _invalid_names(scope, names)
        self.values = scope.compile(target)
        kind = self.values.kind
        of: tuple[Type, ...] = ()
        if kind.name == "dyn":
            of = DYN, DYN
        elif kind.name == "list":
            of = INT, kind.of[0]
        elif kind.name == "map":
            of = kind.of
        elif self.failed is None:
            text = f"expression of type '{kind}' cannot be range of a comprehension"
            self.failed = scope.fail(target, f"{text} (must be list, map, or dynamic)")
        if len(names) == 1:
            of = of[1:] if kind.name == "list" else of[:1]
        of = tuple(
            _unknown(scope, each) if kind.computed or math.isinf(each.size) else each for each in of
        )
        self.variables = tuple((name.value, each) for name, each in zip(names, of, strict=False))

    def part(self, run: Callable[..., object], kind: Type, each: float, after: float) -> Part:
        """Return the comprehension.

        Args:
            run: evaluates it.
            kind: type of its value.
            each: cost of a turn.
            after: cost of everything else.
        """
        count = self.values.kind.size
        cost = self.values.cost + (count * each if count else 0) + after
        return Part(run, kind, cost, self.values.weight + 1)


def _unknown(scope: Scope, kind: Type) -> Type:
    """Return the type of a value inside of a computed one."""
    return kind.resized(scope.unknown_size) if kind.name in _SIZED else kind


def _invalid_names(scope: Scope, names: Sequence[Node]) -> Part | None:
    for name in names:
        if name.kind != "name":
            return scope.refuse(name, "argument must be a simple name")
        if name.value in _RESULTS:
            return scope.refuse(name, "iteration variable overwrites accumulator variable")
    if len(names) == 2 and names[0].value == names[1].value:
        return scope.refuse(names[1], f"duplicate variable name: {names[0].value}")
    return None


def _quantified(scope: Scope, node: Node, target: Node, arguments: list[Node]) -> Part:
    """Compile ``all`` and ``exists``."""
    *names, predicate = arguments
    over = _Range(scope, target, names)
    if over.failed:
        return over.failed
    with scope.variables(*over.variables) as slots:
        body = scope.compile(predicate)
    if not assignable(BOOL, body.kind):
        return scope.fail(predicate, f"expected type 'bool' but found '{body.kind}'")
    exists = node.value == "exists"
    run = comprehensions.quantifier(over.values.run, slots, body, exists)
    return over.part(run, BOOL, body.cost + (4 if exists else 3), 1)


def _exists_one(scope: Scope, node: Node, target: Node, arguments: list[Node]) -> Part:
    *names, predicate = arguments
    over = _Range(scope, target, names)
    if over.failed:
        return over.failed
    with scope.variables(*over.variables) as slots:
        body = scope.compile(predicate)
    if not assignable(BOOL, body.kind):
        return scope.mismatch(node, "_?_:_", [body.kind, INT, INT])
    return over.part(
        comprehensions.exists_one(over.values.run, slots, body), BOOL, body.cost + 2, 2
    )


def _collected(count: int, scope: Scope, node: Node, target: Node, arguments: list[Node]) -> Part:
    """Compile ``map``, ``filter`` and ``transformList``, of so many variables."""
    names, bodies = arguments[:count], arguments[count:]
    over = _Range(scope, target, names)
    if over.failed:
        return over.failed
    with scope.variables(*over.variables) as slots:
        if node.value == "filter":
            bodies = [*bodies, names[0]]
        *conditions, body = map(scope.compile, bodies)
    kind = Type("list", (body.kind,), over.values.kind.size, computed=True)
    condition = conditions[0] if conditions else None
    if condition and not assignable(BOOL, condition.kind):
        return scope.mismatch(node, "_?_:_", [condition.kind, kind, kind])
    run = comprehensions.collect(over.values.run, slots, condition, body)
    each = body.cost + 2 + _LIST + (condition.cost if condition else 0)
    return over.part(run, kind, each, _LIST + 1)


def _mapped(scope: Scope, node: Node, target: Node, arguments: list[Node]) -> Part:
    """Compile ``transformMap`` and ``transformMapEntry``."""
    names, bodies = arguments[:2], arguments[2:]
    over = _Range(scope, target, names)
    if over.failed:
        return over.failed
    entries = node.value == "transformMapEntry"
    with scope.variables(*over.variables) as slots:
        *conditions, body = map(scope.compile, bodies)
    condition = conditions[0] if conditions else None
    size = over.values.kind.size
    if not entries:
        of = over.variables[0][1], _unknown(scope, body.kind)
        kind = Type("map", of, size, computed=True)
    elif body.kind.name in {"map", "dyn"}:
        key, value = body.kind.of or (DYN, DYN)
        kind = Type("map", (key, _unknown(scope, value)), size, computed=True)
    else:
        result = Type("map", (DYN, DYN))
        return scope.mismatch(node, "cel.@mapInsert", [result, body.kind])
    if condition and not assignable(BOOL, condition.kind):
        return scope.mismatch(node, "_?_:_", [condition.kind, kind, kind])
    make = comprehensions.merge if entries else comprehensions.transform
    each = body.cost + (2 if entries else 3) + (condition.cost if condition else 0)
    return over.part(make(over.values.run, slots, condition, body), kind, each, _MAP + 1)


def _sorted_by(scope: Scope, node: Node, target: Node, arguments: list[Node]) -> Part:
    name, key = arguments
    if target.kind in {"const", "map"}:
        text = "sortBy can only be applied to a list, identifier, comprehension, call or select"
        return scope.refuse(target, f"{text} expression")
    over = _Range(scope, target, [name])
    if over.failed:
        return over.failed
    with scope.variables(*over.variables) as slots:
        body = scope.compile(key)
    kind, kinds = over.values.kind, Type("list", (body.kind,))
    if kind.name == "map" or body.kind.name not in COMPARABLE:
        return scope.mismatch(node, "@sortByAssociatedKeys", [kind, kinds], member=True)
    run = comprehensions.sort_by(over.values.run, slots, body)
    # The list is bound to a variable, its keys are collected, and it is sorted.
    after = _LIST + 1 + (1 + _LIST + 1) + sorting_cost(kind.size, body.kind)
    return over.part(run, kind, body.cost + 2 + _LIST, after)


def _optional(scope: Scope, node: Node, target: Node, arguments: list[Node]) -> Part:
    """Compile ``optMap`` and ``optFlatMap``."""
    name, expression = arguments
    if name.kind != "name":
        return scope.refuse(name, f"{node.value}() variable name must be a simple identifier")
    operand = scope.compile(target)
    if operand.kind.name not in {"optional", "dyn"}:
        return scope.mismatch(node, node.value, [operand.kind], member=True)
    inner = operand.kind.of[0] if operand.kind.of else DYN
    with scope.variables((name.value, inner)) as (slot,):
        body = scope.compile(expression)
    flat = node.value == "optFlatMap"
    kind = body.kind if flat else Type("optional", (body.kind,), body.kind.size)
    run = parts.optional_map(operand.run, slot, body, flat=flat)
    return Part(run, kind, operand.cost + body.cost + 2, operand.weight + body.weight + 2)


MACROS: dict[tuple[str, int], Callable[[Scope, Node, Node, list[Node]], Part]] = {
    **{(name, count): _quantified for name in ("all", "exists") for count in (2, 3)},
    **{(name, count): _exists_one for name in ("exists_one", "existsOne") for count in (2, 3)},
    ("map", 2): partial(_collected, 1),
    ("map", 3): partial(_collected, 1),
    ("filter", 2): partial(_collected, 1),
    ("transformList", 3): partial(_collected, 2),
    ("transformList", 4): partial(_collected, 2),
    **{(f"transformMap{end}", count): _mapped for end in ("", "Entry") for count in (3, 4)},
    ("sortBy", 2): _sorted_by,
    ("optMap", 2): _optional,
    ("optFlatMap", 2): _optional,
}
"""Macros with a target, by name and number of arguments; calls with other numbers are none."""
