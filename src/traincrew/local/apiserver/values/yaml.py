"""YAML bodies, as Kubernetes reads them. Imported with the first YAML request."""

from __future__ import annotations

import json
import math
from typing import Any

import yaml

from .codec import DecodeError
from .errors import StatusError
from .limits import MAX_DEPTH, MAX_VALUES, too_many_values

__all__ = ["MAX_YAML_BYTES", "from_yaml", "to_yaml"]

MAX_YAML_BYTES = 512 * 1024
"""Bytes of a body that is not JSON. Reading YAML takes half a second for each mebibyte, in which
nobody else is served; all clients of Kubernetes send JSON, with a YAML media type, too."""


def to_yaml(document: Any) -> bytes:
    """Encode as YAML, keeping the order of keys."""
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=False).encode()


class _JsonLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: timestamps stay strings, keys become strings.

    It refuses deep nesting while it reads, and what aliases would expand to before it constructs
    anything.
    """

    duplicates: list[str]
    depth = 0
    nodes = 0

    def fetch_flow_collection_start(self, token: Any) -> None:
        if self.flow_level > MAX_DEPTH:  # the scanner takes longer with each level
            raise DecodeError("exceeded max depth")
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.nodes += 1
        if self.nodes > 2 * MAX_VALUES:  # keys are nodes, too
            raise too_many_values()
        self.depth += 1
        if self.depth > MAX_DEPTH + 1:
            raise DecodeError("exceeded max depth")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                key = json.dumps(key)
            if key in result:
                line = key_node.start_mark.line + 1
                self.duplicates.append(f'line {line}: key "{key}" already set in map')
            result[key] = self.construct_object(value_node, deep=deep)
        return result

    def construct_text(self, node: yaml.ScalarNode) -> str:
        text = str(self.construct_scalar(node))
        try:
            text.encode()
        except UnicodeEncodeError:  # an escaped surrogate
            raise DecodeError("yaml: a text is not Unicode") from None
        return text

    def construct_integer(self, node: yaml.ScalarNode) -> int | float:
        value: int = self.construct_yaml_int(node)
        # Longer numbers are read as in JSON.
        return value if -(1 << 63) <= value < 1 << 64 else self._finite(value, node)

    def construct_number(self, node: yaml.ScalarNode) -> float:
        return self._finite(self.construct_yaml_float(node), node)

    def _finite(self, value: float, node: yaml.ScalarNode) -> float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise DecodeError(f"json: unsupported value: {node.value[:100]}")
        return number


_TAG = "tag:yaml.org,2002:"

_JsonLoader.yaml_implicit_resolvers = {
    first: [
        (tag, regexp)
        for tag, regexp in resolvers
        if tag not in {f"{_TAG}timestamp", f"{_TAG}value"}
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

# The types that JSON has; every other tag is refused.
_JsonLoader.yaml_constructors = {
    f"{_TAG}null": _JsonLoader.construct_yaml_null,
    f"{_TAG}bool": _JsonLoader.construct_yaml_bool,
    f"{_TAG}int": _JsonLoader.construct_integer,
    f"{_TAG}float": _JsonLoader.construct_number,
    f"{_TAG}str": _JsonLoader.construct_text,
    f"{_TAG}seq": _JsonLoader.construct_yaml_seq,
    f"{_TAG}map": _JsonLoader.construct_yaml_map,
    None: _JsonLoader.construct_undefined,
}


# -- aliases

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


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _check_aliases(root: yaml.Node) -> None:
    """Refuse a document whose aliases expand to much more than is written, or to themselves.

    Raises:
        DecodeError: it does, or it is nested too deeply once the aliases are expanded.
    """
    # Nodes and levels below each node, aliases expanded; None while it is being counted.
    counted: dict[int, tuple[int, int] | None] = {}

    def count(node: yaml.Node) -> tuple[int, int]:
        key = id(node)
        if key in counted:
            known = counted[key]
            if known is None:
                raise DecodeError("an anchor's value contains itself")
            return known
        counted[key] = None
        size, depth = 1, 0
        for child in _children(node):
            below = count(child)
            size += below[0]
            depth = max(depth, below[1] + 1)
        counted[key] = size, depth
        return size, depth

    size, depth = count(root)
    aliased = size - len(counted)
    if aliased > 100 and size > 1_000 and aliased / size > _allowed_ratio(size):
        raise DecodeError("yaml: document contains excessive aliasing")
    if size > 2 * MAX_VALUES:
        raise too_many_values()
    if depth > MAX_DEPTH + 1:
        raise DecodeError("exceeded max depth")


def from_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Decode one YAML document; also return the duplicate keys.

    Raises:
        DecodeError: the bytes are not YAML, are nested too deeply, or have too many aliases.
        StatusError: 413 for too many values, or more than `MAX_YAML_BYTES`.
    """
    if len(data) > MAX_YAML_BYTES:
        message = f"Request entity too large: YAML is limited to {MAX_YAML_BYTES} bytes; send JSON"
        raise StatusError(413, "RequestEntityTooLarge", message)
    try:
        loader = _JsonLoader(data)
        loader.duplicates = []
        try:
            root = loader.get_single_node()
            if root is None:
                return None, []
            _check_aliases(root)
            return loader.construct_document(root), loader.duplicates
        finally:
            loader.dispose()
    except DecodeError:
        raise
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DecodeError(f"error converting YAML to JSON: {error}") from None
