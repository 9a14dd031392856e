"""Typed merge of an applied configuration, and removal of fields from a value.

Both work on whole documents, return new ones and share what they do not change; conflicts between
managers are decided in `apply`.
Semantics: sigs.k8s.io/structured-merge-diff ``typed/merge.go`` and ``typed/remove.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.schema.node import ANY, SchemaNode

from .valuefields import item_key

if TYPE_CHECKING:
    from .fieldsets import FieldSet

__all__ = ["merge", "remove"]

_ABSENT: Any = object()


def merge(node: SchemaNode, live: Any, config: Any) -> Any:
    """Merge the configuration into the live value; the configuration wins."""
    if config is _ABSENT:
        return live
    if live is _ABSENT or node.leaf:
        return config
    live_kind, config_kind = type(live), type(config)
    if live_kind is dict and (config_kind is dict or config is None):
        if not live and not config:
            return config
        return _merge_maps(node, live, config or {})
    if (
        node.associative
        and (live_kind is list or live is None)
        and (config_kind is list or config is None)
        and (live or config)
    ):
        return _merge_lists(node, live or [], config or [])
    return config


def _merge_maps(node: SchemaNode, live: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    result = dict(live)
    fields, rest = node.fields, node.values or ANY
    for key, item in config.items():
        result[key] = merge(fields.get(key, rest), live.get(key, _ABSENT), item)
    return result


def _merge_lists(node: SchemaNode, live: list[Any], config: list[Any]) -> list[Any]:
    """Interleave two associative lists.

    Shared items are in the configuration's order. Items only in the live list stay before the
    live item that followed them. A new item stays after the configured item it follows.
    """
    item_node = node.items or ANY
    live_steps = [item_key(node, item) for item in live]
    config_steps = [item_key(node, item) for item in config]
    by_step_live = {step: item for step, item in zip(live_steps, live, strict=True) if step}
    by_step_config = {step: item for step, item in zip(config_steps, config, strict=True) if step}
    shared = [step for step in config_steps if step in by_step_live]
    shared.reverse()  # the next one is the last
    result: list[Any] = []
    taken: set[str | None] = set()

    def take(step: str | None) -> None:
        taken.add(step)
        if step is not None:
            before = by_step_live.get(step, _ABSENT)
            result.append(merge(item_node, before, by_step_config[step]))
        if shared and shared[-1] == step:
            shared.pop()

    left = right = 0
    while left < len(live) or right < len(config):
        if left < len(live):
            step = live_steps[left]
            if step not in by_step_config:
                result.append(live[left])
                left += 1
                continue
            if right < len(config):
                if step == config_steps[right]:
                    take(step)
                    left += 1
                    right += 1
                    continue
                if shared and step != shared[-1]:
                    # Shared, but another shared item comes first in the configuration.
                    left += 1
                    continue
            if step in taken:
                left += 1
        if right < len(config):
            if config_steps[right] not in taken:
                take(config_steps[right])
            right += 1
    return result


def remove(node: SchemaNode, value: Any, fields: FieldSet) -> Any:
    """Return the value without the members of a set.

    A container that loses its last entry becomes null, as upstream leaves it.
    """
    if not fields or not value or node.leaf:
        return value
    if type(value) is dict:
        result = {}
        child_fields, rest = node.fields, node.values or ANY
        for key, item in value.items():
            below = fields.get("f:" + key)
            if below is None:
                result[key] = item
            elif below and "." not in below:
                result[key] = remove(child_fields.get(key, rest), item, below)
        return result or None
    if type(value) is list and node.associative:
        items: list[Any] = []
        item_node = node.items or ANY
        for item in value:
            step = item_key(node, item)
            below = fields.get(step) if step is not None else None
            if below is None:
                items.append(item)
            elif below and "." not in below:
                items.append(remove(item_node, item, below))
        return items or None
    return value
