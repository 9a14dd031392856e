"""Expressions over documents that have a value here, and one in Helm: rules are written once.

Of each node, `value` is what it is here, and `go` is the same in the language of Helm's templates.
Patterns mean what they mean in Go (RE2) in both. A key that is missing is like one that is null,
and in a text like an empty one.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """A text, a number or a boolean."""

    content: str | int

    def value(self, scope: Scope) -> Any:  # noqa: ARG002 - it is the same in every scope
        return self.content

    def go(self) -> str:
        raw = isinstance(self.content, str) and ("\\" in self.content or '"' in self.content)
        return f"`{self.content}`" if raw else json.dumps(self.content, ensure_ascii=False)


class Text(Node, frozen=True):
    """A text of parts, which are set."""

    parts: tuple[Node, ...]

    def value(self, scope: Scope) -> str:
        return "".join(_text(part.value(scope)) for part in self.parts)

    def go(self) -> str:
        known, rest = "", []
        for part in self.parts:
            if isinstance(part, Constant):
                known += str(part.content).replace("%", "%%")
            else:
                known += "%v"
                rest.append(part.go())
        if not rest:
            return Constant(known.replace("%%", "%")).go()
        return f"(printf {Constant(known).go()} {' '.join(rest)})"


class Applied(Node, frozen=True):
    """An operation on other nodes; the constants below make them.

    Attributes:
        meaning: The operation here.
        action: The same in Helm, with the operands in braces.
        of: The operands.
        on_texts: Whether the operands are taken as texts.
        lazy: Whether the operation takes an iterator of the operands, to stop when it knows enough.
    """

    meaning: Callable[..., Any]
    action: str
    of: tuple[Node, ...]
    on_texts: bool = False
    lazy: bool = False

    def value(self, scope: Scope) -> Any:
        if self.lazy:
            return self.meaning(each.value(scope) for each in self.of)
        if self.on_texts:
            return self.meaning(*[_text(each.value(scope)) for each in self.of])
        return self.meaning(*[each.value(scope) for each in self.of])

    def go(self) -> str:
        found = [
            f'(toString ({each.go()} | default ""))'
            if self.on_texts and isinstance(each, Get)
            else each.go()
            for each in self.of
        ]
        return self.action.format(*found, all=" ".join(found))


def _operation(
    meaning: Callable[..., Any], action: str, *, on_texts: bool = False, lazy: bool = False
) -> Callable[..., Node]:
    return lambda *of: Applied(meaning, action, tuple(map(node, of)), on_texts, lazy)


def node(given: Node | str | int) -> Node:
    """Return a constant as a node."""
    return given if isinstance(given, Node) else Constant(given)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    r"""Return a pattern with the meaning that it has in Go, where only ``\s`` is without ``\v``."""
    return re.compile(pattern.replace("$", r"\Z"), re.ASCII)


def _shortened(text: str, most: str) -> str:
    return text.encode()[: int(most)].decode(errors="replace").removesuffix("-")


# Whether something is set, and not empty, false or 0; and what is true of several.
Filled = _operation(bool, "{0}")
Not = _operation(lambda of: not of, "(not {0})")
All = _operation(all, "(and {all})", lazy=True)
Some = _operation(any, "(or {all})", lazy=True)
HasKind = _operation(lambda of, kind: isinstance(of, KINDS[kind]), "(kindIs {1} {0})")
"""Whether something is of one of `KINDS`."""
Either = _operation(lambda of, other: of or other, "({0} | default {1})")
"""Something, or something else if it is empty."""

# Texts. A pattern matches anywhere, and what it matches is stripped.
Matches = _operation(
    lambda text, pattern: bool(compiled(pattern).search(text)),
    "(regexMatch {1} {0})",
    on_texts=True,
)
Stripped = _operation(
    lambda text, pattern: compiled(pattern).sub("", text),
    '(regexReplaceAll {1} {0} "")',
    on_texts=True,
)
Same = _operation(lambda one, other: one == other, "(eq {0} {1})", on_texts=True)
Within = _operation(str.startswith, "(hasPrefix {1} {0})", on_texts=True)
Without = _operation(str.removeprefix, "(trimPrefix {1} {0})", on_texts=True)
Longer = _operation(
    lambda text, than: len(text) > int(than), '(gt (len (splitList "" {0})) {1})', on_texts=True
)
Encoded = _operation(lambda text: b64encode(text.encode()).decode(), "(b64enc {0})", on_texts=True)
Shortened = _operation(_shortened, '({0} | trunc {1} | trimSuffix "-")', on_texts=True)
"""The beginning of a text, at most so many bytes, without a ``-`` at its end."""

# Numbers, which may be written as texts. In Helm those of values are of Go's type float64.
Number = _operation(
    lambda of: None if of is None else int(of), '(ternary nil (float64 {0}) (kindIs "invalid" {0}))'
)
Less = _operation(
    lambda of, than: of is not None and of < than,
    '(and (kindIs "float64" {0}) (lt {0} (float64 {1})))',
)
Greater = _operation(
    lambda of, than: of is not None and of > than,
    '(and (kindIs "float64" {0}) (gt {0} (float64 {1})))',
)
More = _operation(lambda of, than: len(of or ()) > than, "(gt (len ({0} | default list)) {1})")
"""Whether a list has more entries than a number."""


def get(path: str) -> Get:
    """Return the expression of a variable with keys below it, such as ``code.mountPath``."""
    variable, *keys = path.split(".")
    return Get(variable, tuple(keys))


def text(*parts: str | Node) -> Text:
    """Return the expression of a text of parts."""
    return Text(tuple(map(node, parts)))


def misses(of: Node, pattern: str) -> Node:
    """Return whether a text is not empty, and a pattern does not match it."""
    return All(of, Not(Matches(of, pattern)))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


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
