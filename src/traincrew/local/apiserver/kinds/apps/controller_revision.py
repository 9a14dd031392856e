"""ControllerRevisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, name_of
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import items

if TYPE_CHECKING:
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


STRATEGY = Strategy(
    resources=(ResourceType("apps", "v1", "controllerrevisions", "ControllerRevision"),),
    columns="Name Controller Revision Age",
    row=_row,
)
