"""Patches, computed and applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def json_patch(values: Mapping[tuple[str, ...], Any], version: str) -> list[dict[str, Any]]:
    """A JSON patch (RFC 6902) that replaces whole fields of one version of an object.

    Args:
        values: Path to new value; None removes the field.
        version: The ``resourceVersion`` the object must still have; else the API answers 409.
    """
    # A "test" that fails would be answered with 422, as if the patch itself were wrong; naming the
    # version gives a conflict. Versions are never used twice, so this tells incarnations apart too.
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
    ]
    for path, value in values.items():
        pointer = "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)
        if value is None:
            operations.append({"op": "remove", "path": pointer})
        else:
            operations.append({"op": "add", "path": pointer, "value": value})
    return operations


def merge(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7386)."""
    merged = {name: value for name, value in document.items() if patch.get(name, 0) is not None}
    for name, value in patch.items():
        if isinstance(value, dict):
            inner = merged.get(name)
            merged[name] = merge(inner if isinstance(inner, dict) else {}, value)
        elif value is not None:
            merged[name] = value
    return merged


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) that turns one document into another; empty if equal."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        if name not in before:
            patch[name] = value
        elif isinstance(value, dict) and isinstance(before[name], dict):
            if inner := merge_patch(before[name], value):
                patch[name] = inner
        elif before[name] != value:
            patch[name] = value
    return patch
