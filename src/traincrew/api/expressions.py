"""Expressions over documents that have a value here, and one in Helm: rules are written once.

Of each node, `value` is what it is here, and `go` is the same in the language of Helm's templates.
Patterns mean what they mean in Go (RE2) in both. A key that is missing is like one that is null,
and in a text like an empty one.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Scope = Mapping[str, Any]
"""Variables by name."""

KINDS: dict[str, type] = {"string": str, "map": dict, "invalid": type(None)}
"""Go's kinds of values, and what has them here; what is not set is ``invalid``."""


class Node(Struct, frozen=True):
    """Base of the expressions."""

    def value(self, scope: Scope) -> Any:
        """Return the value."""
        raise NotImplementedError

    def go(self) -> str:
        """Return the expression as an operand of Helm's templates."""
        raise NotImplementedError


class Get(Node, frozen=True):
    """A variable, or what is at keys below it.

    In Helm a section, which is all but the last key, is a variable of its own: ``$values_image``.
    """

    variable: str
    keys: tuple[str, ...] = ()

    def value(self, scope: Scope) -> Any:
        found = scope.get(self.variable)
        for key in self.keys:
            found = (found or {}).get(key)
        return found

    def go(self) -> str:
        return ".".join(("_".join((f"${self.variable}", *self.keys[:-1])), *self.keys[-1:]))


class Constant(Node, frozen=True):
    """A text or a boolean."""

    content: str | bool

    def value(self, scope: Scope) -> Any:  # noqa: ARG002 - it is the same in every scope
        return self.content

    def go(self) -> str:
        raw = isinstance(self.content, str) and ("\\" in self.content or '"' in self.content)
        return f"`{self.content}`" if raw else json.dumps(self.content, ensure_ascii=False)


class Text(Node, frozen=True):
    """A text of parts."""

    parts: tuple[Node, ...]

    def value(self, scope: Scope) -> str:
        return "".join(_text(part.value(scope)) for part in self.parts)

    def go(self) -> str:
        return printed(self.parts)


class Number(Node, frozen=True):
    """A whole number that may be written as a text; in Helm, of its type of all numbers."""

    of: Node

    def value(self, scope: Scope) -> int | None:
        found = self.of.value(scope)
        return None if found is None else int(found)

    def go(self) -> str:
        text = self.of.go()
        return f'(ternary nil (float64 {text}) (kindIs "invalid" {text}))'


class Either(Node, frozen=True):
    """Something, or a text if it is empty."""

    of: Node
    other: str

    def value(self, scope: Scope) -> Any:
        return self.of.value(scope) or self.other

    def go(self) -> str:
        return f'({self.of.go()} | default "{self.other}")'


class Encoded(Node, frozen=True):
    """A text in base64."""

    of: Node

    def value(self, scope: Scope) -> str:
        return b64encode(_text(self.of.value(scope)).encode()).decode()

    def go(self) -> str:
        return f"(b64enc {self.of.go()})"


class Shortened(Node, frozen=True):
    """The beginning of a text, at most so many bytes, and no ``-`` at its end."""

    of: Node
    most: int

    def value(self, scope: Scope) -> str:
        found = _text(self.of.value(scope)).encode()[: self.most]
        return found.decode(errors="replace").removesuffix("-")

    def go(self) -> str:
        return f'({go_text(self.of)} | trunc {self.most} | trimSuffix "-")'


class Stripped(Node, frozen=True):
    """A text without what a pattern matches at its ends, such as a ``/``."""

    of: Node
    pattern: str

    def value(self, scope: Scope) -> str:
        return compiled(self.pattern).sub("", _text(self.of.value(scope)))

    def go(self) -> str:
        return f'(regexReplaceAll `{self.pattern}` {go_text(self.of)} "")'


class Without(Node, frozen=True):
    """A text without another one at its beginning."""

    of: Node
    prefix: Node

    def value(self, scope: Scope) -> str:
        return _text(self.of.value(scope)).removeprefix(_text(self.prefix.value(scope)))

    def go(self) -> str:
        return f"(trimPrefix {go_text(self.prefix)} {go_text(self.of)})"


# -- what is true or false ------------------------------------------------------------------------


class Filled(Node, frozen=True):
    """Whether something is set, and not empty, false or 0."""

    of: Node

    def value(self, scope: Scope) -> bool:
        return bool(self.of.value(scope))

    def go(self) -> str:
        return self.of.go()


class Matches(Node, frozen=True):
    """Whether a pattern matches somewhere in a text."""

    of: Node
    pattern: str

    def value(self, scope: Scope) -> bool:
        return bool(compiled(self.pattern).search(_text(self.of.value(scope))))

    def go(self) -> str:
        return f"(regexMatch `{self.pattern}` {go_text(self.of)})"


class Same(Node, frozen=True):
    """Whether two texts are the same."""

    one: Node
    other: Node

    def value(self, scope: Scope) -> bool:
        return _text(self.one.value(scope)) == _text(self.other.value(scope))

    def go(self) -> str:
        return f"(eq {go_text(self.one)} {go_text(self.other)})"


class Within(Node, frozen=True):
    """Whether a text begins with another one."""

    of: Node
    prefix: Node

    def value(self, scope: Scope) -> bool:
        return _text(self.of.value(scope)).startswith(_text(self.prefix.value(scope)))

    def go(self) -> str:
        return f"(hasPrefix {go_text(self.prefix)} {go_text(self.of)})"


class HasKind(Node, frozen=True):
    """Whether something is of a kind of Go."""

    of: Node
    kind: str

    def value(self, scope: Scope) -> bool:
        found = self.of.value(scope)
        return isinstance(found, KINDS[self.kind])

    def go(self) -> str:
        return f'(kindIs "{self.kind}" {self.of.go()})'


class Less(Node, frozen=True):
    """Whether a `Number` of a document is set, and less than another one."""

    of: Node
    than: int

    def value(self, scope: Scope) -> bool:
        found = self.of.value(scope)
        return found is not None and found < self.than

    def go(self) -> str:
        return f'(and (kindIs "float64" {self.of.go()}) (lt {self.of.go()} (float64 {self.than})))'


class Greater(Node, frozen=True):
    """Whether a `Number` of a document is set, and greater than another one."""

    of: Node
    than: int

    def value(self, scope: Scope) -> bool:
        found = self.of.value(scope)
        return found is not None and found > self.than

    def go(self) -> str:
        return f'(and (kindIs "float64" {self.of.go()}) (gt {self.of.go()} (float64 {self.than})))'


class Longer(Node, frozen=True):
    """Whether a text has more characters than a number."""

    of: Node
    than: int

    def value(self, scope: Scope) -> bool:
        return len(self.of.value(scope) or "") > self.than

    def go(self) -> str:
        return f'(gt (len (splitList "" {go_text(self.of)})) {self.than})'


class More(Node, frozen=True):
    """Whether a list has more entries than a number."""

    of: Node
    than: int

    def value(self, scope: Scope) -> bool:
        return len(self.of.value(scope) or ()) > self.than

    def go(self) -> str:
        return f"(gt (len ({self.of.go()} | default list)) {self.than})"


class Not(Node, frozen=True):
    """Whether something is not so."""

    of: Node

    def value(self, scope: Scope) -> bool:
        return not self.of.value(scope)

    def go(self) -> str:
        return f"(not {self.of.go()})"


class All(Node, frozen=True):
    """Whether all of several things are so."""

    of: tuple[Node, ...]

    def value(self, scope: Scope) -> bool:
        return all(each.value(scope) for each in self.of)

    def go(self) -> str:
        return f"(and {' '.join(each.go() for each in self.of)})"


class Some(Node, frozen=True):
    """Whether one of several things is so, at least."""

    of: tuple[Node, ...]

    def value(self, scope: Scope) -> bool:
        return any(each.value(scope) for each in self.of)

    def go(self) -> str:
        return f"(or {' '.join(each.go() for each in self.of)})"


# -- short ----------------------------------------------------------------------------------------


def get(path: str) -> Get:
    """Return the expression of a variable with keys below it, such as ``code.mountPath``."""
    variable, *keys = path.split(".")
    return Get(variable, tuple(keys))


def text(*parts: str | Node) -> Node:
    """Return the expression of a text of parts."""
    return Text(tuple(each if isinstance(each, Node) else Constant(each) for each in parts))


def every(*nodes: Node) -> Node:
    """Return whether all of several things are so."""
    return nodes[0] if len(nodes) == 1 else All(nodes)


def some(*nodes: Node) -> Node:
    """Return whether one of several things is so, at least."""
    return Some(nodes)


def misses(of: Node, pattern: str) -> Node:
    """Return whether a text is not empty, and a pattern does not match it."""
    return All((Filled(of), Not(Matches(of, pattern))))


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    r"""Return a pattern with the meaning that it has in Go, where only ``\s`` is without ``\v``."""
    return re.compile(pattern.replace("$", r"\Z"), re.ASCII)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def go_text(node: Node) -> str:
    """Return the operand of a text, which is empty if it is not set."""
    if isinstance(node, Get):
        return f'(toString ({node.go()} | default ""))'
    return node.go()


def printed(parts: Iterable[Node]) -> str:
    """Return the operand of a text of parts, which are set."""
    known, rest = "", []
    for part in parts:
        if isinstance(part, Constant):
            known += str(part.content).replace("%", "%%")
        else:
            known += "%v"
            rest.append(part.go())
    if not rest:
        return Constant(known.replace("%%", "%")).go()
    return f"(printf {Constant(known).go()} {' '.join(rest)})"


def gets(part: Any) -> Iterator[Get]:
    """Yield what a part of a document or a check gets, at any depth."""
    if isinstance(part, Get):
        yield part
    elif isinstance(part, Struct):
        yield from gets([getattr(part, name) for name in part.__struct_fields__])
    elif isinstance(part, Mapping):
        yield from gets([*part.values()])
    elif isinstance(part, list | tuple):
        for each in part:
            yield from gets(each)


# -- documents ------------------------------------------------------------------------------------


class When(Struct, frozen=True):
    """A part of a document that is there if something is so."""

    test: Node
    part: Any


class ForEach(Struct, frozen=True):
    """A list with one part of a document for each entry of another list.

    Attributes:
        over: The other list.
        variable: The name of its entry in the part.
        part: The part.
    """

    over: Get
    variable: str
    part: Any


def built(part: Any, scope: Scope) -> Any:
    """Return a document with its values; what is not set, or empty, is left out of mappings."""
    match part:
        case Node():
            return part.value(scope)
        case When(test, inner):
            return built(inner, scope) if test.value(scope) else None
        case ForEach(over, variable, inner):
            return [built(inner, {**scope, variable: each}) for each in over.value(scope) or ()]
        case Mapping():
            found = {key: built(inner, scope) for key, inner in part.items()}
            return {key: value for key, value in found.items() if value not in (None, "", [], {})}
        case Sequence() if not isinstance(part, str):
            return [built(inner, scope) for inner in part]
    return part
