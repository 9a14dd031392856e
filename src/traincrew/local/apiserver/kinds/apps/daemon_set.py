"""DaemonSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.defaults import default_template
from traincrew.local.apiserver.kinds.podspec.templates import (
    default_rolling_update,
    no_deadline,
    replicated,
)
from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_template
from traincrew.local.apiserver.kinds.shared.cells import (
    TEMPLATE_COLUMNS,
    age_of,
    containers_of,
    label_text,
    name_of,
    selector_text,
    template_spec,
)
from traincrew.local.apiserver.kinds.shared.fields import (
    amount,
    at_most_everything,
    immutable,
    int_or_percent,
    non_negative,
)
from traincrew.local.apiserver.kinds.strategy import Strategy, WriteContext
from traincrew.local.apiserver.schema.decoding import annotated_number_fault
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import TEMPLATE_GENERATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document


__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a DaemonSet."""
    status = field(obj, "status")
    numbers = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(obj),
        *(status.get(number, 0) for number in numbers),
        label_text(field(template_spec(obj), "nodeSelector")),
        age_of(obj, now),
        *containers_of(template_spec(obj)),
        selector_text(field(obj, "spec").get("selector")),
    ]


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    generations = [
        field(each, "metadata", "annotations").get(TEMPLATE_GENERATION)
        for each in (obj, *filter(None, [old]))
    ]
    if old is None or generations[0] != generations[1]:
        yield from warn_of_template(field(obj, "spec", "template"), "spec.template")


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    metadata = obj.setdefault("metadata", {})
    if type(metadata) is dict:
        annotations = metadata["annotations"] = metadata.get("annotations") or {}
        if type(annotations) is dict:
            annotations.setdefault(TEMPLATE_GENERATION, "0")
    strategy = spec.setdefault("updateStrategy", {})
    default_rolling_update(strategy, maxUnavailable=1)
    if type(strategy) is dict and type(strategy.get("rollingUpdate")) is dict:
        # Not a pointer in upstream's internal type, so it is always written.
        strategy["rollingUpdate"].setdefault("maxUnavailable", 0)
        strategy["rollingUpdate"].setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    default_template(spec.get("template"))


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a DaemonSet."""
    spec = field(obj, "spec")
    if old is not None:
        immutable(found, "spec.selector", spec.get("selector"), field(old, "spec").get("selector"))
    replicated(found, spec, "daemonset")
    no_deadline(found, spec, "DaemonSet")
    strategy = field(spec, "updateStrategy")
    if strategy.get("type", "RollingUpdate") not in ("RollingUpdate", "OnDelete"):
        supported = ("RollingUpdate", "OnDelete")
        shown = form("apps.DaemonSetUpdateStrategy", strategy)
        found.append(why.not_supported("spec.updateStrategy", shown, supported))
    elif strategy.get("type", "RollingUpdate") == "RollingUpdate":
        _rollout(found, field(strategy, "rollingUpdate"))
    non_negative(found, "spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    if old is not None:
        _status_rules(found, field(obj, "status"), field(old, "status"))


_COUNTERS = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


def _status_rules(found: list[Cause], status: Document, old: Document) -> None:
    for counter in _COUNTERS:
        non_negative(found, f"status.{counter}", status.get(counter))
    collisions, before = status.get("collisionCount", 0), old.get("collisionCount")
    if before is not None and collisions < before:
        found.append(why.invalid("status.collisionCount", collisions, "cannot be decremented"))


def _rollout(found: list[Cause], rollout: Document) -> None:
    here = "spec.updateStrategy.rollingUpdate"
    unavailable, surge = rollout.get("maxUnavailable", 0), rollout.get("maxSurge", 0)
    for key, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        int_or_percent(found, f"{here}.{key}", value)
        at_most_everything(found, f"{here}.{key}", value)
    if amount(unavailable) and amount(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        found.append(why.invalid(f"{here}.maxSurge", surge, detail))
    elif not amount(unavailable) and not amount(surge):
        found.append(why.required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


def _prepare_create(_context: WriteContext, new: Document) -> None:
    annotations = new["metadata"]["annotations"]
    annotations[TEMPLATE_GENERATION] = str(max(1, int(annotations[TEMPLATE_GENERATION])))


def _prepare_update(
    _context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    before = old["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0")
    changed = new["spec"].get("template") != old["spec"].get("template")
    number = int(before) + 1 if changed and before.isdigit() else before
    new["metadata"]["annotations"][TEMPLATE_GENERATION] = str(number)


STRATEGY = Strategy(
    columns=(
        "Name Desired:integer Current:integer Ready:integer "
        f"Up-to-date:integer Available:integer Node_Selector Age {TEMPLATE_COLUMNS}"
    ),
    row=_row,
    warn=_warn,
    default=_default,
    validate=_validate,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    # Upstream's internal type has a number that users see as an annotation.
    decode_fault=annotated_number_fault,
    decoded_always=True,
)
