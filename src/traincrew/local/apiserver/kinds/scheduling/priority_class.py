"""PriorityClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.core.podadmission import default_priority_class
from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy, WriteContext
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.errors import forbidden

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Storage
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


def _prepare_create(context: WriteContext, new: Document) -> None:
    _refuse_second_default(context.storage, new)


def _prepare_update(
    context: WriteContext, new: Document, _old: Document, _sent: frozenset[str]
) -> None:
    _refuse_second_default(context.storage, new)


def _refuse_second_default(storage: Storage, priority_class: Document) -> None:
    """Reject a second default, at creation and at updates.

    Raises:
        StatusError: 403; the message names the other class.
    """
    if not priority_class.get("globalDefault"):
        return
    name = priority_class["metadata"]["name"]
    known = default_priority_class(storage)
    if known is not None and known["metadata"]["name"] != name:
        detail = (
            f"PriorityClass {known['metadata']['name']} is already marked as default. Only one "
            "default can exist"
        )
        raise forbidden("priorityclasses", "scheduling.k8s.io", name, detail)


STRATEGY = Strategy(
    columns="Name Value:integer Global-Default:boolean Age PreemptionPolicy",
    row=_row,
    default=_default,
    validate=_validate,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
)
