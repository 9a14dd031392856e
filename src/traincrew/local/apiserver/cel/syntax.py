"""The text of CEL expressions: tokens, and a parser into a tree.

Grammar: the CEL specification, "Syntax". Text is bounded before it is parsed, and so is the depth
of the tree, because everything that walks it is recursive.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

__all__ = ["MAX_DEPTH", "MAX_SOURCE", "CelSyntaxError", "Node", "parse"]

MAX_SOURCE = 100_000
"""Characters of one expression; cel-go's limit (``ExpressionSizeCodePointLimit``)."""

MAX_DEPTH = 100
"""Levels of one expression, nested or chained; cel-go allows 250 nested ones."""

_TOKEN = re.compile(
    r"""
    (?P<space>(?:\s|//[^\n]*)+)
    | (?P<text>[bB]?[rR][bB]?(?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|"[^"\n]*")
        | [bB]?(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"
        | '(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    | (?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+\.\d+(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?
        |\d+[eE][+-]?\d+|\d+[uU]?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<mark>&&|\|\||[=!<>]=|[-+*/%<>=!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"""\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))""",
    re.DOTALL,
)
_ESCAPED = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 3),
    **dict.fromkeys("+-", 4),
    **dict.fromkeys("*/%", 5),
}
_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING,"
    " BYTES, IDENTIFIER}"
)
"""What an expression begins with, as the parser of cel-go lists it."""
_LITERALS = {"true": True, "false": False, "null": None}
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        "as break const continue else for function if import let loop package namespace return var"
        " void while",
    )
)


class Unsigned(int):
    """A CEL ``uint``."""


class CelSyntaxError(ValueError):
    """The text is not a CEL expression.

    Attributes:
        at: offset of the error in the text.
    """

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


class Node(NamedTuple):
    """One node of the tree.

    Attributes:
        kind: const, name, select, call, index, list, map, message, or an operator such as ``_+_``.
        at: offset in the text.
        value: of a constant; the name of a variable, field or function.
        args: the operands. The first one of a ``call`` is the target, or None.
        optional: whether this is ``.?`` or ``[?``; for lists and maps, which entries have a ``?``;
            for messages, the name of each field and whether it has a ``?``.
        depth: levels below, this one included.
    """

    kind: str
    at: int
    value: Any
    args: tuple[Any, ...]
    optional: Any
    depth: int


def _qualified(node: Node) -> str:
    """Return a name with dots, such as ``Object.spec``; empty for anything else."""
    if node.kind == "name":
        return str(node.value)
    if node.kind != "select" or node.optional:
        return ""
    first = _qualified(node.args[0])
    return f"{first}.{node.value}" if first else ""


class _Parser:
    def __init__(self, source: str) -> None:
        self.tokens = _tokens(source)
        self.position = 0
        self.depth = 0

    def node(
        self, kind: str, at: int, value: Any, args: tuple[Any, ...] = (), optional: Any = False
    ) -> Node:
        depth = 1 + max((arg.depth for arg in args if arg is not None), default=0)
        if depth > MAX_DEPTH:
            raise _too_deep(at)
        return Node(kind, at, value, args, optional, depth)

    def peek(self, text: str) -> bool:
        token = self.tokens[self.position]
        return token[1] == text and token[0] != "text"

    def accept(self, text: str) -> bool:
        if self.peek(text):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.unexpected(f"'{text}'")

    def unexpected(self, wanted: str = _OPERAND) -> CelSyntaxError:
        _, text, at = self.tokens[self.position]
        found = f"'{text}'" if text else "'<EOF>'"
        return CelSyntaxError(f"Syntax error: mismatched input {found} expecting {wanted}", at)

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _too_deep(self.tokens[self.position][2])
        condition = self.binary(1)
        at = self.tokens[self.position][2]
        if self.accept("?"):
            chosen = self.binary(1)
            self.expect(":")
            condition = self.node("_?_:_", at, None, (condition, chosen, self.expression()))
        self.depth -= 1
        return condition

    def binary(self, lowest: int) -> Node:
        left = self.unary()
        while True:
            kind, text, at = self.tokens[self.position]
            strength = _PRECEDENCE.get(text, 0) if kind in {"mark", "name"} else 0
            if strength < lowest or not strength:
                return left
            operands = [left]
            # A chain of && or || is one node, however long it is.
            while self.accept(text):
                operands.append(self.binary(strength + 1))
                if strength > 2:
                    break
            left = self.node("@in" if text == "in" else f"_{text}_", at, None, tuple(operands))

    def unary(self) -> Node:
        kind, text, at = self.tokens[self.position]
        if text not in {"!", "-"} or kind != "mark":
            return self.member()
        count = 0
        while self.accept(text):
            count += 1
        number = self.tokens[self.position]
        if text == "-" and count % 2 and number[0] == "number":
            self.position += 1
            return self.postfix(self.node("const", at, _number(number[1], at, negative=True)))
        operand = self.member() if self.tokens[self.position][1] not in {"!", "-"} else self.unary()
        if count % 2 == 0 and text == "-":
            return operand
        name = f"{text}_"
        operand = self.node(name, at, None, (operand,))
        return operand if count % 2 else self.node(name, at, None, (operand,))

    def member(self) -> Node:
        return self.postfix(self.primary())

    def postfix(self, node: Node) -> Node:
        while True:
            at = self.tokens[self.position][2]
            if self.accept("."):
                optional = self.accept("?")
                name = self.name()
                if not optional and self.peek("("):
                    at = self.tokens[self.position][2]
                    self.position += 1
                    node = self.node("call", at, name, (node, *self.arguments(")")))
                else:
                    node = self.node("select", at, name, (node,), optional)
            elif self.accept("["):
                optional = self.accept("?")
                index = self.expression()
                self.expect("]")
                node = self.node("index", at, None, (node, index), optional)
            else:
                if self.peek("{") and (name := _qualified(node)):
                    node = self.message(name, at)
                    continue
                if node.kind == "name" and node.value in _RESERVED:
                    raise CelSyntaxError(f"Syntax error: reserved identifier: {node.value}", at)
                return node

    def message(self, name: str, at: int) -> Node:
        """Parse the fields of a message, ``{a: 1, ?b: 2}``."""
        self.expect("{")
        fields: list[tuple[str, bool]] = []
        values: list[Node] = []
        while not self.accept("}"):
            optional = self.accept("?")
            fields.append((self.name(), optional))
            self.expect(":")
            values.append(self.expression())
            if not self.accept(","):
                self.expect("}")
                break
        return self.node("message", at, name, tuple(values), tuple(fields))

    def name(self) -> str:
        kind, text, _ = self.tokens[self.position]
        if kind != "name" or text in {"in", *_LITERALS}:
            raise self.unexpected("IDENTIFIER")
        self.position += 1
        return text

    def arguments(self, end: str) -> list[Node]:
        found: list[Node] = []
        while not self.accept(end):
            if found:
                self.expect(",")
            found.append(self.expression())
        return found

    def primary(self) -> Node:
        kind, text, at = self.tokens[self.position]
        if kind == "mark" and text == ".":  # a name of the root scope
            self.position += 1
            kind, text, at = self.tokens[self.position]
        if kind == "name" and text in _LITERALS:
            self.position += 1
            return self.node("const", at, _LITERALS[text])
        if kind == "name":
            name = self.name()
            if self.peek("("):
                at = self.tokens[self.position][2]
                self.position += 1
                return self.node("call", at, name, (None, *self.arguments(")")))
            return self.node("name", at, name)
        if kind == "number":
            self.position += 1
            return self.node("const", at, _number(text, at))
        if kind == "text":
            self.position += 1
            return self.node("const", at, _text(text, at))
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self.accept("["):
            return self.sequence(at)
        if self.accept("{"):
            return self.mapping(at)
        raise self.unexpected()

    def sequence(self, at: int) -> Node:
        found: list[Node] = []
        marks: list[bool] = []
        while not self.accept("]"):
            if found:
                self.expect(",")
                if self.accept("]"):
                    break
            marks.append(self.accept("?"))
            found.append(self.expression())
        return self.node("list", at, None, tuple(found), marks)

    def mapping(self, at: int) -> Node:
        found: list[Node] = []
        marks: list[bool] = []
        while not self.accept("}"):
            if found:
                self.expect(",")
                if self.accept("}"):
                    break
            marks.append(self.accept("?"))
            found.append(self.expression())
            self.expect(":")
            found.append(self.expression())
        return self.node("map", at, None, tuple(found), marks)


def _too_deep(at: int) -> CelSyntaxError:
    return CelSyntaxError(f"expression recursion limit exceeded: {MAX_DEPTH}", at)


def _tokens(source: str) -> list[tuple[str, str, int]]:
    """Return the kind, text and offset of each token, with an empty one at the end."""
    found: list[tuple[str, str, int]] = []
    position, length = 0, len(source)
    while position < length:
        match = _TOKEN.match(source, position)
        if match is None:
            raise CelSyntaxError(
                f"Syntax error: token recognition error at: '{source[position]}'", position
            )
        if match.lastgroup != "space":
            found.append((match.lastgroup or "", match[0], position))
        position = match.end()
    found.append(("end", "", length))
    return found


def _number(text: str, at: int, *, negative: bool = False) -> int | float:
    if text[-1] in "uU" and not negative:
        value = int(text[:-1], 0) if text[:2] in {"0x", "0X"} else int(text[:-1])
        if value >= 1 << 64:
            raise CelSyntaxError("invalid uint literal", at)
        return Unsigned(value)
    if text[:2] not in {"0x", "0X"} and not text.isdigit():
        try:
            return -float(text) if negative else float(text)
        except ValueError:
            raise CelSyntaxError("invalid double literal", at) from None
    if len(text) > 30:
        raise CelSyntaxError("invalid int literal", at)
    value = int(text, 16) if text[:2] in {"0x", "0X"} else int(text)
    value = -value if negative else value
    if not -(1 << 63) <= value < 1 << 63:
        raise CelSyntaxError("invalid int literal", at)
    return value


def _text(literal: str, at: int) -> str | bytes:
    quote = min(literal.find(mark) % (len(literal) + 1) for mark in "'\"")
    prefix, body = literal[:quote].lower(), literal[quote:]
    width = 3 if body[:3] in {"'''", '"""'} and len(body) >= 6 else 1
    body = body[width:-width]
    binary = "b" in prefix
    if "r" in prefix or "\\" not in body:
        return body.encode() if binary else body
    if binary:
        parts, last = [], 0
        for match in _ESCAPE.finditer(body):
            parts.append(body[last : match.start()].encode())
            code = match[1] or match[4]
            if code:
                parts.append(bytes([int(code, 16 if match[1] else 8)]))
            else:
                parts.append(_unescape(match, at).encode())
            last = match.end()
        return b"".join([*parts, body[last:].encode()])
    return _ESCAPE.sub(lambda match: _unescape(match, at), body)


def _unescape(match: re.Match[str], at: int) -> str:
    code = match[1] or match[2] or match[3]
    number = int(code, 16) if code else int(match[4], 8) if match[4] else -1
    if 0xD800 <= number < 0xE000 or number > 0x10FFFF:
        raise CelSyntaxError("Syntax error: invalid unicode code point", at)
    if number >= 0:
        return chr(number)
    if match[5] not in _ESCAPED:
        raise CelSyntaxError(f"Syntax error: token recognition error at: '{match[0]}'", at)
    return _ESCAPED[match[5]]


def parse(source: str) -> Node:
    """Parse an expression.

    Raises:
        CelSyntaxError: the text is not an expression, or too long or nested too deeply.
    """
    if len(source) > MAX_SOURCE:
        raise CelSyntaxError(
            f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_SOURCE}"
        )
    parser = _Parser(source)
    node = parser.expression()
    if parser.tokens[parser.position][0] != "end":
        raise parser.unexpected("'<EOF>'")
    return node
