"""JSON and YAML bodies: decode, encode, clone, and find keys that occur twice."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import yaml

__all__ = ["DecodeError", "clone", "decode", "duplicate_fields", "encode", "from_yaml", "to_yaml"]

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class DecodeError(ValueError):
    """The body is not a document of the announced format; the message says where."""


def decode(data: bytes) -> Any:
    """Decode JSON.

    Raises:
        DecodeError: the bytes are not JSON.
    """
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        raise DecodeError(str(error)) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"invalid JSON: {error}") from None


def clone(document: Any) -> Any:
    """Copy a JSON document; ten times faster than ``copy.deepcopy``."""
    return _decode(encode(document))


def to_yaml(document: Any) -> bytes:
    """Encode as YAML, keys in their order."""
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=False).encode()


class _JsonLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: timestamps stay strings, keys become strings."""

    duplicates: list[str]

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


_JsonLoader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def from_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Decode one YAML document; also say which keys occur twice.

    Raises:
        DecodeError: the bytes are not YAML.
    """
    try:
        loader = _JsonLoader(data)
        loader.duplicates = []
        try:
            return loader.get_single_data(), loader.duplicates
        finally:
            loader.dispose()
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DecodeError(f"error converting YAML to JSON: {error}") from None


class _Pairs(dict[str, Any]):
    """A JSON object that remembers which of its keys came twice."""

    repeated: list[str]


def _pairs(items: list[tuple[str, Any]]) -> _Pairs:
    result = _Pairs(items)
    result.repeated = []
    if len(result) != len(items):
        seen: set[str] = set()
        for key, _ in items:
            if key in seen and key not in result.repeated:
                result.repeated.append(key)
            seen.add(key)
    return result


def _walk(document: Any, path: str, found: list[str]) -> None:
    if isinstance(document, _Pairs):
        prefix = f"{path}." if path else ""
        found.extend(prefix + key for key in document.repeated)
        for key, value in document.items():
            _walk(value, prefix + key, found)
    elif isinstance(document, list):
        for index, value in enumerate(document):
            _walk(value, f"{path}[{index}]", found)


def duplicate_fields(data: bytes, document: Any) -> list[str]:
    """Paths of the keys that occur twice in a JSON body, such as ``spec.replicas``.

    Args:
        data: the body.
        document: what ``decode`` made of it.
    """
    # A repeated key vanishes when decoded, so encoding again yields fewer `":`. Anything that
    # differs for another reason (spaces before colons) only costs the exact look.
    if data.count(b'":') == encode(document).count(b'":'):
        return []
    found: list[str] = []
    _walk(json.loads(data, object_pairs_hook=_pairs), "", found)
    return found
