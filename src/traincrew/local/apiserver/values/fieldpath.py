"""Simple paths into documents, as definitions use them: ``.spec.replicas``."""

from __future__ import annotations

from typing import Any

__all__ = ["lookup", "store"]


def _parts(path: str) -> list[str]:
    return path.strip().lstrip(".").split(".")


def lookup(document: Any, path: str) -> Any:
    """Return the value at a path; None when there is none."""
    for part in _parts(path):
        if not isinstance(document, dict):
            return None
        document = document.get(part)
    return document


def store(document: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path, creating missing objects on the way."""
    *parents, last = _parts(path)
    for part in parents:
        child = document.get(part)
        if not isinstance(child, dict):
            child = document[part] = {}
        document = child
    document[last] = value
