"""LimitRanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field, items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _default(obj: Document) -> None:
    for limit in items(obj, "spec", "limits"):
        if limit.get("type") != "Container":
            continue
        largest, smallest = field(limit, "max"), field(limit, "min")
        default = {**largest, **field(limit, "default")}
        request = {**smallest, **default, **field(limit, "defaultRequest")}
        if default:
            limit["default"] = default
        if request:
            limit["defaultRequest"] = request


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "", "v1", "limitranges", "LimitRange", short_names=("limits",), create_on_update=True
        ),
    ),
    default=_default,
)
