"""The kind of the API group `autoscaling`: stored as version 2, and served as version 1, too."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.strategy import ResourceType

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["RESOURCES"]


def _from_v2(document: Document) -> Document:
    from .versions import from_v2

    return from_v2(document)


def _to_v2(document: Document) -> Document:
    from .versions import to_v2

    return to_v2(document)


_autoscaler = partial(
    ResourceType,
    "autoscaling",
    plural="horizontalpodautoscalers",
    kind="HorizontalPodAutoscaler",
    short_names=("hpa",),
    categories=("all",),
    status=True,
    storage_version="v2",
    package=__name__,
)

RESOURCES = (
    _autoscaler("v2"),
    _autoscaler("v1", from_storage=_from_v2, to_storage=_to_v2),
)
