"""The kind of the API group `events.k8s.io`; its objects are stored as those of the core group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.strategy import ResourceType

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["RESOURCES"]


def _from_core(document: Document) -> Document:
    from .event import from_core

    return from_core(document)


def _to_core(document: Document) -> Document:
    from .event import to_core

    return to_core(document)


RESOURCES = (
    ResourceType(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        create_on_update=True,
        identifier="events",
        from_storage=_from_core,
        to_storage=_to_core,
        package=__name__,
    ),
)
