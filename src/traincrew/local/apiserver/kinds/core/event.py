"""Events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import name_of
from traincrew.local.apiserver.kinds.shared.meta import path_segment_fault
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.durations import age
from traincrew.local.apiserver.values.names import qualified_name_fault
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["EVENT_COLUMNS", "SELECTABLE", "STRATEGY", "event_row"]

_REFERENCE = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
_REPORTING = ("reportingComponent", "reportingController")
# Stored objects have the field names of the version in which they are served, too.
SELECTABLE = FieldLabels(
    {f"involvedObject.{key}": (f"involvedObject.{key}", f"regarding.{key}") for key in _REFERENCE}
    | {f"regarding.{key}": (f"regarding.{key}", f"involvedObject.{key}") for key in _REFERENCE}
    | dict.fromkeys(_REPORTING, _REPORTING)
    # As upstream's ToSelectableFields: without a source, the reporting component is used.
    | {"source": ("source.component", "deprecatedSource.component", *_REPORTING)}
    | {"reason": ("reason",), "type": ("type",)},
    own_message=True,
)
"""The fields by which Events are selected, in both of their groups."""


def event_row(obj: Document, now: float) -> list[Any]:
    """Return the cells of an Event."""
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = field(obj, "series")
    if series:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    regarding = field(obj, "involvedObject") or field(obj, "regarding")
    target = regarding.get("kind", "").lower()
    if regarding.get("name"):
        target += f"/{regarding['name']}"
    source = field(obj, "source") or field(obj, "deprecatedSource")
    component = (
        source.get("component")
        or obj.get("reportingComponent")
        or obj.get("reportingController")
        or ""
    )
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return [
        age(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        regarding.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        (obj.get("message") or obj.get("note") or "").strip(),
        age(first, now),
        count,
        name_of(obj),
    ]


EVENT_COLUMNS = "Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*"


_EVENT_LIMITS = (("action", 128), ("reason", 128), ("message", 1024))


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate an Event of the core group; new-style ones (with eventTime) have more rules."""
    own = field(obj, "metadata").get("namespace", "")
    regarding = field(obj, "involvedObject").get("namespace", "")
    here = "involvedObject.namespace"
    mismatch = why.invalid(here, regarding, "does not match event.namespace")
    if not obj.get("eventTime"):
        if own != regarding and (regarding or own != "default"):
            found.append(mismatch)
        return
    if not regarding and own not in ("default", "kube-system"):
        found.append(mismatch)
    controller = obj.get("reportingComponent") or ""
    fault = qualified_name_fault(controller)
    if not controller:
        found.append(why.required("reportingComponent"))
    elif fault:
        found.append(why.invalid("reportingComponent", controller, fault))
    found.extend(
        why.required(key) for key in ("reportingInstance", "action", "reason") if not obj.get(key)
    )
    for key, limit in _EVENT_LIMITS:
        if len(obj.get(key) or "") > limit:
            found.append(why.invalid(key, "", f"can have at most {limit} characters"))


STRATEGY = Strategy(
    selectable=SELECTABLE,
    columns=EVENT_COLUMNS,
    row=event_row,
    validate=_validate,
    name_fault=path_segment_fault,
)
