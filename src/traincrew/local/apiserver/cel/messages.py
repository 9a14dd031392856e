"""The messages that mutations of admission policies create: parts of an object, and JSON patches.

As ``k8s.io/apiserver/pkg/cel/mutation``: ``Object`` and, below it, a type for each field path; the
type of a value has to fit the path of its field. Upstream finds that out when it evaluates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .celtypes import DYN, STRING, Type, assignable
from .parts import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .operators import Frame
    from .syntax import Node

__all__ = ["ESCAPE", "JSON_PATCH", "OBJECT", "message"]

ESCAPE = "jsonpatch.escapeKey"
OBJECT, JSON_PATCH = "Object", "JSONPatch"
_OPERATION = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
_COST = 40  # cel-go's for the creation of a struct


class Compiler(Protocol):
    """What messages need of the compiler.

    Attributes:
        messages: whether they may be created.
    """

    messages: bool

    def compile(self, node: Node) -> Part:
        """Compile an expression."""

    def fail(self, node: Node, message: str) -> Part:
        """Report an error of an expression's types."""

    def refuse(self, node: Node, message: str) -> Part:
        """Report an expression that is no CEL."""


def message(compiler: Compiler, node: Node) -> Part:
    """Compile the creation of a message."""
    name = str(node.value)
    if not compiler.messages:
        return compiler.refuse(node, "messages cannot be created")
    if name != JSON_PATCH and name.partition(".")[0] != OBJECT:
        return compiler.fail(node, f"undeclared reference to '{name}' (in container '')")
    values = [compiler.compile(value) for value in node.args]
    entries = []
    for value, part, (field, optional) in zip(node.args, values, node.optional, strict=True):
        kind = part.kind
        if optional and kind.name == "optional":
            kind = kind.of[0]
        if fault := _fault(name, field, kind):
            return compiler.fail(value, fault)
        entries.append((field, part.run, optional))
    return Part(
        _created(entries),
        Type(name, size=len(entries)),
        sum(part.cost for part in values) + _COST,
        sum(part.weight for part in values) + len(values) + 1,
    )


def _fault(name: str, field: str, kind: Type) -> str:
    if name == JSON_PATCH:
        wanted = _OPERATION.get(field)
        if wanted is None:
            return f"undefined field '{field}'"
        if not assignable(wanted, kind):
            return f"expected type of field '{field}' is '{wanted}' but provided type is '{kind}'"
        return ""
    while kind.of and kind.name in {"list", "map"}:
        kind = kind.of[-1]
    expected = f"{name}.{field}"
    if kind.name.partition(".")[0] == OBJECT and kind.name != expected:
        return (
            f'unexpected type name "{kind.name}", expected "{expected}", which matches field name'
            " path from root Object type"
        )
    return ""


def _created(
    entries: Sequence[tuple[str, Callable[[Frame], Any], bool]],
) -> Callable[[Frame], dict[str, Any]]:
    def run(frame: Frame) -> dict[str, Any]:
        result = {}
        for field, value_of, optional in entries:
            value = value_of(frame)
            if optional:
                if not value.present:
                    continue
                value = value.value
            result[field] = value
        return result

    return run
