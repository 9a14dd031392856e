"""ConfigMaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a ConfigMap."""
    count = len(field(obj, "data")) + len(field(obj, "binaryData"))
    return [name_of(obj), count, age_of(obj, now)]


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "configmaps",
            "ConfigMap",
            short_names=("cm",),
            significant_empty=("binaryData",),
        ),
    ),
    columns="Name Data Age",
    row=_row,
)
