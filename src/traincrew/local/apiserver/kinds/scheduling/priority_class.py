"""PriorityClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PriorityClass."""
    return [
        name_of(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        age_of(obj, now),
        obj.get("preemptionPolicy", ""),
    ]


def _default(obj: Document) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "scheduling.k8s.io",
            "v1",
            "priorityclasses",
            "PriorityClass",
            namespaced=False,
            short_names=("pc",),
            generation="content",
        ),
    ),
    columns="Name Value:integer Global-Default:boolean Age PreemptionPolicy",
    row=_row,
    default=_default,
)
