"""Events."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.selectors import FieldLabels

__all__ = ["SELECTABLE", "STRATEGY"]

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

STRATEGY = Strategy(
    resources=(
        ResourceType("", "v1", "events", "Event", short_names=("ev",), create_on_update=True),
    ),
    selectable=SELECTABLE,
)
