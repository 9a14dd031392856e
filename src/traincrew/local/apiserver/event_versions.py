"""The two faces of an Event: it is stored as core/v1 and also served as events.k8s.io/v1."""

from __future__ import annotations

from typing import Any

__all__ = ["from_core", "to_core"]

Document = dict[str, Any]

_CORE_TO_NEW = {
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "involvedObject": "regarding",
    "lastTimestamp": "deprecatedLastTimestamp",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
}
_NEW_TO_CORE = {new: core for core, new in _CORE_TO_NEW.items()}


def from_core(document: Document) -> Document:
    """A core/v1 Event as events.k8s.io/v1 shows it."""
    renamed = {_CORE_TO_NEW.get(name, name): value for name, value in document.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


def to_core(document: Document) -> Document:
    """An events.k8s.io/v1 Event as it is stored."""
    renamed = {_NEW_TO_CORE.get(name, name): value for name, value in document.items()}
    return renamed | {"apiVersion": "v1"}
