"""Conversion of Events, which are stored as core/v1 and also served as events.k8s.io/v1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["from_core", "to_core"]

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
    """Convert a core/v1 Event to events.k8s.io/v1."""
    renamed = {_CORE_TO_NEW.get(name, name): value for name, value in document.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


def to_core(document: Document) -> Document:
    """Convert an events.k8s.io/v1 Event to core/v1, the stored version."""
    renamed = {_NEW_TO_CORE.get(name, name): value for name, value in document.items()}
    return renamed | {"apiVersion": "v1"}
