"""The JSON paths of printer columns, scale subresources and selectable fields.

The subset of ``k8s.io/client-go/util/jsonpath`` that they accept: fields, indices and slices,
``*``, and filters that compare a field with a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from .causes import show

__all__ = ["JsonPath", "JsonPathError", "compile_path", "text"]

_Step = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""
    \.?\[\s*(?P<index>-?\d+)\s*\]
    | \.?\[\s*(?P<slice>-?\d*:-?\d*(?::\d*)?)\s*\]
    | \.?\[\s*'(?P<quoted>(?:[^'\\]|\\.)*)'\s*\]
    | \.?\[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
    | (?P<all>\.?\[\s*\*\s*\]|\.\*)
    | \.?\[\?\(\s*(?P<filter>.*?)\s*\)\]
    | \.(?P<field>(?:[^.[\]\\]|\\.)+)
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"@(?P<path>[^=!<>]*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.+))?\Z")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


class JsonPathError(ValueError):
    """The text is not a JSON path that this server supports."""


class JsonPath:
    """A compiled path."""

    def __init__(self, source: str, steps: list[_Step]) -> None:
        self.source = source
        self._steps = steps

    def find(self, document: Any) -> list[Any]:
        """Return every value at the path, in document order."""
        values = [document]
        for step in self._steps:
            values = [found for value in values for found in step(value)]
        return values

    def first(self, document: Any) -> Any:
        """Return the first value, or None."""
        found = self.find(document)
        return found[0] if found else None


@lru_cache(maxsize=512)
def compile_path(source: str) -> JsonPath:
    """Compile ``.status.conditions[?(@.type=="Ready")].status`` and the like.

    Raises:
        JsonPathError: the text cannot be parsed; the message contains the unparsed rest.
    """
    text = source.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$")
    if text and text[0] not in ".[":
        text = "." + text
    steps: list[_Step] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.end() == position:
            raise JsonPathError(f"invalid JSON path {source!r}: cannot read {text[position:]!r}")
        steps.append(_step(match, source))
        position = match.end()
    return JsonPath(source, steps)


def _step(match: re.Match[str], source: str) -> _Step:
    kind = match.lastgroup
    value = match[kind] if kind else ""
    if kind == "index":
        return _by_index(int(value))
    if kind == "slice":
        bounds = [int(part) if part else None for part in value.split(":")]
        return _by_slice(slice(*bounds))
    if kind == "all":
        return _everything
    if kind == "filter":
        return _by_filter(value, source)
    return _by_name(re.sub(r"\\(.)", r"\1", value))


def _by_name(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if type(value) is dict and name in value:
            yield value[name]

    return step


def _by_index(index: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if type(value) is list and -len(value) <= index < len(value):
            yield value[index]

    return step


def _by_slice(bounds: slice) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if type(value) is list:
            yield from value[bounds]

    return step


def _everything(value: Any) -> Iterator[Any]:
    if type(value) is list:
        yield from value
    elif type(value) is dict:
        yield from value.values()


def _by_filter(expression: str, source: str) -> _Step:
    match = _FILTER.match(expression)
    if match is None:
        raise JsonPathError(f"invalid JSON path {source!r}: cannot read filter {expression!r}")
    path = compile_path(match["path"] or ".") if match["path"] else JsonPath("", [])
    operator = match["operator"]
    wanted = _literal(match["value"], source) if operator else None

    def keep(item: Any) -> bool:
        found = path.find(item)
        if not operator:
            return bool(found)
        try:
            return any(_COMPARE[operator](value, wanted) for value in found)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        items = value if type(value) is list else [value] if type(value) is dict else []
        return (item for item in items if keep(item))

    return step


def _literal(source: str, path: str) -> Any:
    source = source.strip()
    if len(source) >= 2 and source[0] == source[-1] and source[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", source[1:-1])
    if source in ("true", "false"):
        return source == "true"
    for convert in (int, float):
        try:
            return convert(source)
        except ValueError:
            continue
    raise JsonPathError(f"invalid JSON path {path!r}: cannot read value {source!r}")


def text(value: Any) -> str:
    """Return a value as a printed cell: strings plain, the rest as JSON."""
    return value if type(value) is str else show(value)
