"""YAML bodies, as Kubernetes reads them. Imported with the first YAML request."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import Any, NamedTuple

import yaml

from . import goformat
from .codec import MAX_FAULTS, DecodeError, decode, duplicate_fields, encode
from .errors import StatusError
from .limits import (
    MAX_DEPTH,
    MAX_OBJECT_BYTES,
    MAX_VALUES,
    decode_request,
    too_many_bytes,
    too_many_values,
)

__all__ = ["LARGE", "PreparedYaml", "from_yaml", "prepare", "to_yaml"]

LARGE = 8 * 1024
"""Bytes of a body that is read in a thread."""


def to_yaml(document: Any) -> bytes:
    """Encode as YAML, keeping the order of keys."""
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=False).encode()


# libyaml reads a token in about a microsecond, the pure Python parser in fourteen.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_STRING = f"{_TAG}str"


class _Scalars(_Loader):  # type: ignore[misc]
    """Reads events, and resolves scalars as Kubernetes does: timestamps stay strings."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [
            (tag, regexp)
            for tag, regexp in resolvers
            if tag not in {f"{_TAG}timestamp", f"{_TAG}value"}
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def scalar(self, event: yaml.ScalarEvent, tag: str) -> Any:
        """Return the value of a scalar that is no string.

        Raises:
            DecodeError: JSON has no such value.
        """
        node = yaml.ScalarNode(tag, event.value)
        if tag == f"{_TAG}null":
            return None
        if tag == f"{_TAG}bool":
            return self.construct_yaml_bool(node)
        if tag not in {f"{_TAG}int", f"{_TAG}float"} or len(node.value) > _MAX_NUMBER:
            raise DecodeError(f"yaml: {_place(event)}: unsupported tag {tag[:100]!r}")
        if ":" in node.value:  # a number of base 60 in YAML 1.1, which Go's parser does not know
            return node.value
        if tag == f"{_TAG}int":
            value: int = self.construct_yaml_int(node)
            # Longer numbers are read as in JSON.
            return value if -(1 << 63) <= value < 1 << 64 else _finite(value, node)
        return _finite(self.construct_yaml_float(node), node)


_MAX_NUMBER = 1_000  # characters; longer scalars are not compared with YAML's patterns
_LONG_NUMBER = re.compile(r"[-+]?[0-9][0-9_]*+(?:\.[0-9_]*+)?(?:[eE][-+]?[0-9]++)?")

# libyaml compares each tag handle with all others. Only a line before the document can be one.
_MAX_HANDLES = 50
_HANDLE = re.compile(rb"(?:^|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9])%TAG")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def _finite(value: float, node: yaml.ScalarNode) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DecodeError(f"json: unsupported value: {node.value[:100]}")
    return number


def _place(event: Any) -> str:
    return f"line {event.start_mark.line + 1}"


class _Value(NamedTuple):
    """A value, and its size with all aliases expanded.

    Attributes:
        content: the JSON value.
        nodes: values and keys.
        depth: levels of lists and objects.
        characters: of all texts.
    """

    content: Any
    nodes: int
    depth: int
    characters: int


class _Collection:
    """A list or an object that is being read."""

    def __init__(self, anchor: str | None, *, mapping: bool) -> None:
        self.anchor = anchor
        self.mapping = mapping
        self.content: Any = {} if mapping else []
        self.merged: list[Any] = []
        self.key: Any = _NO_KEY
        self.nodes = 1
        self.depth = 0
        self.characters = 0

    def value(self) -> _Value:
        """Return what has been read."""
        content = self.content
        if self.merged:
            content = {}
            for each in reversed(self.merged):
                content |= each
            content |= self.content
        return _Value(content, self.nodes, self.depth + 1, self.characters)


_NO_KEY: Any = object()
_MERGE_KEY: Any = object()


class _Document:
    """Builds the document from events, with limits for what it holds."""

    def __init__(self, data: bytes) -> None:
        self.loader = _Scalars(data)
        self.duplicates: list[str] = []
        self.anchors: dict[str, _Value | None] = {}
        self.open: list[_Collection] = []
        self.written = 0
        self.total = 0
        self.characters = 0

    def read(self) -> Any:
        """Return the document; None without one."""
        root: _Value | None = None
        documents = 0
        while True:
            event = self.loader.get_event()
            kind = type(event)
            if kind is yaml.StreamEndEvent:
                break
            if kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise DecodeError(f"yaml: {_place(event)}: expected a single document")
            value = self._event(event, kind)
            if value is not None:
                root = self._add(value, event)
        self._check_size()
        return None if root is None else root.content

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
            collection = self.open.pop()
            if self.total > 2 * MAX_VALUES:
                collection.merged.clear()  # refused in the end
            value = collection.value()
            if collection.anchor is not None:
                self.anchors[collection.anchor] = value
            return value
        else:
            return None
        self._count(1, value.characters)
        self.written += 1
        if event.anchor is not None:
            self.anchors[event.anchor] = value
        return value

    def _scalar(self, event: yaml.ScalarEvent) -> _Value:
        tag, text = event.tag, event.value
        if len(text) > _MAX_NUMBER and tag in {None, "!"}:
            if event.implicit[0] and _LONG_NUMBER.fullmatch(text):
                raise DecodeError(f"json: unsupported value: {text[:100]}")
            tag = _STRING
        elif tag is None or tag == "!":
            tag = self.loader.resolve(yaml.ScalarNode, text, event.implicit)
        if tag == _STRING:
            try:
                text.encode()
            except UnicodeEncodeError:  # an escaped surrogate
                raise DecodeError("yaml: a text is not Unicode") from None
            return _Value(text, 1, 0, len(text))
        if tag == _MERGE:
            merging = self.open and self.open[-1].mapping and self.open[-1].key is _NO_KEY
            return _Value(_MERGE_KEY if merging else text, 1, 0, len(text))
        return _Value(self.loader.scalar(event, tag), 1, 0, len(text))

    def _alias(self, event: Any) -> _Value:
        if event.anchor not in self.anchors:
            raise DecodeError(f"yaml: {_place(event)}: unknown anchor {event.anchor[:100]!r}")
        value = self.anchors[event.anchor]
        if value is None:
            raise DecodeError("an anchor's value contains itself")
        self._count(value.nodes, value.characters)
        return value

    def _start(self, event: Any, *, mapping: bool) -> None:
        wanted = f"{_TAG}map" if mapping else f"{_TAG}seq"
        if event.tag not in {None, "!", wanted}:
            raise DecodeError(f"yaml: {_place(event)}: unsupported tag {event.tag[:100]!r}")
        if len(self.open) > MAX_DEPTH:
            raise DecodeError("exceeded max depth")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self._count(1, 0)
        self.written += 1
        self.open.append(_Collection(event.anchor, mapping=mapping))

    def _count(self, nodes: int, characters: int) -> None:
        self.total += nodes
        self.characters += characters
        if self.written > 2 * MAX_VALUES:  # keys are nodes, too
            raise too_many_values()

    def _check_size(self) -> None:
        """Refuse a document whose aliases expand to much more than is written."""
        aliased = self.total - self.written
        if (
            aliased > 100
            and self.total > 1_000
            and aliased / self.total > _allowed_ratio(self.total)
        ):
            raise DecodeError("yaml: document contains excessive aliasing")
        if self.total > 2 * MAX_VALUES:
            raise too_many_values()
        if self.characters > MAX_OBJECT_BYTES:
            raise too_many_bytes()

    def _add(self, value: _Value, event: Any) -> _Value | None:
        """Add a value to the collection around it; return it if there is none."""
        if not self.open:
            return value
        parent = self.open[-1]
        if len(self.open) + value.depth > MAX_DEPTH + 1:
            raise DecodeError("exceeded max depth")
        parent.nodes += value.nodes
        parent.characters += value.characters
        parent.depth = max(parent.depth, value.depth)
        if not parent.mapping:
            parent.content.append(value.content)
        elif parent.key is _NO_KEY:
            parent.key = self._key(parent, value.content, event)
        elif parent.key is None:
            shown = goformat.syntax(value.content)[:100]
            raise DecodeError(
                "error converting YAML to JSON: unsupported map key of type: %!s(<nil>), key:"
                f" <nil>, value: {shown}"
            )
        else:
            if parent.key is _MERGE_KEY:
                _merge(parent, value.content, event)
            else:
                parent.content[parent.key] = value.content
            parent.key = _NO_KEY
        return None

    def _key(self, parent: _Collection, key: Any, event: Any) -> Any:
        if key is _MERGE_KEY or key is None:
            return key
        if not isinstance(key, str):
            key = json.dumps(key)
        if key in parent.content and len(self.duplicates) < MAX_FAULTS:
            self.duplicates.append(f'{_place(event)}: key "{key}" already set in map')
        return key


def _merge(parent: _Collection, content: Any, event: Any) -> None:
    """Remember what a merge key adds to an object: one object, or a list of them."""
    each = content if isinstance(content, list) else [content]
    if not all(isinstance(item, dict) for item in each):
        raise DecodeError(f"yaml: {_place(event)}: map merge requires map or sequence of maps")
    parent.merged.extend(each)


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


def _read(data: bytes) -> tuple[Any, list[str]]:
    if data.startswith(_UTF_16):
        raise DecodeError("yaml: the body has to be UTF-8")
    if sum(1 for _ in itertools.islice(_HANDLE.finditer(data), _MAX_HANDLES)) == _MAX_HANDLES:
        raise DecodeError("yaml: too many %TAG directives")
    document = None
    try:
        document = _Document(data)
        return document.read(), document.duplicates
    except DecodeError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise DecodeError(f"error converting YAML to JSON: {error}") from None
    finally:
        if document is not None:
            document.loader.dispose()


class PreparedYaml(bytes):
    """A YAML body that has been read already.

    Attributes:
        json: the document as JSON.
        duplicates: the duplicate keys.
        error: why it cannot be read.
    """

    json: bytes = b"null"
    duplicates: tuple[str, ...] = ()
    error: Exception | None = None


def prepare(data: bytes, *, may_be_json: bool) -> bytes:
    """Read a YAML body, in a thread: a large one takes a second.

    Args:
        data: the body.
        may_be_json: whether the body is decoded as JSON if it is JSON.

    Returns:
        The same body; `from_yaml` decodes it within milliseconds.
    """
    if may_be_json and data.lstrip()[:1] == b"{":
        try:
            if not duplicate_fields(data, decode_request(data)):
                return data
        except StatusError:
            return data  # too many values
        except DecodeError:
            pass
    prepared = PreparedYaml(data)
    try:
        document, duplicates = _read(data)
        prepared.json = encode(document)
        prepared.duplicates = tuple(duplicates)
    except (DecodeError, StatusError) as error:
        prepared.error = error
    return prepared


def from_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Decode one YAML document; also return the duplicate keys.

    Raises:
        DecodeError: the bytes are not YAML, are nested too deeply, or have too many aliases.
        StatusError: 413 for too many values.
    """
    if not isinstance(data, PreparedYaml):
        return _read(data)
    if data.error is not None:
        raise data.error
    return decode(data.json), list(data.duplicates)
