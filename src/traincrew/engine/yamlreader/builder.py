"""Documents from the events of a parser, with limits for what they hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from traincrew.engine.decoding import MAX_DEPTH, MAX_OBJECT_BYTES, MAX_VALUES
from traincrew.engine.yamlreader.errors import NullKeyError, TooLargeError, YamlError, at
from traincrew.engine.yamlreader.scalars import (
    MERGE,
    STRING,
    TAG,
    ExactLoader,
    FastLoader,
    constructed,
    resolved,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Builder", "Document"]

_MAX_DOCUMENTS = 10_000
_MAX_FILE_VALUES = 10 * MAX_VALUES


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


class Builder:
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
        self._loader: Any = (ExactLoader if exact else FastLoader)(data)
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
                        raise at(event, "expected a single document")
                    if self._documents > _MAX_DOCUMENTS:
                        raise at(event, f"more than {_MAX_DOCUMENTS} documents")
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
        tag, text = resolved(self._loader, event, as_text=self._as_text), event.value
        begin: Any = event.start_mark
        end: Any = event.end_mark
        node = yaml.ScalarNode(tag, text, begin, end) if self._nodes else None
        if tag == STRING:
            try:
                text.encode()
            except UnicodeEncodeError:  # an escaped surrogate
                raise YamlError("yaml: a text is not Unicode", event.start_mark) from None
            return _Value(text, 1, 0, len(text), node)
        if tag == MERGE:
            merging = self._open and self._open[-1].mapping and self._open[-1].key is _NO_KEY
            return _Value(_MERGE_KEY if merging else text, 1, 0, len(text), node)
        return _Value(constructed(self._loader, event, tag), 1, 0, len(text), node)

    def _alias(self, event: Any) -> _Value:
        if event.anchor not in self._anchors:
            raise at(event, f"unknown anchor {event.anchor[:100]!r}")
        value = self._anchors[event.anchor]
        if value is None:
            raise YamlError("an anchor's value contains itself", event.start_mark)
        self._count(event, value.nodes, value.characters)
        return value

    def _start(self, event: Any, *, mapping: bool) -> None:
        wanted = f"{TAG}map" if mapping else f"{TAG}seq"
        if event.tag not in {None, "!", wanted}:
            raise at(event, f"unsupported tag {event.tag[:100]!r}")
        if len(self._open) > MAX_DEPTH:
            raise _too_deep(event)
        if self._unique and self._open and self._open[-1].mapping and self._open[-1].key is _NO_KEY:
            raise at(event, "a key must be plain text")
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
                raise at(event, f"the key {key!r} is there twice")
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
        raise at(event, "map merge requires map or sequence of maps")
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
