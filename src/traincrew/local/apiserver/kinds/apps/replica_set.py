"""ReplicaSets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.podspec.templates import (
    default_replicas,
    no_deadline,
    replicated,
    warn_of_replicas,
)
from traincrew.local.apiserver.kinds.shared.cells import TEMPLATE_COLUMNS, replica_row
from traincrew.local.apiserver.kinds.shared.fields import immutable, non_negative
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a ReplicaSet."""
    spec = field(obj, "spec")
    non_negative(found, "spec.replicas", spec.get("replicas"))
    replicated(found, spec, "deployment")  # sic: upstream's message says so
    no_deadline(found, spec, "ReplicaSet")
    if old is not None:
        immutable(found, "spec.selector", spec.get("selector"), field(old, "spec").get("selector"))


STRATEGY = Strategy(
    selectable=FieldLabels.of(
        "status.replicas", absent={"status.replicas": "0"}, own_message=False
    ),
    columns=f"Name Desired:integer Current:integer Ready:integer Age {TEMPLATE_COLUMNS}",
    row=replica_row,
    warn=warn_of_replicas,
    default=default_replicas,
    validate=_validate,
)
