"""CronJobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traincrew.local import cron
from traincrew.local.apiserver.kinds.podspec.defaults import default_template
from traincrew.local.apiserver.kinds.podspec.templates import same_generation, warn_of_name
from traincrew.local.apiserver.kinds.shared.cells import (
    NONE,
    TEMPLATE_COLUMNS,
    age_of,
    containers_of,
    name_of,
    selector_text,
)
from traincrew.local.apiserver.kinds.shared.fields import non_negative
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.durations import age

from .job import default_failure_policy, warn_of_spec
from .jobrules import spec_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document


__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a CronJob."""
    spec, status = field(obj, "spec"), field(obj, "status")
    last = status.get("lastScheduleTime")
    inner = field(spec, "jobTemplate", "spec")
    return [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active", ())),
        NONE if last is None else age(last, now),
        age_of(obj, now),
        *containers_of(field(inner, "template", "spec")),
        selector_text(inner.get("selector")),
    ]


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    spec = field(obj, "spec")
    if old is None:
        yield from warn_of_name(obj)
    if not same_generation(obj, old):
        yield from warn_of_spec(field(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")
    if old is not None and "TZ" in spec.get("schedule", ""):
        yield (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {})
    if type(template) is dict:
        template.setdefault("metadata", {})
        inner = template.setdefault("spec", {})
        if type(inner) is dict:
            default_failure_policy(inner)
            default_template(inner.setdefault("template", {}))


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a CronJob."""
    spec, before = field(obj, "spec"), field(old or {}, "spec")
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    if schedule:
        _schedule_rules(found, schedule, zone, known="TZ" in before.get("schedule", ""))
    else:
        found.append(why.required("spec.schedule"))
    key = "startingDeadlineSeconds"
    non_negative(found, f"spec.{key}", spec.get(key))
    if zone is not None and (old is None or zone != before.get("timeZone")):
        _zone_rules(found, zone)
    policy = spec.get("concurrencyPolicy", "")
    if not policy:
        found.append(why.required("spec.concurrencyPolicy"))
    elif policy not in _POLICIES:
        found.append(why.not_supported("spec.concurrencyPolicy", policy, _POLICIES))
    _template_rules(found, field(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        non_negative(found, f"spec.{key}", spec.get(key))
    name = obj["metadata"].get("name", "")
    if old is None and len(name) > _LONGEST_NAME:
        detail = f"must be no more than {_LONGEST_NAME} characters"
        found.append(why.invalid("metadata.name", name, detail))


_POLICIES = ("Allow", "Forbid", "Replace")
_LONGEST_NAME = 63 - 11
"""Names of Jobs end with a dash and the minutes since the epoch."""
_IN_ZONE = re.compile(r"[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}")


def _schedule_rules(found: list[Cause], schedule: str, zone: str | None, *, known: bool) -> None:
    """Validate a schedule.

    Args:
        found: extended in place.
        schedule: the schedule.
        zone: of the other field.
        known: whether the stored schedule has a zone, as it could have once.
    """
    try:
        cron.parse(schedule)
    except ValueError as error:
        found.append(why.invalid("spec.schedule", schedule, str(error)))
    if "TZ" not in schedule:
        return
    detail = ""
    if not known:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    elif zone is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
    if detail:
        found.append(why.invalid("spec.schedule", schedule, detail))


def _zone_rules(found: list[Cause], zone: str) -> None:
    path = "spec.timeZone"
    if not zone:
        found.append(why.invalid(path, zone, "timeZone must be nil or non-empty string"))
        return
    parts = zone.split("/")
    if not all(_IN_ZONE.fullmatch(part) and part not in {".", ".."} for part in parts):
        found.append(why.invalid(path, zone, f"unknown time zone {zone}"))
        return
    if zone.lower() == "local":
        detail = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        found.append(why.invalid(path, zone, detail))
        if zone == "Local":
            return  # Go knows it
    try:
        cron.zone(zone)
    except ValueError as error:
        found.append(why.invalid(path, zone, str(error)))


def _template_rules(found: list[Cause], spec: Document, path: str) -> None:
    spec_rules(found, spec, path)
    if spec.get("selector") is not None:
        shown = form("*metav1.LabelSelector", spec["selector"])
        detail = "`selector` will be auto-generated"
        found.append(why.invalid(f"{path}.selector", shown, detail))
    if spec.get("manualSelector"):
        found.append(why.not_supported(f"{path}.manualSelector", True, ("nil", "false")))


STRATEGY = Strategy(
    columns=(
        "Name Schedule Timezone Suspend:boolean "
        f"Active:integer Last_Schedule Age {TEMPLATE_COLUMNS}"
    ),
    row=_row,
    warn=_warn,
    default=_default,
    validate=_validate,
)
