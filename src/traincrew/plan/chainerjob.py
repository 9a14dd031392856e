"""What to do about a ChainerJob, where it differs from other kinds.

workers not ready  -> wait, within a budget, saying for what
workers ready      -> the master's Job
Job finished       -> finished for good; workers scaled to zero
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.api import chainerjob as api
from traincrew.api.chainerjob_rules import problems
from traincrew.api.runpolicy import RunPolicy
from traincrew.plan import chainerjob_notes as notes
from traincrew.plan import lifecycle, runpolicy
from traincrew.plan.chainerjob_facts import LAG_SECONDS, Facts
from traincrew.plan.chainerjob_status import counted, document
from traincrew.plan.chainerjob_writes import Writes
from traincrew.plan.lifecycle import Outcome, Progress, Status
from traincrew.plan.look import FOREIGN_RETRY_SECONDS, RESOURCE_EXISTS, Look
from traincrew.plan.model import ChildKey, Event, Observed, Plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from traincrew.api.chainerjob import ChainerJobSpec
    from traincrew.api.meta import Problem
    from traincrew.api.runpolicy import CommonPolicy

SYNCED = Event("Normal", "Synced", "ChainerJob synced successfully")


class Options(Struct, frozen=True, kw_only=True):
    """What the operator, rather than the user, decides.

    Attributes:
        helper_image: Image of the init steps; has kubectl at /usr/local/bin/kubectl.
    """

    helper_image: str


def planner(options: Options) -> Callable[[Observed, datetime], Plan]:
    """The plan function of the kind."""
    return partial(plan, options=options)


def plan(observed: Observed, now: datetime, *, options: Options) -> Plan:
    """Decide what a job needs next."""
    return _Look(observed, now, options).plan()


class _Look(Look[api.ChainerJobSpec]):
    """One look at one job, and what follows from it."""

    api_version = api.API_VERSION
    kind = api.KIND
    suspend_field = "spec.runPolicy.suspend"
    default_policy = RunPolicy()

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now)
        self.facts = Facts(observed, self.stored, now)
        self.writes = Writes(observed, self.owner, options.helper_image)

    # -- what it is made of -------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> ChainerJobSpec:
        return api.decode(spec)

    def policy(self, spec: ChainerJobSpec) -> RunPolicy:
        return spec.run_policy

    def problems(self, spec: ChainerJobSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    def defaults(self, spec: ChainerJobSpec) -> dict[str, Any]:
        return api.computed_defaults(spec)

    @property
    def begun(self) -> bool:
        return self.facts.job is not None

    def counted(self, spec: ChainerJobSpec | None, *, wanted: bool = True) -> Status:
        sets = spec.worker_sets if spec is not None else {}
        return counted(
            self.facts,
            {name: workers.replicas if wanted else 0 for name, workers in sets.items()},
        )

    def document(self, status: Status) -> dict[str, Any]:
        return document(self.facts, status)

    def outcome(self, spec: ChainerJobSpec, found: list[Problem]) -> Outcome | None:  # noqa: ARG002
        return self.facts.outcome()

    def stop(self, plan: Plan, policy: CommonPolicy) -> None:
        plan.stages = self.writes.stop(policy)
        plan.delete = {
            ChildKey("Pod", pod.metadata.name): pod.metadata.uid
            for pod in self.facts.master_pods
            if policy.clean_pod_policy == "All" and pod.metadata.deletion_timestamp is None
        }

    def suspend(self, plan: Plan) -> None:
        plan.stages = self.writes.suspend()

    def put_into_effect(self, spec: ChainerJobSpec) -> list[Event]:
        return [SYNCED, *notes.warnings(self.owner, spec, self.facts.job)]

    # -- what happens to it -------------------------------------------------------------------

    def ended(self, spec: ChainerJobSpec, outcome: Outcome) -> Plan:
        plan = super().ended(spec, outcome)
        if outcome.succeeded:
            plan.events += notes.lost_workers(self.counted(spec))
        return plan

    def going(self, spec: ChainerJobSpec, found: list[Problem]) -> Plan:
        waiting_for = self.facts.waiting_for(spec)
        numbers = self.counted(spec)
        progress = self._progress(spec, numbers, waiting_for, found)
        left = self._budget(spec)
        if not self.facts.started:
            if left <= 0:
                return self.ended(spec, self._too_late(spec, progress))
            if (refusal := self.permanent_refusal()) is not None:
                return self.ended(spec, refusal)
        status = self.advance(numbers, progress=progress)
        plan = Plan(status=self.document(status))
        if not found and not self.observed.leftovers:
            plan.stages = self.writes.go(spec, start_master=waiting_for is None)
            plan.delete = self.writes.removed_sets(spec)
        plan.events = self.transitions(status)
        plan.events += self.sync_events(spec, status, progress)
        if not self.facts.started:
            plan.look_again_after = left
        elif self.facts.waiting_for_pods:
            plan.look_again_after = LAG_SECONDS
        if progress.sync_reason == RESOURCE_EXISTS:
            plan.look_again_after = min(left, FOREIGN_RETRY_SECONDS)
        return self.complete(plan)

    def _progress(
        self,
        spec: ChainerJobSpec,
        numbers: Status,
        waiting_for: str | None,
        found: list[Problem],
    ) -> Progress:
        problem = self.sync_problem(found)
        sync_reason, sync_message = problem or ("", None)
        if not self.facts.started:
            reason, message = "MasterPending", "The master is being created."
            if problem is not None:
                reason, message = problem
            elif waiting_for is not None:
                reason, message = "WaitingForWorkers", waiting_for
            return Progress(
                reason=reason, message=message, sync_problem=sync_message, sync_reason=sync_reason
            )
        word, reason, message = self.facts.master_progress(spec, numbers)
        return Progress(
            reason=reason,
            message=message,
            running=word == lifecycle.RUNNING,
            restarting=word == lifecycle.RESTARTING,
            started_at=self.stored.start_time or self.facts.job_start(),
            sync_problem=sync_message,
            sync_reason=sync_reason,
        )

    def _budget(self, spec: ChainerJobSpec) -> float:
        """Seconds the workers still have."""
        since = runpolicy.waiting_since(self.stored) or self.now
        seconds = spec.run_policy.scheduling_policy.schedule_timeout_seconds
        return seconds - (self.now - since).total_seconds()

    def _too_late(self, spec: ChainerJobSpec, progress: Progress) -> Outcome:
        reason, message = "WorkersNotReady", progress.message
        before = self.stored.condition(lifecycle.SYNCED)
        if before is not None:  # it was not the workers
            reason, message = before.reason, before.message
        seconds = spec.run_policy.scheduling_policy.schedule_timeout_seconds
        text = f"Not started within {seconds} s: {message}"
        return Outcome(succeeded=False, reason=reason, message=text)
