"""Compile CEL expressions: types, costs, and closures that evaluate them.

The messages of type errors are those of cel-go's checker, the estimated costs those of its
``checker/cost.go``: a rule that a real API server refuses is refused here.
"""
# Over 400 lines: one visitor of one syntax tree.

from __future__ import annotations

import math
from contextlib import contextmanager
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
    escape,
    join,
)
from .conversions import CONVERSIONS, TypeName
from .costs import estimate, price_of
from .library import FUNCTIONS
from .macros import MACROS
from .messages import ESCAPE, message
from .operators import COMPARISONS, OPERATORS, TRAVERSAL, CelError
from .overloads import NUMBERS, chosen, equality_cost, sum_of, up
from .parts import Part
from .program import CompilationError, Program, shown
from .signatures import OVERLOADS
from .syntax import CelSyntaxError, Node, Unsigned, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
_CHECKED: dict[str, Callable[[str], object]] = {
    "matches": compile_pattern,
    "duration": CONVERSIONS["duration"],
    "timestamp": CONVERSIONS["timestamp"],
}
_ORDERED = frozenset({"bool", "string", "bytes", "timestamp", "duration"})


class _Compiler:
    def __init__(self, variables: dict[str, Type], *, messages: bool = False) -> None:
        self.messages = messages
        self.scope = {name: (slot, kind) for slot, (name, kind) in enumerate(variables.items(), 1)}
        self.slots = len(variables) + 1
        self.used: set[str] = set()
        self.errors: list[tuple[int, str]] = []
        self.refused: list[tuple[int, str]] = []
        # Upstream takes what is inside of a function's result for as large as `self`; objects have
        # no size.
        root = variables.get("self", DYN)
        self.unknown_size = 0 if root.name == "object" else root.size
        self.mixed = False  # whether lists of several types may be written

    def fail(self, node: Node, message: str) -> Part:
        """Report an error of an expression's types."""
        self.errors.append((node.at, message))
        return Part(parts.constant(None), DYN, 0, 0)

    def refuse(self, node: Node, message: str) -> Part:
        """Report an expression that is no CEL; only such errors are reported then."""
        self.refused.append((node.at, message))
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
        if node.args[0].kind == "name" and f"{node.args[0].value}.{node.value}" in self.scope:
            slot, kind = self.scope[f"{node.args[0].value}.{node.value}"]  # a name with a dot
            return Part(parts.variable(slot), kind, 1, 1)
        operand = self.compile(node.args[0])
        kind, name = operand.kind, node.value
        wrapped = kind.name == "optional"
        if wrapped:
            kind = kind.of[0]
        found: Type | None = None
        if kind.name == "object":
            found = kind.field(name)
            escaped = escape(name)
            if found is None and escaped == f"__{name}__":
                # A reserved word is a name of a field, too (recognizeKeywordAsFieldName).
                name, found = escaped, kind.field(escaped)
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
        if math.isinf(found.size) and found.name != "dyn":
            found = found.resized(self.unknown_size)
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
            Type("map", of, len(keys), computed=True),
            30 + _costs(both),
            1 + len(both) + _weights(both),
        )

    # -- operators

    def logical(self, node: Node) -> Part:
        operands = [self.compile(arg) for arg in node.args]
        for arg, operand in zip(node.args, operands, strict=True):
            if not assignable(BOOL, operand.kind):
                self.fail(arg, f"expected type 'bool' but found '{operand.kind}'")
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
            cost = equality_cost(one, other)
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
            if name == "has" and len(arguments) == 1:
                return self.presence(arguments[0])
            return self.function(node, name, arguments, member=False)
        if target.kind == "name" and target.value not in self.scope:
            qualified = f"{target.value}.{name}"
            if qualified in OVERLOADS:
                return self.function(node, qualified, arguments, member=False)
        macro = MACROS.get((name, len(arguments)))
        if macro is not None:
            return macro(self, node, target, arguments)
        return self.function(node, name, [target, *arguments], member=True)

    def presence(self, argument: Node) -> Part:
        if argument.kind != "select" or argument.optional:
            return self.refuse(argument, "invalid argument to has() macro")
        return self.select(argument, test=True)

    def function(self, node: Node, name: str, arguments: list[Node], *, member: bool) -> Part:
        overloads = OVERLOADS.get(name)
        if name == ESCAPE and not self.messages:
            overloads = None
        self.mixed = name == "format"
        given = [self.compile(argument) for argument in arguments]
        if overloads is None:
            return self.fail(node, f"undeclared reference to '{name}' (in container '')")
        kinds = [part.kind for part in given]
        result = chosen(overloads, kinds, member=member)
        if result is None:
            return self.mismatch(node, name, kinds, member=member)
        self.check_literal(name, arguments)
        cost, size = estimate(name, kinds, list(map(_whole_number, arguments)))
        if (not result.of and math.isinf(result.size)) or result.name == "list":
            result = result.resized(size)
        runs = [part.run for part in given]
        lazy = parts.LAZY.get(name)
        return Part(
            lazy(*runs) if lazy else parts.call(FUNCTIONS[name], runs, price_of(name)),
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

    @contextmanager
    def variables(self, *declared: tuple[str, Type]) -> Iterator[tuple[int, ...]]:
        """Declare variables for the expressions that are compiled meanwhile; yield their slots."""
        slots = tuple(range(self.slots, self.slots + len(declared)))
        self.slots += len(declared)
        names = {name for name, _ in declared}
        scope, used = dict(self.scope), self.used & names
        self.scope |= {
            name: (slot, kind) for slot, (name, kind) in zip(slots, declared, strict=True)
        }
        yield slots
        self.scope = scope
        self.used = self.used - names | used


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
    "message": message,
    "!_": _Compiler.negation,
    "-_": _Compiler.negation,
    "_?_:_": _Compiler.choice,
}


def _whole_number(node: Node) -> int | None:
    """Return the number that a node is written as; None if it is something else."""
    return node.value if node.kind == "const" and type(node.value) is int else None


def _costs(items: Iterable[Part]) -> float:
    return sum(item.cost for item in items)


def _weights(items: Iterable[Part]) -> int:
    return sum(item.weight for item in items)


_MAX_ERRORS = 20


def compile_expression(
    source: str, variables: dict[str, Type], *, messages: bool = False
) -> Program:
    """Compile an expression.

    Args:
        source: its text.
        variables: their types.
        messages: whether it may create the messages of mutations.

    Raises:
        CompilationError: it is not an expression, or has type errors.
    """
    try:
        tree = parse(source)
    except CelSyntaxError as error:
        raise CompilationError(shown(source, error.at, str(error))) from None
    compiler = _Compiler(variables, messages=messages)
    part = compiler.compile(tree)
    if compiler.refused or compiler.errors:
        errors = sorted(compiler.refused or compiler.errors)[:_MAX_ERRORS]
        raise CompilationError("\n".join(shown(source, *each) for each in errors))
    slots = compiler.slots - len(variables) - 1
    return Program(part, compiler.used, variables, slots)
