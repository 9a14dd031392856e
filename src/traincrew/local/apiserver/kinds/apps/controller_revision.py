"""ControllerRevisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, name_of
from traincrew.local.apiserver.kinds.shared.fields import immutable, non_negative
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a ControllerRevision."""
    owner = NONE
    for reference in items(obj, "metadata", "ownerReferences"):
        if reference.get("controller"):
            group = reference["apiVersion"].rpartition("/")[0]
            kind = f"{reference['kind']}.{group}" if group else reference["kind"]
            owner = f"{kind.lower()}/{reference['name']}"
    return [name_of(obj), owner, obj.get("revision", 0), age_of(obj, now)]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a ControllerRevision."""
    non_negative(found, "revision", obj.get("revision"))
    if type(obj.get("data")) is not dict:
        found.append(why.required("data", "data is mandatory"))
    if old is not None:
        immutable(found, "data", obj.get("data"), old.get("data"))


STRATEGY = Strategy(
    columns="Name Controller Revision Age",
    row=_row,
    validate=_validate,
)
