"""Reading YAML that others have written: bounded, whatever is in it.

A few hundred bytes of YAML stand for gigabytes (aliases of aliases, merges of merges), deep nesting
ends the stack of the interpreter or of libyaml, and the constructors of PyYAML raise what they
like. So documents are built from the events of the parser, with limits. They are JSON documents, as
in Kubernetes: keys are texts, dates and numbers of base 60 stay texts.

Import it where a file is read: it imports PyYAML.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from traincrew.engine.decoding import MAX_DEPTH, MAX_OBJECT_BYTES, MAX_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "MAX_FILE_BYTES",
    "Document",
    "NullKeyError",
    "TooLargeError",
    "YamlError",
    "explain",
    "read",
    "read_all",
]

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Bytes of all documents of one file."""

_MAX_EXACT = 256 * 1024
"""Bytes of a text that is read again, slowly, to explain a syntax error."""

_MAX_DOCUMENTS = 10_000
_MAX_FILE_VALUES = 10 * MAX_VALUES

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_STRING = f"{_TAG}str"
_NULL = f"{_TAG}null"

_MAX_NUMBER = 1_000  # characters; longer scalars are not compared with YAML's patterns
_LONG_NUMBER = re.compile(r"[-+]?[0-9][0-9_]*+(?:\.[0-9_]*+)?(?:[eE][-+]?[0-9]++)?")

# libyaml compares each tag handle with all others. Only a line before the document can be one.
_MAX_HANDLES = 50
_HANDLE = re.compile(r"(?:^|[\r\n\x85\u2028\u2029])%TAG")
_HANDLE_BYTES = re.compile(rb"(?:^|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9])%TAG")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class YamlError(ValueError):
    """The text is refused; as text, it is in the words of Kubernetes' parser where that has any.

    Attributes:
        problem: For users.
        line: Where it is, counted from 1; None if unknown.
        column: As `line`.
    """

    def __init__(self, message: str, mark: Any = None, *, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem or message.removeprefix("yaml: ")
        self.line: int | None = None if mark is None else mark.line + 1
        self.column: int | None = None if mark is None else mark.column + 1


class TooLargeError(YamlError):
    """It has too many values, or is too large with its aliases expanded.

    Attributes:
        values: Whether it is the number of values.
    """

    def __init__(self, mark: Any, *, values: bool) -> None:
        self.values = values
        limit = f"more than {MAX_VALUES} values"
        if not values:
            limit = f"more than {MAX_OBJECT_BYTES >> 20} MiB"
        super().__init__(limit, mark, problem=f"{limit}, with aliases expanded")


class NullKeyError(YamlError):
    """A key is null.

    Attributes:
        value: What it is the key of.
    """

    def __init__(self, mark: Any, value: Any) -> None:
        self.value = value
        super().__init__("a key is null", mark, problem="a key is empty or null; put it in quotes")


class Document(NamedTuple):
    """A document of a file.

    Attributes:
        content: A JSON value; None if it is empty.
        node: Where its parts are, if that was asked for, with merged fields; None if it is empty.
        duplicates: ``line N: key "K" already set in map``, for keys that are repeated.
    """

    content: Any
    node: yaml.Node | None
    duplicates: list[str]


class _Scalars:
    """Resolves scalars as Kubernetes does: timestamps stay strings."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class of PyYAML
        first: [
            (tag, regexp)
            for tag, regexp in resolvers
            if tag not in {f"{_TAG}timestamp", f"{_TAG}value"}
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class _Exact(_Scalars, yaml.SafeLoader):
    """In Python: says where a syntax error begins."""


# libyaml reads a token in about a microsecond, the pure Python parser in fourteen.
class _Fast(_Scalars, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """In C, where PyYAML was built with it."""


def _finite(value: float, node: yaml.ScalarNode, mark: Any) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _unsupported(node.value, mark)
    return number


def _unsupported(text: str, mark: Any) -> YamlError:
    shown = text if len(text) <= 20 else f"{text[:20]}..."
    problem = f"JSON has no such number: {shown}"
    return YamlError(f"json: unsupported value: {text[:100]}", mark, problem=problem)


def _at(event: Any, problem: str) -> YamlError:
    """Return an error as Kubernetes' parser words it, with the line."""
    line = event.start_mark.line + 1
    return YamlError(f"yaml: line {line}: {problem}", event.start_mark, problem=problem)


class _Value(NamedTuple):
    """A value, and its size with all aliases expanded.

    Attributes:
        content: The JSON value.
        nodes: Values and keys.
        depth: Levels of lists and objects.
        characters: Of all texts.
        node: Of the file; None if nobody asked for it.
    """

    content: Any
    nodes: int
    depth: int
    characters: int
    node: Any = None


class _Collection:
    """A list or an object that is being read."""

    def __init__(self, anchor: str | None, node: Any, *, mapping: bool) -> None:
        self.anchor = anchor
        self.mapping = mapping
        self.content: Any = {} if mapping else []
        self.merged: list[_Value] = []
        self.key: Any = _NO_KEY
        self.key_node: Any = None
        self.nodes = 1
        self.depth = 0
        self.characters = 0
        self.node = node

    def value(self) -> _Value:
        """Return what has been read."""
        content = self.content
        if self.merged:
            content = {}
            for each in reversed(self.merged):
                content |= each.content
                if self.node is not None:
                    self.node.value[:0] = each.node.value
            content |= self.content
        return _Value(content, self.nodes, self.depth + 1, self.characters, self.node)


_NO_KEY: Any = object()
_MERGE_KEY: Any = object()


class _Builder:
    """Builds documents from events, with limits for what they hold.

    Args:
        data: The text.
        exact: Whether to use PyYAML's own parser.
        as_text: Whether numbers and booleans stay as they are written.
        unique: Whether a repeated key is an error.
        nodes: Whether to keep the nodes.
        single: Whether a second document is an error.
        most_duplicates: How many repeated keys are reported.
    """

    def __init__(
        self,
        data: str | bytes,
        *,
        exact: bool = False,
        as_text: bool = False,
        unique: bool = False,
        nodes: bool = False,
        single: bool = False,
        most_duplicates: int = 0,
    ) -> None:
        self._loader: Any = (_Exact if exact else _Fast)(data)
        self._as_text = as_text
        self._unique = unique
        self._nodes = nodes
        self._single = single
        self._documents = 0
        self._most_duplicates = most_duplicates
        self._last: Any = None
        self._all_written = 0
        self._begin()

    def _begin(self) -> None:
        self._duplicates: list[str] = []
        self._anchors: dict[str, _Value | None] = {}
        self._open: list[_Collection] = []
        self._written = 0
        self._total = 0
        self._characters = 0

    def read(self) -> Iterator[Document]:
        """Yield the documents; the last one may be empty."""
        root: _Value | None = None
        try:
            while True:
                event = self._last = self._loader.get_event()
                kind = type(event)
                if kind is yaml.StreamEndEvent:
                    return
                if kind is yaml.DocumentStartEvent:
                    root = None
                    self._begin()
                    self._documents += 1
                    if self._single and self._documents > 1:
                        raise _at(event, "expected a single document")
                    if self._documents > _MAX_DOCUMENTS:
                        raise _at(event, f"more than {_MAX_DOCUMENTS} documents")
                    continue
                if kind is yaml.DocumentEndEvent:
                    self._check_size()
                    if root is not None:
                        yield Document(root.content, root.node, self._duplicates)
                    continue
                value = self._event(event, kind)
                if value is not None:
                    root = self._add(value, event)
        finally:
            self._loader.dispose()

    def _event(self, event: Any, kind: type) -> _Value | None:
        """Handle an event; return the value that it completes, if any."""
        if kind is yaml.ScalarEvent:
            value = self._scalar(event)
        elif kind is yaml.AliasEvent:
            return self._alias(event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._start(event, mapping=kind is yaml.MappingStartEvent)
            return None
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            collection = self._open.pop()
            if self._total > 2 * MAX_VALUES:
                collection.merged.clear()  # refused in the end
            value = collection.value()
            if collection.anchor is not None:
                self._anchors[collection.anchor] = value
            return value
        else:
            return None
        self._count(event, 1, value.characters)
        self._written += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _scalar(self, event: yaml.ScalarEvent) -> _Value:
        tag, text = event.tag, event.value
        if len(text) > _MAX_NUMBER and tag in {None, "!"}:
            if event.implicit[0] and not self._as_text and _LONG_NUMBER.fullmatch(text):
                raise _unsupported(text, event.start_mark)
            tag = _STRING
        elif tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)
            if self._as_text and tag not in {_NULL, _MERGE}:
                tag = _STRING
        begin: Any = event.start_mark
        end: Any = event.end_mark
        node = yaml.ScalarNode(tag, text, begin, end) if self._nodes else None
        if tag == _STRING:
            try:
                text.encode()
            except UnicodeEncodeError:  # an escaped surrogate
                raise YamlError("yaml: a text is not Unicode", event.start_mark) from None
            return _Value(text, 1, 0, len(text), node)
        if tag == _MERGE:
            merging = self._open and self._open[-1].mapping and self._open[-1].key is _NO_KEY
            return _Value(_MERGE_KEY if merging else text, 1, 0, len(text), node)
        return _Value(self._constructed(event, tag), 1, 0, len(text), node)

    def _constructed(self, event: yaml.ScalarEvent, tag: str) -> Any:
        """Return the value of a scalar that is no string."""
        node = yaml.ScalarNode(tag, event.value)
        if tag == _NULL:
            return None
        try:
            if tag == f"{_TAG}bool":
                return self._loader.construct_yaml_bool(node)
            if tag not in {f"{_TAG}int", f"{_TAG}float"} or len(node.value) > _MAX_NUMBER:
                raise _at(event, f"unsupported tag {tag[:100]!r}")
            if ":" in node.value:  # of base 60 in YAML 1.1, which Go's parser does not know
                return node.value
            if tag == f"{_TAG}int":
                value: int = self._loader.construct_yaml_int(node)
                # Longer numbers are read as in JSON.
                if -(1 << 63) <= value < 1 << 64:
                    return value
                return _finite(value, node, event.start_mark)
            return _finite(self._loader.construct_yaml_float(node), node, event.start_mark)
        except YamlError:
            raise
        except (ValueError, LookupError) as error:  # `!!int ''`, `!!bool x`
            said = f"{event.value[:100]!r} is no {tag.removeprefix(_TAG)}"
            message = f"error converting YAML to JSON: {error}"
            raise YamlError(message, event.start_mark, problem=said) from None

    def _alias(self, event: Any) -> _Value:
        if event.anchor not in self._anchors:
            raise _at(event, f"unknown anchor {event.anchor[:100]!r}")
        value = self._anchors[event.anchor]
        if value is None:
            raise YamlError("an anchor's value contains itself", event.start_mark)
        self._count(event, value.nodes, value.characters)
        return value

    def _start(self, event: Any, *, mapping: bool) -> None:
        wanted = f"{_TAG}map" if mapping else f"{_TAG}seq"
        if event.tag not in {None, "!", wanted}:
            raise _at(event, f"unsupported tag {event.tag[:100]!r}")
        if len(self._open) > MAX_DEPTH:
            raise _too_deep(event)
        if self._unique and self._open and self._open[-1].mapping and self._open[-1].key is _NO_KEY:
            raise _at(event, "a key must be plain text")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._count(event, 1, 0)
        self._written += 1
        node = None
        if self._nodes:
            make = yaml.MappingNode if mapping else yaml.SequenceNode
            node = make(wanted, [], event.start_mark, event.end_mark)
        self._open.append(_Collection(event.anchor, node, mapping=mapping))

    def _count(self, event: Any, nodes: int, characters: int) -> None:
        self._total += nodes
        self._characters += characters
        self._all_written += 1
        if self._written > 2 * MAX_VALUES or self._all_written > 2 * _MAX_FILE_VALUES:
            raise TooLargeError(event.start_mark, values=True)  # keys are nodes, too

    def _check_size(self) -> None:
        """Refuse a document whose aliases expand to much more than is written."""
        aliased = self._total - self._written
        mark = self._last.start_mark
        if (
            aliased > 100
            and self._total > 1_000
            and aliased / self._total > _allowed_ratio(self._total)
        ):
            raise YamlError("yaml: document contains excessive aliasing", mark)
        if self._total > 2 * MAX_VALUES:
            raise TooLargeError(mark, values=True)
        if self._characters > MAX_OBJECT_BYTES:
            raise TooLargeError(mark, values=False)

    def _add(self, value: _Value, event: Any) -> _Value | None:
        """Add a value to the collection around it; return it if there is none."""
        if not self._open:
            return value
        parent = self._open[-1]
        if len(self._open) + value.depth > MAX_DEPTH + 1:
            raise _too_deep(event)
        parent.nodes += value.nodes
        parent.characters += value.characters
        parent.depth = max(parent.depth, value.depth)
        if not parent.mapping:
            parent.content.append(value.content)
            if parent.node is not None:
                parent.node.value.append(value.node)
        elif parent.key is _NO_KEY:
            parent.key, parent.key_node = self._key(parent, value.content, event), value.node
        elif parent.key is None:
            raise NullKeyError(event.start_mark, value.content)
        else:
            if parent.key is _MERGE_KEY:
                _merge(parent, value, event)
            else:
                parent.content[parent.key] = value.content
                if parent.node is not None:
                    parent.node.value.append((parent.key_node, value.node))
            parent.key = _NO_KEY
        return None

    def _key(self, parent: _Collection, key: Any, event: Any) -> Any:
        if key is _MERGE_KEY or key is None:
            return key
        if not isinstance(key, str):
            key = json.dumps(key)
        if key in parent.content:
            if self._unique:
                raise _at(event, f"the key {key!r} is there twice")
            if len(self._duplicates) < self._most_duplicates:
                line = event.start_mark.line + 1
                self._duplicates.append(f'line {line}: key "{key}" already set in map')
        return key


def _too_deep(event: Any) -> YamlError:
    problem = f"nested more than {MAX_DEPTH} levels deep"
    return YamlError("exceeded max depth", event.start_mark, problem=problem)


def _merge(parent: _Collection, value: _Value, event: Any) -> None:
    """Remember what a merge key adds to an object: one object, or a list of them."""
    contents = value.content if isinstance(value.content, list) else [value.content]
    if not all(isinstance(item, dict) for item in contents):
        raise _at(event, "map merge requires map or sequence of maps")
    nodes = [value.node] * len(contents)
    if isinstance(value.content, list) and value.node is not None:
        nodes = value.node.value
    for content, node in zip(contents, nodes, strict=True):
        parent.merged.append(_Value(content, 0, 0, 0, node))


_FEW_NODES, _MANY_NODES = 400_000, 4_000_000
_HIGHEST_RATIO, _LOWEST_RATIO = 0.99, 0.10


def _allowed_ratio(nodes: int) -> float:
    """Return which part of the nodes may come from aliases (``allowedAliasRatio`` of go-yaml)."""
    if nodes <= _FEW_NODES:
        return _HIGHEST_RATIO
    if nodes >= _MANY_NODES:
        return _LOWEST_RATIO
    part = (nodes - _FEW_NODES) / (_MANY_NODES - _FEW_NODES)
    return _HIGHEST_RATIO - (_HIGHEST_RATIO - _LOWEST_RATIO) * part


def read_all(
    data: str | bytes,
    *,
    exact: bool = False,
    as_text: bool = False,
    unique: bool = False,
    nodes: bool = False,
    single: bool = False,
    most_duplicates: int = 0,
) -> list[Document]:
    """Return the documents of a text.

    Args:
        data: The text; bytes are UTF-8.
        exact: Whether syntax errors are those of PyYAML's own parser, which says more than libyaml:
            ``yaml.MarkedYAMLError`` or ``yaml.reader.ReaderError``.
        as_text: Whether numbers and booleans stay as they are written.
        unique: Whether a repeated key, and one that is a list or an object, is an error.
        nodes: Whether documents have nodes.
        single: Whether a second document is an error.
        most_duplicates: How many repeated keys a document reports.

    Raises:
        YamlError: It is not YAML, no JSON document, or exceeds a limit.
    """
    if len(data) > MAX_FILE_BYTES:
        size = MAX_FILE_BYTES >> 20
        raise YamlError(f"yaml: more than {size} MiB", problem=f"it has more than {size} MiB")
    if isinstance(data, bytes) and data.startswith(_UTF_16):
        raise YamlError("yaml: the body has to be UTF-8", problem="it has to be UTF-8 text")
    handles = _HANDLE_BYTES.finditer(data) if isinstance(data, bytes) else _HANDLE.finditer(data)
    if sum(1 for _ in itertools.islice(handles, _MAX_HANDLES)) == _MAX_HANDLES:
        raise YamlError("yaml: too many %TAG directives")
    settings: dict[str, Any] = {
        "as_text": as_text,
        "unique": unique,
        "nodes": nodes,
        "single": single,
        "most_duplicates": most_duplicates,
    }
    try:
        return list(_Builder(data, **settings).read())
    except YamlError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        if exact and isinstance(error, yaml.YAMLError):
            if len(data) > _MAX_EXACT:
                raise
            return list(_Builder(data, exact=True, **settings).read())
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise YamlError(f"error converting YAML to JSON: {error}", mark, problem=problem) from None


def read(data: str | bytes, *, as_text: bool = False, unique: bool = False) -> Any:
    """Return the content of a text with one document; None if it is empty.

    Args:
        data: The text; bytes are UTF-8.
        as_text: As for `read_all`.
        unique: As for `read_all`.

    Raises:
        YamlError: As for `read_all`, and for a second document.
    """
    found = read_all(data, as_text=as_text, unique=unique, single=True)
    return found[0].content if found else None


def explain(name: str, error: YamlError) -> str:
    """Return file, line and reason of a refusal, in one printable line."""
    where = name if error.line is None else f"{name}:{error.line}"
    text = "".join(each if each.isprintable() else " " for each in error.problem[:500])
    return f"{where}: not valid YAML: {text}"
