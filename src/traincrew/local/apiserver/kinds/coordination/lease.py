"""Leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Lease."""
    return [name_of(obj), field(obj, "spec").get("holderIdentity", ""), age_of(obj, now)]


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a Lease."""
    spec = field(obj, "spec")
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        detail = "must be greater than 0"
        found.append(why.invalid("spec.leaseDurationSeconds", seconds, detail))
    if transitions is not None and transitions < 0:
        detail = "must be greater than or equal to 0"
        found.append(why.invalid("spec.leaseTransitions", transitions, detail))


STRATEGY = Strategy(
    columns="Name Holder Age",
    row=_row,
    validate=_validate,
)
