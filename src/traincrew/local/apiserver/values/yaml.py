"""YAML bodies, as Kubernetes reads them. Imported with the first YAML request."""

from __future__ import annotations

import json
from typing import Any

import yaml

from .codec import DecodeError

__all__ = ["from_yaml", "to_yaml"]


def to_yaml(document: Any) -> bytes:
    """Encode as YAML, keeping the order of keys."""
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
    """Decode one YAML document; also return the duplicate keys.

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
