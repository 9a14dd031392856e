"""PriorityClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values import causes as why

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
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


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a PriorityClass."""
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        detail = "priority class names with 'system-' prefix are reserved for system use only"
        found.append(why.forbidden("metadata.name", detail))
    elif value > 1_000_000_000:
        detail = "maximum allowed value of a user defined priority is 1000000000"
        found.append(why.forbidden("value", detail))
    if old is not None and old.get("value", 0) != value:
        found.append(why.forbidden("value", "may not be changed in an update."))


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
    validate=_validate,
)
