"""Type check of an applied configuration against its schema, before the merge.

Texts and rules are those of sigs.k8s.io/structured-merge-diff ``typed/validate.go``, which is
stricter than decoding: it refuses unknown fields and items without their keys. Values are printed
as Go prints them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.schema.node import ANY
from traincrew.local.apiserver.values.goformat import TYPES, shown, syntax

from .fieldsets import print_step
from .valuefields import item_key

if TYPE_CHECKING:
    from traincrew.local.apiserver.schema.node import SchemaNode

__all__ = ["type_faults"]

_SCALARS = {"quantity", "int-or-string", ""}


def type_faults(node: SchemaNode, value: Any) -> list[str]:
    """Return the type errors of a value, such as ``.spec.replicas: expected numeric …``."""
    found: list[str] = []
    _check(node, value, "", found, loose=False)
    return found


def _check(node: SchemaNode, value: Any, path: str, found: list[str], *, loose: bool) -> None:
    """Check a value; `loose` is set below a custom resource's field that keeps unknown fields."""
    if value is None:
        return
    wanted, kind = node.type, type(value)
    if not wanted and kind is not dict and kind is not list:
        return
    if wanted == "object" or (not wanted and kind is dict):
        if kind is not dict:
            found.append(_fault(path, f"expected map, got {_shown(value)}"))
        else:
            _check_map(node, value, path, found, loose=loose)
    elif wanted == "array" or (not wanted and kind is list):
        if kind is not list:
            found.append(_fault(path, f"expected list, got {_shown(value)}"))
        else:
            _check_list(node, value, path, found, loose=loose)
    else:
        _check_scalar(node, value, path, found)


def _check_scalar(node: SchemaNode, value: Any, path: str, found: list[str]) -> None:
    wanted, kind = node.type, type(value)
    if wanted in _SCALARS or (node.rules or {}).get("format") == "date-time":
        # Upstream's types leave `x-kubernetes-int-or-string` of custom resources unspecified.
        known = node.null_is_absent or wanted != "int-or-string"
        if known and (kind is dict or kind is list):
            found.append(_fault(path, f"expected any scalar, got {_shown(value)}"))
    elif wanted == "string" and kind is not str:
        shown = f"&value.valueUnstructured{{Value:{syntax(value)}}}"
        found.append(_fault(path, f"expected string, got {shown}"))
    elif wanted == "boolean" and kind is not bool:
        found.append(_fault(path, f"expected boolean, got {_shown(value)}"))
    elif wanted in {"integer", "number"} and kind is not int and kind is not float:
        found.append(_fault(path, f"expected numeric (int or float), got {TYPES[kind]}"))


def _check_map(
    node: SchemaNode, value: dict[str, Any], path: str, found: list[str], *, loose: bool
) -> None:
    fields, rest = node.fields, node.values
    loose = loose or (rest is ANY and not node.null_is_absent)
    if loose and rest is None:
        rest = ANY
    if rest is None and node is not ANY and not node.type:
        rest = ANY
    for key, item in value.items():
        child = fields.get(key) or rest
        if child is None:
            found.append(_fault(f"{path}.{key}", "field not declared in schema"))
            return  # as upstream: nothing below is checked
        if child is not ANY:
            _check(child, item, f"{path}.{key}", found, loose=loose)


def _check_list(
    node: SchemaNode, value: list[Any], path: str, found: list[str], *, loose: bool
) -> None:
    items = node.items or ANY
    seen: set[str] = set()
    for index, item in enumerate(value):
        key = None
        if node.associative:
            fault = _key_fault(node, item)
            if fault is not None:
                found.append(_fault(path, f"element {index}: {fault}"))
                return
            key = item_key(node, item)
            assert key is not None
            if key in seen:
                found.append(_fault(path, f"duplicate entries for key {print_step(key)}"))
            seen.add(key)
        if items is ANY:
            continue
        faults: list[str] = []
        _check(items, item, path, faults, loose=loose)
        if faults:  # only now the path of the item is worth its time
            step = f"[{index}]" if key is None else print_step(key)
            _check(items, item, path + step, found, loose=loose)


def _key_fault(node: SchemaNode, item: Any) -> str | None:
    """Return why an item has no usable key; None if it has one."""
    kind = type(item)
    if node.is_set:
        if kind is dict:
            return "associative list without keys has an element that's a map type"
        if kind is list:
            return "not supported: associative list with lists as elements"
        if item is None:
            return "associative list without keys has an element that's an explicit null"
        return None
    if item is None:
        return "associative list with keys may not have a null element"
    if kind is not dict:
        return "associative list with keys may not have non-map elements"
    if any(key in item or key in node.key_defaults for key in node.keys):
        return None
    keys = " ".join(f'"{key}"' for key in node.keys)
    return (
        f"associative list with keys has an element that omits all key fields [{keys}] "
        "(and doesn't have default values for any key fields)"
    )


def _shown(value: Any) -> str:
    """Return a value of the library as ``%v`` prints it: ``&{map[a:1]}``."""
    return f"&{{{shown(value)}}}"


def _fault(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text
