"""PodDisruptionBudgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PodDisruptionBudget."""
    spec = field(obj, "spec")
    return [
        name_of(obj),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        field(obj, "status").get("disruptionsAllowed", 0),
        age_of(obj, now),
    ]


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "policy",
            "v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            short_names=("pdb",),
            status=True,
            generation="spec",
            unconditional_update=False,
        ),
    ),
    columns="Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age",
    row=_row,
)
