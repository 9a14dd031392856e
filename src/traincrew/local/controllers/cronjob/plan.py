"""Plan of a CronJob: (cron job, its Jobs, now) -> a Job to start, status, events. Pure.

The rules are upstream's (`pkg/controller/cronjob/cronjob_controllerv2.go`). The name of a Job
contains the minute for which it was scheduled, so that it is never started twice.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.engine.resources import JOBS, Resource
from traincrew.local import cron
from traincrew.local.controllers.common import (
    format_time,
    has_condition,
    owner_reference,
    parse_time,
)
from traincrew.local.controllers.cronjob.due import MANY, latest, next_look, schedule_of
from traincrew.local.controllers.job.model import is_job_finished
from traincrew.local.controllers.writes import Event

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from traincrew.engine.objects import AnyObject
    from traincrew.local.cron import Schedule

CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
"""Annotation of a Job: the time for which it was scheduled, in the zone of the CronJob."""
_HELP = "see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"


class Plan(Struct):
    """The writes to carry out, in this order.

    Attributes:
        events: Events to record.
        delete: Jobs beyond the history limits.
        replace: Jobs to delete before another one is started.
        create: The Job to start, or None.
        scheduled: The time for which it is started, in seconds since the epoch.
        status: The whole new status, without the Job that is started.
        requeue_at: Seconds since the epoch, or None.
    """

    events: list[Event] = field(default_factory=list)
    delete: list[AnyObject] = field(default_factory=list)
    replace: list[AnyObject] = field(default_factory=list)
    create: dict[str, Any] | None = None
    scheduled: float = 0.0
    status: dict[str, Any] = field(default_factory=dict)
    requeue_at: float | None = None


def plan_cron_job(
    owner: AnyObject, jobs: Sequence[AnyObject], gone: Collection[str], now: float
) -> Plan:
    """Plan the next step of a CronJob.

    Args:
        owner: The CronJob.
        jobs: All Jobs it controls.
        gone: UIDs of active Jobs that do not exist any more.
        now: Seconds since the epoch.
    """
    return _Decision(owner, jobs, gone, now).make()


def reference_to(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of an active Job in the status; gets the Job as the server returned it."""
    meta = job["metadata"]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": meta["name"],
        "namespace": meta["namespace"],
        "resourceVersion": meta["resourceVersion"],
        "uid": meta["uid"],
    }


def with_started(
    status: Mapping[str, Any], reference: Mapping[str, Any], scheduled: float
) -> dict[str, Any]:
    """Return the status with one more active Job.

    Args:
        status: The status; not modified.
        reference: Result of `reference_to`.
        scheduled: The time for which it was started, in seconds since the epoch.
    """
    active = [*(status.get("active") or ()), dict(reference)]
    return {**status, "active": active, "lastScheduleTime": format_time(scheduled)}


class _Decision:
    """The state of one call of `plan_cron_job`."""

    def __init__(
        self, owner: AnyObject, jobs: Sequence[AnyObject], gone: Collection[str], now: float
    ) -> None:
        self.owner, self.jobs, self.gone, self.now = owner, jobs, gone, now
        self.plan = Plan()
        self.active: list[dict[str, Any]] = list(owner.status.get("active") or ())
        self.last_success: str | None = owner.status.get("lastSuccessfulTime")
        self.last_schedule: str | None = owner.status.get("lastScheduleTime")

    def make(self) -> Plan:
        """Forget what has ended, then start what is due."""
        self._delete_oldest("Complete", "successfulJobsHistoryLimit")
        self._delete_oldest("Failed", "failedJobsHistoryLimit")
        self._look_at_jobs()
        if self.owner.metadata.deletion_timestamp is None:
            self._schedule()
        names = ("active", "lastScheduleTime", "lastSuccessfulTime")
        values = (self.active, self.last_schedule, self.last_success)
        kept = {key: value for key, value in self.owner.status.items() if key not in names}
        changed = {key: value for key, value in zip(names, values, strict=True) if value}
        self.plan.status = kept | changed
        return self.plan

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.plan.events.append(Event(reason, message, "Warning" if warning else "Normal"))

    # -- Jobs that exist ---------------------------------------------------------------------

    def _delete_oldest(self, condition: str, limit: str) -> None:
        most = self.owner.spec.get(limit)
        if most is None:
            return
        ended = [job for job in self.jobs if has_condition(job.status.get("conditions"), condition)]
        for job in sorted(ended, key=_start)[: max(0, len(ended) - most)]:
            self._delete(job, self.plan.delete)

    def _delete(self, job: AnyObject, jobs: list[AnyObject]) -> None:
        self._drop(job.metadata.uid)
        if job.metadata.deletion_timestamp is None:
            jobs.append(job)

    def _drop(self, uid: str) -> None:
        self.active = [each for each in self.active if each.get("uid") != uid]

    def _look_at_jobs(self) -> None:
        known = {each.get("uid") for each in self.active}
        for job in self.jobs:
            name, uid = job.metadata.name, job.metadata.uid
            if not is_job_finished(job):
                if uid not in known:
                    text = f"Saw a job that the controller did not create or forgot: {name}"
                    self._event("UnexpectedJob", text, warning=True)
                continue
            succeeded = has_condition(job.status.get("conditions"), "Complete")
            if uid in known:
                self._drop(uid)
                state = "Complete" if succeeded else "Failed"
                self._event("SawCompletedJob", f"Saw completed job: {name}, condition: {state}")
            ended = job.status.get("completionTime")
            if succeeded and ended and (self.last_success is None or ended > self.last_success):
                self.last_success = ended
        for each in self.active:
            if each.get("uid", "") in self.gone:
                self._event("MissingJob", f"Active job went missing: {each.get('name')}")
        self.active = [each for each in self.active if each.get("uid", "") not in self.gone]

    # -- what is due -------------------------------------------------------------------------

    def _schedule(self) -> None:
        schedule = self._read_schedule()
        if schedule is None:
            return
        text = self.owner.spec["schedule"]
        try:
            due = latest(self.owner, schedule, self.now)
        except ValueError as error:
            self._event("InvalidSchedule", f"invalid schedule: {text} : {error}", warning=True)
            return
        if due.at is not None and due.missed > MANY:
            text = (
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
                "check clock skew"
            )
            self._event("TooManyMissedTimes", text, warning=True)
        if due.at is not None and self._may_start(due.at):
            self._start(due.at)
        self.plan.requeue_at = next_look(self._as_started(), schedule, self.now)

    def _read_schedule(self) -> Schedule | None:
        """Return the schedule; None if nothing is started, with an event if it cannot be read."""
        spec = self.owner.spec
        text, zone = spec.get("schedule", ""), spec.get("timeZone")
        try:
            cron.zone(zone or "")
        except ValueError as error:
            self._event("UnknownTimeZone", f'invalid timeZone: "{zone}": {error}', warning=True)
            return None
        if spec.get("suspend"):
            return None
        if "TZ" in text:
            message = (
                f'CRON_TZ or TZ used in schedule "{text}" is not officially supported, {_HELP}'
            )
            self._event("UnsupportedSchedule", message, warning=True)
        try:
            return schedule_of(self.owner)
        except ValueError as error:
            message = f'unparseable schedule: "{text}" : {error}'
            self._event("UnparseableSchedule", message, warning=True)
            return None

    def _may_start(self, due: float) -> bool:
        spec = self.owner.spec
        started = any(each.get("name") == self._name(due) for each in self.active)
        if started or (self.last_schedule and parse_time(self.last_schedule) == due):
            return False
        if spec.get("concurrencyPolicy") == "Forbid" and self.active:
            text = (
                "Not starting job because prior execution is running and concurrency policy is "
                "Forbid"
            )
            self._event("JobAlreadyActive", text)
            return False
        return True

    def _start(self, due: float) -> None:
        if self.owner.spec.get("concurrencyPolicy") == "Replace":
            running = {each.get("uid") for each in self.active}
            for job in self.jobs:
                if job.metadata.uid in running:
                    self._delete(job, self.plan.replace)
        existing = [job for job in self.jobs if job.metadata.name == self._name(due)]
        if existing:  # it was started, but not recorded
            (job,) = existing
            meta = {
                "name": job.metadata.name,
                "namespace": job.metadata.namespace,
                "resourceVersion": job.metadata.resource_version,
                "uid": job.metadata.uid,
            }
            self.active.append(reference_to({"metadata": meta}))
            self.last_schedule = format_time(due)
            return
        self.plan.create, self.plan.scheduled = self._job(due), due

    def _as_started(self) -> AnyObject:
        """Return the CronJob as it will be after this plan, for the time of the next one."""
        last = format_time(self.plan.scheduled) if self.plan.create else self.last_schedule
        status = {"lastScheduleTime": last} if last else {}
        owner = self.owner
        return type(owner)(metadata=owner.metadata, spec=owner.spec, status=status)

    def _name(self, due: float) -> str:
        return f"{self.owner.metadata.name}-{int(due) // 60}"

    def _job(self, due: float) -> dict[str, Any]:
        template = self.owner.spec.get("jobTemplate") or {}
        meta = template.get("metadata") or {}
        zone = cron.zone(self.owner.spec.get("timeZone") or "")
        moment = datetime.fromtimestamp(due, zone).isoformat().replace("+00:00", "Z")
        metadata = {
            "name": self._name(due),
            "namespace": self.owner.metadata.namespace,
            "annotations": {**(meta.get("annotations") or {}), SCHEDULED: moment},
            "ownerReferences": [owner_reference(self.owner, CRON_JOBS)],
        }
        if labels := meta.get("labels"):
            metadata["labels"] = dict(labels)
        return {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": metadata,
            "spec": template.get("spec") or {},
        }


def _start(job: AnyObject) -> tuple[bool, str, str]:
    """Return the sort key by start; Jobs that have not started come last."""
    start = job.status.get("startTime") or ""
    return (not start, start, job.metadata.name)
