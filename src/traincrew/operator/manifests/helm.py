"""Writes templates of objects as Helm templates."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.operator.manifests.template import (
    Document,
    Either,
    Expression,
    Image,
    Merged,
    Namespace,
    Text,
    Value,
    When,
    look_up,
)
from traincrew.operator.manifests.yamltext import UNLIMITED, dump, is_flow

if TYPE_CHECKING:
    from collections.abc import Iterator


class HelmWriter(Struct, frozen=True):
    """Writes the templates of one chart.

    Attributes:
        values: The chart's default values.
        helper: Name of the chart's helper that makes an image reference, if there is one.
    """

    values: Document
    helper: str = ""

    def write(self, nodes: list[Any]) -> str:
        """Return objects as the text of one template file."""
        text = []
        for node in nodes:
            document, condition = _unwrapped(node)
            body = "\n".join(["---", *self._lines(document, 0)])
            text.append(f"{{{{- if {condition} }}}}\n{body}\n{{{{- end }}}}" if condition else body)
        return "\n".join(text) + "\n"

    def _lines(self, node: Any, indent: int) -> Iterator[str]:
        """Yield a mapping or list as lines of YAML in block style."""
        pad = " " * indent
        if isinstance(node, list):
            for item in node:
                yield from self._conditional(item, lambda inner: self._item(inner, indent))
            return
        if isinstance(node, Merged):
            yield from self._lines(node.own, indent)
            yield f"{pad}{{{{- with .Values.{node.path} }}}}"
            yield f"{pad}{{{{- toYaml . | nindent {indent} }}}}"
            yield f"{pad}{{{{- end }}}}"
            return
        for key, value in node.items():
            if is_flow(key, node):
                yield f"{pad}{key}: {json.dumps(value, default=self._inline)}"
                continue
            yield from self._conditional(
                value, lambda inner, key=key: self._entry(key, inner, indent)
            )

    def _conditional(self, node: Any, lines: Any) -> Iterator[str]:
        if not isinstance(node, When):
            yield from lines(node)
            return
        yield f"{{{{- if {_condition(node)} }}}}"
        yield from lines(node.node)
        yield "{{- end }}"

    def _entry(self, key: str, value: Any, indent: int) -> Iterator[str]:
        pad = " " * indent
        if isinstance(value, Value) and self._is_tree(value):
            yield f"{pad}{key}:"
            yield f"{pad}  {{{{- toYaml .Values.{value.path} | nindent {indent + 2} }}}}"
        elif isinstance(value, str) and "\n" in value:
            yield f"{pad}{key}: |"
            yield from textwrap.indent(value, f"{pad}  ").splitlines()
        elif isinstance(value, dict | list | Merged) and value:
            yield f"{pad}{key}:"
            yield from self._lines(value, indent + 2)
        else:
            yield f"{pad}{key}: {self._scalar(value)}"

    def _item(self, item: Any, indent: int) -> Iterator[str]:
        pad = " " * indent
        if isinstance(item, dict | list) and item:
            first, *rest = self._lines(item, indent + 2)
            yield f"{pad}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{pad}- {self._scalar(item)}"

    def _is_tree(self, value: Value) -> bool:
        return isinstance(look_up(self.values, value.path), dict | list)

    def _scalar(self, node: Any) -> str:
        match node:
            case Value(path):
                default = look_up(self.values, path)
                return f"{{{{ .Values.{path}{' | quote' if isinstance(default, str) else ''} }}}}"
            case Namespace() | Either() | Image() | Text() | Expression():
                return f'"{self._inline(node)}"'
        # On one line: the next one would not be indented.
        return dump(node, width=UNLIMITED).removesuffix("...\n").strip()

    def _inline(self, node: Any) -> str:
        """Return a node inside of a quoted string."""
        match node:
            case Value(path):
                return f"{{{{ .Values.{path} }}}}"
            case Namespace():
                return "{{ .Release.Namespace }}"
            case Expression(code):
                return f"{{{{ {code} }}}}"
            case Either(value, Namespace()):
                return f"{{{{ .Values.{value.path} | default .Release.Namespace }}}}"
            case Image(path):
                return f"{{{{ include `{self.helper}` (list .Values.{path} .Chart) }}}}"
            case Text(parts):
                return "".join(self._inline(part) for part in parts)
        return str(node)


def _unwrapped(node: Any) -> tuple[Any, str]:
    """Return an object, and the condition for it; conditions may be in each other."""
    conditions = []
    while isinstance(node, When):
        conditions.append(_condition(node))
        node = node.node
    if len(conditions) > 1:
        return node, "and " + " ".join(f"({each})" for each in conditions)
    return node, "".join(conditions)


def _condition(node: When) -> str:
    return f"not .Values.{node.path}" if node.negated else f".Values.{node.path}"
