"""Static checks of CEL expressions, by their text and the schema.

The CEL library does not check types: a misspelt field or function is only found when it happens to
be evaluated. Upstream compiles rules against the schema when the definition is created and refuses
such rules; what can be found from the text is checked here.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, NamedTuple

from .library import BUILT_IN, FUNCTIONS

__all__ = ["CelSyntaxError", "escape", "faults", "rename_functions", "tokens", "uses"]

Schema = dict[str, Any]

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
    | (?P<text>[rRbB]{0,2}(?:'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3}
        |'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    | (?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+\.\d+(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?
        |\d+[eE][+-]?\d+|\d+[uU]?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<mark>\.\?|\[\?|&&|\|\||[=!<>]=|[-+*/%<>=!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW_TEXT = re.compile(r"[bB]?[rR][bB]?(?:'[^'\n]*'|\"[^\"\n]*\")")
_MACROS = {"all", "exists", "exists_one", "filter", "map"}
_TYPES = {"bool", "bytes", "double", "int", "list", "null_type", "string", "timestamp", "type"}
_TYPES |= {"duration", "map", "uint", "optional_type"}
_NAMESPACES = {name.partition(".")[0] for name in {*FUNCTIONS, *BUILT_IN} if "." in name}
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "true false null in as break const continue else for function if import let loop package"
        " namespace return var void while",
    )
)
_RENAMED = {"size": "size_of_value"}


class CelSyntaxError(ValueError):
    """The text is not a CEL expression."""


class Token(NamedTuple):
    """One token.

    Attributes:
        kind: space, text, number, name or mark.
        text: its source text.
        start: its offset in the source.
    """

    kind: str
    text: str
    start: int


def tokens(source: str) -> list[Token]:
    """Return the tokens of an expression, without spaces.

    Raises:
        CelSyntaxError: a character does not start a token.
    """
    found: list[Token] = []
    position = 0
    while position < len(source):
        match = _RAW_TEXT.match(source, position)
        kind = "text" if match else ""
        match = match or _TOKEN.match(source, position)
        if match is None:
            raise CelSyntaxError(f"token recognition error at: '{source[position]}'")
        kind = kind or match.lastgroup or ""
        if kind != "space":
            found.append(Token(kind, match[0], position))
        position = match.end()
    return found


def uses(source: str, name: str) -> bool:
    """Return whether a variable occurs in an expression."""
    sequence = tokens(source)
    return any(
        token.kind == "name"
        and token.text == name
        and (index == 0 or sequence[index - 1].text not in (".", ".?"))
        for index, token in enumerate(sequence)
    )


def rename_functions(source: str) -> str:
    """Rename calls of functions that the library implements wrongly, so that ours are called."""
    result: list[str] = []
    last = 0
    sequence = tokens(source)
    for token, follower in itertools.pairwise(sequence):
        if token.kind == "name" and token.text in _RENAMED and follower.text == "(":
            result += [source[last : token.start], _RENAMED[token.text]]
            last = token.start + len(token.text)
    return "".join([*result, source[last:]])


def escape(name: str) -> str | None:
    """Return the name of a property in CEL; None when CEL cannot access it."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*", name):
        return None
    return (
        name.replace("__", "__underscores__")
        .replace(".", "__dot__")
        .replace("-", "__dash__")
        .replace("/", "__slash__")
    )


# --- static checks ------------------------------------------------------------------------------


class _Unknown:
    """A value of unknown type."""


_UNKNOWN = _Unknown()
_Type = Schema | _Unknown


def _select(kind: _Type, name: str) -> _Type | None:
    """Return the type of a field; None when the type has no such field."""
    if isinstance(kind, _Unknown):
        return kind
    if kind.get("x-kubernetes-int-or-string") or not kind.get("type"):
        return _UNKNOWN
    if kind["type"] != "object":
        return None
    for key, item in (kind.get("properties") or {}).items():
        if escape(key) == name:
            return item if type(item) is dict and _has_type(item) else None
    extra = kind.get("additionalProperties")
    if extra:
        return extra if type(extra) is dict else _UNKNOWN
    if kind.get("x-kubernetes-embedded-resource") and name in ("apiVersion", "kind", "metadata"):
        return _UNKNOWN
    return None


def _has_type(schema: Schema) -> bool:
    """Return whether rules can access fields of a schema.

    They cannot if the schema, or that of its items or values, declares no type ("unknown type" in
    the Kubernetes documentation of ``x-kubernetes-preserve-unknown-fields``).
    """
    if schema.get("x-kubernetes-int-or-string"):
        return True
    below = schema.get("items" if schema.get("type") == "array" else "additionalProperties")
    return bool(schema.get("type")) and (type(below) is not dict or _has_type(below))


def _element(kind: _Type) -> _Type:
    """Return the type of a macro's variable: a list's item, a map's key."""
    if not isinstance(kind, _Unknown) and kind.get("type") == "array":
        inner = kind.get("items")
        return inner if type(inner) is dict else _UNKNOWN
    return _UNKNOWN


class _Reader:
    """One pass over the tokens of an expression, following fields through the schema."""

    def __init__(self, source: str, variables: dict[str, _Type]) -> None:
        self.sequence = tokens(source)
        self.variables = variables
        self.found: list[str] = []
        self.loop_names = {
            self._text(index + 2)
            for index, token in enumerate(self.sequence)
            if token.text in _MACROS and self._text(index + 1) == "("
        }

    def _text(self, index: int) -> str:
        return self.sequence[index].text if 0 <= index < len(self.sequence) else ""

    def read(self) -> list[str]:
        for index, token in enumerate(self.sequence):
            if token.text in (".?", "[?"):
                self.found.append(
                    f"the optional syntax '{token.text}' is not supported by this server; "
                    "use has(…) instead"
                )
            if token.kind == "name" and self._text(index - 1) not in (".", ".?"):
                self._start(index)
        return self.found

    def _start(self, index: int) -> None:
        """Read a name that is not selected from a value: a variable, function, type or map key."""
        name = self._text(index)
        if self._text(index + 1) == "(":
            self._function(name)
            return
        if name in self.variables:
            self._follow(index + 1, self.variables[name])
        elif name in self.loop_names:
            self._follow(index + 1, _UNKNOWN)
        elif name in _NAMESPACES and self._text(index + 1) == ".":
            self._function(f"{name}.{self._text(index + 2)}")
        elif name not in _KEYWORDS and name not in _TYPES:
            self.found.append(f"undeclared reference to '{name}' (in container '')")

    def _function(self, name: str) -> None:
        if name not in FUNCTIONS and name not in BUILT_IN and name not in _TYPES:
            self.found.append(
                f"undeclared reference to '{name}' (in container ''): not a function of this server"
            )

    def _follow(self, index: int, kind: _Type) -> None:
        """Follow the selections and calls after a value whose type is known."""
        while True:
            mark = self._text(index)
            if mark == "." and self._text(index + 2) == "(":
                name = self._text(index + 1)
                self._function(name)
                if name in _MACROS:
                    self._bind(self._text(index + 3), _element(kind))
                # The type a call returns is unknown, but later calls are still checked by name.
                index = self._closing(index + 2) + 1
                kind = _UNKNOWN
            elif mark == ".":
                name = self._text(index + 1)
                below = _select(kind, name)
                if below is None:
                    self.found.append(f"undefined field '{name}'")
                    return
                kind = below
                index += 2
            elif mark == "[":
                index = self._closing(index) + 1
                if not isinstance(kind, _Unknown) and kind.get("type") == "object":
                    extra = kind.get("additionalProperties")
                    kind = extra if type(extra) is dict else _UNKNOWN
                else:
                    kind = _element(kind)
            else:
                return

    def _bind(self, name: str, kind: _Type) -> None:
        """Bind a loop variable; if bound twice with different types, its type is unknown."""
        known = self.variables.get(name)
        self.variables[name] = kind if known is None or known is kind else _UNKNOWN

    def _closing(self, index: int) -> int:
        depth = 0
        for position in range(index, len(self.sequence)):
            text = self._text(position)
            depth += text in ("(", "[", "{", "[?")
            depth -= text in (")", "]", "}")
            if depth == 0:
                return position
        return len(self.sequence)


def faults(source: str, schema: Schema, *, optional_old_self: bool = False) -> list[str]:
    """Return the errors in an expression that its text and the schema of ``self`` show.

    Raises:
        CelSyntaxError: the text is not a CEL expression.
    """
    old = _UNKNOWN if optional_old_self else schema
    return _Reader(source, {"self": schema, "oldSelf": old}).read()
