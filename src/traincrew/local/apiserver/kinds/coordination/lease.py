"""Leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Lease."""
    return [name_of(obj), field(obj, "spec").get("holderIdentity", ""), age_of(obj, now)]


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "coordination.k8s.io",
            "v1",
            "leases",
            "Lease",
            create_on_update=True,
            unconditional_update=False,
        ),
    ),
    columns="Name Holder Age",
    row=_row,
)
