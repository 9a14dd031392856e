"""Dumps documents as readable YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTH = 100
UNLIMITED = 2**31 - 1
"""The greatest width that libyaml knows."""


class _Flow(dict[str, Any]):
    """A mapping written in flow style, for the long schema of a pod template."""


class _FlowList(list[Any]):
    """A list written in flow style, as ``[get, list, watch]``."""


# libyaml, where PyYAML was built with it, writes the same text in a quarter of the time.
_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):  # type: ignore[misc]  # one of the two
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML calls it so
        return True


_Dumper.add_representer(
    _Flow,
    lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True),
)
_Dumper.add_representer(
    _FlowList,
    lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True),
)


_Dumper.add_representer(
    str,
    lambda dumper, data: dumper.represent_scalar(
        "tag:yaml.org,2002:str", data, style="|" if "\n" in data else None
    ),
)


def is_flow(key: str, mapping: dict[str, Any]) -> bool:
    """Return whether a list is written in flow style, as in the rules of a role."""
    return "verbs" in mapping and key in {"apiGroups", "resources", "resourceNames", "verbs"}


def dump(document: Any, width: int = WIDTH) -> str:
    """Dump one document; keys keep their order, and long texts are wrapped."""
    text: str = yaml.dump(
        _with_flows(document), Dumper=_Dumper, sort_keys=False, width=width, allow_unicode=True
    )
    return text


def dump_all(documents: Iterable[Any]) -> str:
    """Dump several documents."""
    return "---\n".join(dump(document) for document in documents)


def _with_flows(node: Any, name: str = "") -> Any:
    if isinstance(node, dict):
        if name == "template" and "properties" in node:
            return _Flow(node)
        return {
            key: _FlowList(value) if is_flow(key, node) else _with_flows(value, key)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [_with_flows(value) for value in node]
    return node
