"""StatefulSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import (
    age_of,
    containers_of,
    name_of,
    template_spec,
)
from traincrew.local.apiserver.kinds.strategy import ResourceType, ScalePaths, Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a StatefulSet."""
    ready = field(obj, "status").get("readyReplicas", 0)
    return [
        name_of(obj),
        f"{ready}/{field(obj, 'spec').get('replicas', 0)}",
        age_of(obj, now),
        *containers_of(template_spec(obj)),
    ]


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "apps",
            "v1",
            "statefulsets",
            "StatefulSet",
            short_names=("sts",),
            categories=("all",),
            status=True,
            generation="spec",
            scale=ScalePaths(selector=".spec.selector"),
        ),
    ),
    columns="Name Ready Age Containers* Images*",
    row=_row,
)
