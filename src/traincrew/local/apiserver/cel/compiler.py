"""Compile CEL expressions: types, costs, and closures that evaluate them.

The messages of type errors are those of cel-go's checker, the estimated costs those of its
``checker/cost.go``: a rule that a real API server refuses is refused here.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.regex import RegexError, compile_pattern

from . import parts
from .celtypes import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    TYPE,
    UINT,
    Type,
    assignable,
    element_of,
    join,
)
from .conversions import CONVERSIONS, TypeName
from .library import FUNCTIONS
from .operators import COMPARISONS, OPERATORS, TRAVERSAL, CelError
from .overloads import NUMBERS, chosen, extreme, sum_of, up
from .parts import Part
from .program import CompilationError, Program, shown
from .signatures import NAMESPACES, OVERLOADS, estimate, price_of
from .syntax import CelSyntaxError, Node, Unsigned, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["compile_expression"]

_TYPE_NAMES = frozenset(
    {"bool", "bytes", "double", "duration", "int", "list", "map", "null_type", "optional_type"}
    | {"string", "timestamp", "type", "uint"}
)
_LITERALS: dict[Any, Type] = {
    bool: BOOL,
    int: INT,
    Unsigned: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}
_MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
_CHECKED: dict[str, Callable[[str], object]] = {
    "matches": compile_pattern,
    "duration": CONVERSIONS["duration"],
    "timestamp": CONVERSIONS["timestamp"],
}
_OPTIONAL_MACROS = frozenset({"optMap", "optFlatMap"})
_ORDERED = frozenset({"bool", "string", "bytes", "timestamp", "duration"})


class _Compiler:
    def __init__(self, variables: dict[str, Type]) -> None:
        self.scope = {name: (slot, kind) for slot, (name, kind) in enumerate(variables.items(), 1)}
        self.variables = frozenset(variables)
        self.slots = len(variables) + 1
        self.used: set[str] = set()
        self.errors: list[tuple[int, str]] = []
        self.mixed = False  # whether lists of several types may be written

    def fail(self, node: Node, message: str) -> Part:
        self.errors.append((node.at, message))
        return Part(parts.constant(None), DYN, 0, 0)

    def compile(self, node: Node) -> Part:
        handler = _HANDLERS.get(node.kind)
        if handler is not None:
            return handler(self, node)
        left, right = map(self.compile, node.args)
        return self.operation(node, left, right)

    # -- values

    def constant(self, node: Node) -> Part:
        value = node.value
        kind = _LITERALS[type(value)]
        if kind is STRING or kind is BYTES:
            kind = kind.resized(len(value.encode()) if kind is STRING else len(value))
        return Part(parts.constant(value), kind, 0, 0)

    def name(self, node: Node) -> Part:
        found = self.scope.get(node.value)
        if found is not None:
            self.used.add(node.value)
            slot, kind = found
            return Part(parts.variable(slot), kind, 1, 1)
        if node.value in _TYPE_NAMES:
            return Part(parts.constant(TypeName(node.value)), TYPE, 1, 1)
        return self.fail(node, f"undeclared reference to '{node.value}' (in container '')")

    def select(self, node: Node, *, test: bool = False) -> Part:
        operand = self.compile(node.args[0])
        kind, name = operand.kind, node.value
        wrapped = kind.name == "optional"
        if wrapped:
            kind = kind.of[0]
        found: Type | None = None
        if kind.name == "object":
            found = kind.field(name)
        elif kind.name == "map":
            found = kind.of[1]
        elif kind.name == "dyn":
            found = DYN
        if found is None:
            return self.fail(node, f"undefined field '{name}'")
        if test:
            return Part(parts.has(operand.run, name), BOOL, operand.cost, operand.weight + 1)
        cost = operand.cost + (kind.name != "dyn")
        if node.optional or wrapped:
            run = parts.select_optional(operand.run, name)
            return Part(run, Type("optional", (found,), found.size), cost, operand.weight + 1)
        return Part(parts.select(operand.run, name), found, cost, operand.weight + 1)

    def index(self, node: Node) -> Part:
        operand, index = map(self.compile, node.args)
        kind = operand.kind
        wrapped = kind.name == "optional"
        if wrapped:
            kind = kind.of[0]
        if kind.name == "list" and index.kind.name in {*NUMBERS, "dyn"}:
            found = kind.of[0]
        elif kind.name == "map" and assignable(kind.of[0], index.kind):
            found = kind.of[1]
        elif kind.name == "dyn":
            found = DYN
        else:
            return self.mismatch(node, "_[_]", [kind, index.kind])
        cost, weight = operand.cost + index.cost + 1, operand.weight + index.weight + 1
        if node.optional or wrapped:
            run = parts.index_optional(operand.run, index.run)
            return Part(run, Type("optional", (found,), found.size), cost, weight)
        return Part(parts.binary(OPERATORS["_[_]"], operand.run, index.run), found, cost, weight)

    def sequence(self, node: Node) -> Part:
        mixed, self.mixed = self.mixed, False
        items = [self.compile(item) for item in node.args]
        kinds = [
            item.kind.of[0] if mark and item.kind.of else item.kind
            for item, mark in zip(items, node.optional, strict=True)
        ]
        inner = DYN if mixed else self.common(node.args, kinds)
        kind = Type("list", (inner,), len(items), computed=True)
        run = parts.sequence([item.run for item in items], node.optional)
        return Part(run, kind, 10 + _costs(items), 1 + len(items) + _weights(items))

    def common(self, nodes: Sequence[Node], kinds: Sequence[Type]) -> Type:
        """Return the type of items of a literal, which have to be of one type."""
        if not kinds:
            return DYN
        known = kinds[0]
        for node, kind in zip(nodes[1:], kinds[1:], strict=True):
            both = join(known, kind)
            if both is None:
                self.fail(node, f"expected type '{known}' but found '{kind}'")
                return DYN
            known = both
        return known

    def mapping(self, node: Node) -> Part:
        keys = [self.compile(key) for key in node.args[::2]]
        values = [self.compile(value) for value in node.args[1::2]]
        kinds = [
            value.kind.of[0] if mark and value.kind.of else value.kind
            for value, mark in zip(values, node.optional, strict=True)
        ]
        of = (
            self.common(node.args[::2], [key.kind for key in keys]),
            self.common(node.args[1::2], kinds),
        )
        pairs = [(key.run, value.run) for key, value in zip(keys, values, strict=True)]
        both = [*keys, *values]
        return Part(
            parts.mapping(pairs, node.optional),
            Type("map", of, len(keys)),
            30 + _costs(both),
            1 + len(both) + _weights(both),
        )

    # -- operators

    def logical(self, node: Node) -> Part:
        operands = [self.compile(arg) for arg in node.args]
        for one, other in itertools.pairwise(operands):
            if not (assignable(BOOL, one.kind) and assignable(BOOL, other.kind)):
                return self.mismatch(node, node.kind, [one.kind, other.kind])
        run = parts.logical([each.run for each in operands], node.kind == "_||_")
        return Part(run, BOOL, _costs(operands), 1 + _weights(operands))

    def negation(self, node: Node) -> Part:
        operand = self.compile(node.args[0])
        if node.kind == "!_":
            if not assignable(BOOL, operand.kind):
                return self.mismatch(node, "!_", [operand.kind])
            return Part(parts.negate(operand.run), BOOL, operand.cost + 1, operand.weight + 1)
        if operand.kind.name not in {"int", "double", "dyn"}:
            return self.mismatch(node, "-_", [operand.kind])
        return Part(parts.minus(operand.run), operand.kind, operand.cost + 1, operand.weight + 1)

    def choice(self, node: Node) -> Part:
        condition, chosen, other = operands = [self.compile(arg) for arg in node.args]
        kind = join(chosen.kind, other.kind)
        if kind is None or not assignable(BOOL, condition.kind):
            return self.mismatch(node, "_?_:_", [each.kind for each in operands])
        cost = condition.cost + max(chosen.cost, other.cost)
        run = parts.choice(condition.run, chosen.run, other.run)
        return Part(run, kind, cost, 1 + _weights(operands))

    def operation(self, node: Node, left: Part, right: Part) -> Part:
        name, one, other = node.kind, left.kind, right.kind
        kind: Type | None = None
        cost = 1.0
        function = OPERATORS.get(name) or COMPARISONS[name]
        if name in {"_==_", "_!=_"}:
            kind = BOOL if assignable(one, other) else None
            cost = up(min(one.size, other.size) * TRAVERSAL)
        elif name == "@in":
            if other.name == "dyn" or (
                other.name in {"list", "map"} and assignable(other.of[0], one)
            ):
                kind = BOOL
            cost = other.size if other.name == "list" else 1
        elif name in COMPARISONS:
            numbers = {one.name, other.name} <= NUMBERS
            same = one.name == other.name and one.name in _ORDERED
            if numbers or same or "dyn" in {one.name, other.name}:
                kind = BOOL
            if one.name in {"string", "bytes"}:
                cost = up(min(one.size, other.size) * TRAVERSAL)
        else:
            kind, cost = sum_of(name, one, other)
        if kind is None:
            return self.mismatch(node, name, [one, other])
        return Part(
            parts.binary(function, left.run, right.run),
            kind,
            left.cost + right.cost + cost,
            left.weight + right.weight + 1,
        )

    def mismatch(
        self, node: Node, name: str, kinds: Sequence[Type], *, member: bool = False
    ) -> Part:
        given = ", ".join(map(str, kinds[member:]))
        applied = f"{kinds[0]}.({given})" if member else f"({given})"
        return self.fail(node, f"found no matching overload for '{name}' applied to '{applied}'")

    # -- calls

    def call(self, node: Node) -> Part:
        target, *arguments = node.args
        name = node.value
        if target is None:
            if name == "has":
                return self.presence(node, arguments)
            return self.function(node, name, arguments, member=False)
        if target.kind == "name" and target.value in NAMESPACES and target.value not in self.scope:
            return self.function(node, f"{target.value}.{name}", arguments, member=False)
        if name in _MACROS and arguments and arguments[0].kind == "name":
            return self.loop(node, target, arguments)
        if name in _OPTIONAL_MACROS and len(arguments) == 2 and arguments[0].kind == "name":
            return self.optional_map(node, target, arguments)
        return self.function(node, name, [target, *arguments], member=True)

    def presence(self, node: Node, arguments: list[Node]) -> Part:
        if len(arguments) != 1 or arguments[0].kind != "select" or arguments[0].optional:
            return self.fail(node, "invalid argument to has() macro")
        return self.select(arguments[0], test=True)

    def function(self, node: Node, name: str, arguments: list[Node], *, member: bool) -> Part:
        overloads = OVERLOADS.get(name)
        self.mixed = name == "format"
        given = [self.compile(argument) for argument in arguments]
        if overloads is None:
            return self.fail(node, f"undeclared reference to '{name}' (in container '')")
        kinds = [part.kind for part in given]
        result = extreme(kinds) if not overloads else chosen(overloads, kinds, member=member)
        if result is None:
            return self.mismatch(node, name, kinds, member=member)
        self.check_literal(name, arguments)
        cost, size = estimate(name, kinds)
        if (not result.of and math.isinf(result.size)) or result.name == "list":
            result = result.resized(size)
        return Part(
            parts.call(FUNCTIONS[name], [part.run for part in given], price_of(name)),
            result,
            _costs(given) + cost,
            1 + _weights(given),
        )

    def check_literal(self, name: str, arguments: list[Node]) -> None:
        """Check a literal pattern, duration or time, as upstream's validators do."""
        argument = arguments[-1] if arguments and name in _CHECKED else None
        if argument is None or argument.kind != "const" or type(argument.value) is not str:
            return
        try:
            _CHECKED[name](argument.value)
        except (CelError, RegexError):
            self.fail(argument, f"invalid {name} argument")

    def bound(self, name: str, kind: Type, body: Node) -> tuple[int, Part]:
        """Compile a body that has one more variable."""
        slot, self.slots = self.slots, self.slots + 1
        outer = self.scope.get(name)
        used = name in self.used
        self.scope[name] = slot, kind
        part = self.compile(body)
        if outer is None:
            del self.scope[name]
        else:
            self.scope[name] = outer
        if not used:
            self.used.discard(name)
        return slot, part

    def loop(self, node: Node, target: Node, arguments: list[Node]) -> Part:
        macro, wanted = node.value, (2, 3) if node.value == "map" else (2,)
        values = self.compile(target)
        if len(arguments) not in wanted:
            return self.fail(node, f"undeclared reference to '{macro}' (in container '')")
        variable = element_of(values.kind)
        if variable is None:
            text = f"expression of type '{values.kind}' cannot be range of a comprehension"
            return self.fail(target, f"{text} (must be list, map, or dynamic)")
        name = arguments[0].value
        slot, body = self.bound(name, variable, arguments[-1])
        condition = body
        if len(arguments) == 3:
            same = self.slots
            slot, condition = self.bound(name, variable, arguments[1])
            # Both are evaluated on the same variable.
            self.slots = same
            slot, body = self.bound(name, variable, arguments[2])
        if (macro != "map" or len(arguments) == 3) and not assignable(BOOL, condition.kind):
            return self.fail(arguments[1], f"expected type 'bool' but found '{condition.kind}'")
        count = values.kind.size
        if macro in {"all", "exists"}:
            run = parts.quantifier(values.run, slot, body, macro == "exists")
            each, kind, after = body.cost + (3 if macro == "all" else 4), BOOL, 1
        elif macro == "filter":
            identity = Part(parts.variable(slot), variable, 1, 1)
            run = parts.collect(values.run, slot, body, identity)
            each, kind, after = body.cost + 13, Type("list", (variable,), count, computed=True), 11
        elif macro == "map":
            chosen = condition if len(arguments) == 3 else None
            run = parts.collect(values.run, slot, chosen, body)
            each = body.cost + 12 + (condition.cost if chosen else 0)
            kind, after = Type("list", (body.kind,), count, computed=True), 11
        else:
            run = parts.exists_one(values.run, slot, body)
            each, kind, after = body.cost + 2, BOOL, 2
        cost = values.cost + (count * each if count else 0) + after
        return Part(run, kind, cost, values.weight + 1)

    def optional_map(self, node: Node, target: Node, arguments: list[Node]) -> Part:
        operand = self.compile(target)
        if operand.kind.name not in {"optional", "dyn"}:
            return self.mismatch(node, node.value, [operand.kind], member=True)
        inner = operand.kind.of[0] if operand.kind.of else DYN
        slot, body = self.bound(arguments[0].value, inner, arguments[1])
        flat = node.value == "optFlatMap"
        kind = body.kind if flat else Type("optional", (body.kind,), body.kind.size)
        run = parts.optional_map(operand.run, slot, body, flat=flat)
        return Part(run, kind, operand.cost + body.cost + 2, operand.weight + body.weight + 2)


_HANDLERS: dict[str, Callable[[_Compiler, Node], Part]] = {
    "const": _Compiler.constant,
    "name": _Compiler.name,
    "select": _Compiler.select,
    "index": _Compiler.index,
    "list": _Compiler.sequence,
    "map": _Compiler.mapping,
    "call": _Compiler.call,
    "_&&_": _Compiler.logical,
    "_||_": _Compiler.logical,
    "!_": _Compiler.negation,
    "-_": _Compiler.negation,
    "_?_:_": _Compiler.choice,
}


def _costs(items: Iterable[Part]) -> float:
    return sum(item.cost for item in items)


def _weights(items: Iterable[Part]) -> int:
    return sum(item.weight for item in items)


_MAX_ERRORS = 20


def compile_expression(source: str, variables: dict[str, Type]) -> Program:
    """Compile an expression.

    Args:
        source: its text.
        variables: their types.

    Raises:
        CompilationError: it is not an expression, or has type errors.
    """
    try:
        tree = parse(source)
    except CelSyntaxError as error:
        raise CompilationError(shown(source, error.at, str(error))) from None
    compiler = _Compiler(variables)
    part = compiler.compile(tree)
    if compiler.errors:
        errors = sorted(compiler.errors)[:_MAX_ERRORS]
        raise CompilationError("\n".join(shown(source, *each) for each in errors))
    slots = compiler.slots - len(variables) - 1
    return Program(part, compiler.used, variables, slots)
