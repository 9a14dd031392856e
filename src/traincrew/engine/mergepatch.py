"""JSON merge patches (RFC 7396), computed and applied to plain dictionaries.

A null field counts as absent: a merge patch cannot distinguish them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["apply", "difference"]


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that turns one document into another; empty if they are equal."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if old == value:
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := difference(old, value):
                patch[name] = inner
        else:
            patch[name] = value
    return patch


def apply(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new document with the patch applied; unchanged parts are shared."""
    merged = {name: value for name, value in document.items() if patch.get(name, 0) is not None}
    for name, value in patch.items():
        if isinstance(value, dict):
            inner = merged.get(name)
            merged[name] = apply(inner if isinstance(inner, dict) else {}, value)
        elif value is not None:
            merged[name] = value
    return merged
