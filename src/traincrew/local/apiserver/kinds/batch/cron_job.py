"""CronJobs; no controller runs them here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a CronJob."""
    spec = field(obj, "spec")
    schedule = spec.get("schedule", "")
    if not schedule:
        found.append(why.required("spec.schedule"))
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        count = len(schedule.split())
        detail = f"expected exactly 5 fields, found {count}: [{' '.join(schedule.split())}]"
        found.append(why.invalid("spec.schedule", schedule, detail))
    key = "startingDeadlineSeconds"
    non_negative(found, f"spec.{key}", spec.get(key))
    supported = ("Allow", "Forbid", "Replace")
    if spec.get("concurrencyPolicy") not in supported:
        value = spec.get("concurrencyPolicy", "")
        found.append(why.not_supported("spec.concurrencyPolicy", value, supported))
    spec_rules(found, field(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        non_negative(found, f"spec.{key}", spec.get(key))


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
