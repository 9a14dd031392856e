"""What a JobSet is like, where it differs from other kinds.

claim missing                -> create it, before the Jobs
Job missing                  -> create it, when it is its turn; suspended, if the JobSet is
Job failed, or succeeded     -> what the policies say: the end, or another attempt
another attempt              -> count it; then delete earlier Jobs, and create them again
suspended, resumed           -> suspend the Jobs, resume them
finished                     -> delete the Jobs that still run
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.jobset import types as api
from traincrew.api.kinds.jobset.definition import DEFINITION
from traincrew.api.kinds.jobset.rules import problems
from traincrew.api.meta import format_time
from traincrew.plan.jobset import claims, events
from traincrew.plan.jobset.observed import ObservedJobs, index_of, replicated
from traincrew.plan.jobset.order import Opened, opened
from traincrew.plan.jobset.policies import Failure, failure, has_succeeded
from traincrew.plan.jobset.status import COMPLETED_TEXT, IN_ORDER, IN_PROGRESS, JobSetStatus
from traincrew.plan.jobset.status import document as document_of
from traincrew.plan.jobset.writes import Writes
from traincrew.plan.shared import lifecycle, pods, runpolicy
from traincrew.plan.shared.lifecycle import Flag, Outcome, Progress
from traincrew.plan.shared.model import ChildKey, Decision, Event, ObjectKey, Observed, Plan
from traincrew.plan.shared.planner import JobPlanner

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kinds.jobset.types import JobSetSpec
    from traincrew.api.meta import Problem
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.kind import Options


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(JobPlanner[api.JobSetSpec, JobSetStatus]):
    """Describes one JobSet."""

    definition = DEFINITION
    status_type = JobSetStatus
    delegates_limits = True
    """Its Jobs count their failures; it ends by its policies, also while it is suspended."""
    live_fields = (*JobPlanner.live_fields, "replicatedJobsStatus")

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self._decoded: JobSetSpec | None = None
        self._failure: Failure | None = None
        self._opened: Opened | None = None

    # -- the kind -----------------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> JobSetSpec:
        self._decoded = decoded = api.decode(spec)
        name = decoded.subdomain(self.owner.name)
        if name != self.owner.name:  # the Service that is there may be one for several
            self._tolerate(ChildKey("Service", name))
        return decoded

    def _tolerate(self, key: ChildKey) -> None:
        """Leave alone that somebody else has a child of this name."""
        refusals = {
            other: refusal
            for other, refusal in self.observed.refusals.items()
            if other != key or not refusal.foreign
        }
        self.observed = msgspec.structs.replace(self.observed, refusals=refusals)

    def references(self, spec: JobSetSpec) -> tuple[ObjectKey, ...]:
        """Return the claims, while Jobs that may need them are missing."""
        missing = len(self.jobs.current) < spec.total
        if not missing or not spec.claims or problems(self.metadata, spec):
            return ()
        return claims.keys(self.owner, spec)

    def problems(self, spec: JobSetSpec) -> list[Problem]:
        found = problems(self.metadata, spec)
        if not found and not self.has_started:
            found += claims.problems(self.observed, self.owner, spec)
        return found

    def suspended(self, spec: JobSetSpec) -> JobSetSpec:
        return msgspec.structs.replace(spec, suspend=True)

    @cached_property
    def jobs(self) -> ObservedJobs:
        """The Jobs, as they are observed."""
        return ObservedJobs(self.observed, self.stored)

    @cached_property
    def writes(self) -> Writes:
        """The writes of children."""
        return Writes(self.jobs, self.metadata, self.owner, self.options.endpoint)

    @property
    def has_started(self) -> bool:
        return bool(self.jobs.names)

    @property
    def is_training(self) -> bool:
        return runpolicy.has_run(self.stored)

    def document(self, status: JobSetStatus) -> dict[str, Any]:
        return document_of(status)

    def status_with_counts(self, spec: JobSetSpec | None, *, wanted: bool = True) -> JobSetStatus:
        numbers = self.jobs.status_with_counts(spec or self._decoded, wanted=wanted)
        if spec is None or self.stored.finished:
            return numbers
        self._failure = failure(spec, self.jobs)
        if self._failure is not None and not self._failure.ends:
            self._count_restart(spec, numbers, self._failure)
        return numbers

    def _count_restart(self, spec: JobSetSpec, numbers: JobSetStatus, why: Failure) -> None:
        """Record a restart, so that it is stored before any Job is deleted."""
        self.releasing = True
        if not why.single:
            numbers.restarts += 1
            numbers.restarts_count_towards_max += why.counts
            return
        name = replicated(why.job)
        found, each = spec.named(name), numbers.of(name)
        size = found.count if found is not None else 0
        if index_of(why.job) < size:
            each.job_restarts = _counted(each.job_restarts, size, index_of(why.job), 1)
            if why.counts:
                each.job_restarts_count_towards_max = _counted(
                    each.job_restarts_count_towards_max, size, index_of(why.job), 1
                )

    # -- the end ------------------------------------------------------------------------------

    def outcome(self, spec: JobSetSpec, found: list[Problem]) -> Outcome | None:  # noqa: ARG002
        lost = failure(spec, self.jobs)
        if lost is not None:
            return self._failed(lost) if lost.ends else None
        if has_succeeded(spec, self.jobs):
            reason, message = COMPLETED_TEXT
            return Outcome(succeeded=True, reason=reason, message=message)
        return None

    def _failed(self, lost: Failure) -> Outcome:
        failed = [pod for pod in self.jobs.pods_of(lost.job) if pod.status.phase == "Failed"]
        failed.sort(key=lambda pod: (pods.ended_at(pod), pod.metadata.name))
        why = pods.first_few(pods.failures(failed))
        text = ". ".join(filter(None, (lost.message, why)))
        return Outcome(succeeded=False, reason=lost.ends, message=text)

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:  # noqa: ARG002
        if not self.stored.finished:
            return
        there = [*self.jobs.current.values(), *self.jobs.previous]
        self.writes.delete(plan, [job for job in there if not job.finished])

    # -- progress -----------------------------------------------------------------------------

    def _order(self, spec: JobSetSpec, numbers: JobSetStatus) -> Opened:
        if self._opened is None:
            self._opened = opened(spec, numbers)
        return self._opened

    def suspend(self, plan: Plan, spec: JobSetSpec) -> None:
        numbers = self.status_with_counts(spec, wanted=False)
        self.write(plan, spec, numbers)

    def write(self, plan: Plan, spec: JobSetSpec, numbers: JobSetStatus) -> list[float]:
        if self._failure is None:  # else first it is stored that there is another attempt
            self.writes.add_to(plan, spec, self._order(spec, numbers))
        return []

    def progress(
        self,
        spec: JobSetSpec,
        numbers: JobSetStatus,
        found: list[Problem],
    ) -> Progress:
        ready = sum(each.ready + each.succeeded for each in numbers.replicated_jobs_status)
        total = spec.total
        members = self.jobs.pods
        troubles = pods.list_not_ready(
            [pod.metadata.name for pod in members],
            members,
            self.observed.rejections,
            lambda pod: pods.not_ready_reason(pod, self.now),
        )
        running = any(pod.running for pod in members)
        text = "; ".join(filter(None, (f"{ready}/{total} Jobs ready", troubles)))
        reason = f"{api.KIND}Running" if running else "WaitingForJobs"
        problem = self.sync_problem(found)
        if problem is not None and not running:
            reason, text = problem
        restarting = self._restart(ready == total)
        if restarting is not None:
            reason, message = restarting
            text = message if self._failure is not None else f"{message}; {text}"
        return Progress(
            reason=reason,
            message=text,
            running=running or (self.stored.holds(lifecycle.RUNNING) and ready > 0),
            restarting=restarting is not None,
            started_at=self.stored.start_time or format_time(self.now),
            flags=self._flags(spec, numbers),
        )

    def _restart(self, all_ready: bool) -> tuple[str, str] | None:
        """Return why all Jobs are created again, from the failure until they are ready."""
        if self._failure is not None and not self._failure.single:
            return self._failure.why, self._failure.message
        before = self.stored.condition(lifecycle.RESTARTING)
        if before is None or not before.is_true or all_ready:
            return None
        return before.reason, before.message.partition("; ")[0]

    def _flags(self, spec: JobSetSpec, numbers: JobSetStatus) -> tuple[Flag, ...]:
        if not spec.in_order or self._failure is not None:
            return ()
        waits = self._order(spec, numbers).waits
        reason, message = events.IN_PROGRESS_TEXT
        done, done_text = events.IN_ORDER_TEXT
        return (
            Flag(type=IN_PROGRESS, holds=waits, reason=reason, message=message),
            Flag(type=IN_ORDER, holds=not waits, reason=done, message=done_text),
        )

    # -- events -------------------------------------------------------------------------------

    def transitions(self, status: JobSetStatus) -> list[Event]:
        found = events.transitions(self.stored, status)
        if self._failure is None or self._failure.ends:
            return found
        return [*events.restart(self._failure), *found]


def _counted(known: list[int] | msgspec.UnsetType, size: int, index: int, more: int) -> list[int]:
    """Return a list of counts with one of them raised."""
    found = [*(known or []), *[0] * size][:size]
    found[index] += more
    return found
