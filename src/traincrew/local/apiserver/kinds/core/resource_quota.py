"""ResourceQuotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a ResourceQuota."""
    status = field(obj, "status")
    used = field(status, "used")
    shown: dict[bool, list[str]] = {False: [], True: []}
    for resource, hard in sorted(field(status, "hard").items()):
        shown[resource.startswith("limits.")].append(f"{resource}: {used.get(resource, 0)}/{hard}")
    return [name_of(obj), ", ".join(shown[False]), ", ".join(shown[True]), age_of(obj, now)]


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "resourcequotas",
            "ResourceQuota",
            short_names=("quota",),
            status=True,
            returns_deleted=True,
        ),
    ),
    columns="Name Request Limit Age",
    row=_row,
)
