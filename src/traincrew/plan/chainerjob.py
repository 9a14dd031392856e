"""What to do about a ChainerJob.

invalid            -> Failed, with the field and the fix
suspended          -> no pods
workers not ready  -> wait, within a budget, saying for what
workers ready      -> the master's Job
Job finished       -> finished for good; workers scaled to zero
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from traincrew.api import chainerjob as api
from traincrew.api.chainerjob_rules import problems
from traincrew.api.meta import Problem
from traincrew.api.runpolicy import RunPolicy
from traincrew.plan import chainerjob_notes as notes
from traincrew.plan import lifecycle, pods
from traincrew.plan.chainerjob_facts import Facts
from traincrew.plan.chainerjob_status import counted, document
from traincrew.plan.chainerjob_writes import Writes
from traincrew.plan.lifecycle import Outcome, Progress, Status
from traincrew.plan.model import (
    ChildKey,
    Event,
    Observed,
    Plan,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from traincrew.api.chainerjob import ChainerJobSpec

SYNCED = Event("Normal", "Synced", "ChainerJob synced successfully")
FAILED_SYNCED = "FailedSynced"
RESOURCE_EXISTS = "ErrResourceExists"
FOREIGN_RETRY_SECONDS = 30.0
"""Nothing tells us when a foreign object has gone, so we look now and then."""


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


class _Look:
    """One look at one job, and what follows from it."""

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        self.observed, self.now = observed, now
        self.facts = Facts(observed)
        self.metadata = self.facts.metadata
        self.stored = self.facts.stored
        self.writes = Writes(observed, self.facts.owner, options.helper_image)

    # -- the decision -------------------------------------------------------------------------

    def plan(self) -> Plan:
        if self.metadata.deletion_timestamp is not None:
            return Plan(status=self.observed.job.status)
        try:
            spec = api.decode(self.observed.job.spec)
        except msgspec.ValidationError as error:
            if self.stored.finished:
                return self._finished(RunPolicy())
            return self._invalid([Problem("spec", str(error))])
        if self.stored.finished:
            return self._finished(spec.run_policy)
        found = problems(self.metadata, spec)
        if found and self.facts.job is None:
            return self._invalid(found)
        if not found and (defaults := api.computed_defaults(spec)):
            return Plan(spec=defaults, status=self.observed.job.status)
        if (outcome := self.facts.outcome()) is not None:
            return self._ended(spec, outcome)
        if spec.run_policy.suspend:
            return self._suspended(spec)
        return self._going(spec, found)

    def _invalid(self, found: list[Problem]) -> Plan:
        """Say what is wrong; a job that has not begun to run ends here."""
        text = "; ".join(str(problem) for problem in found)
        outcome = Outcome(
            succeeded=False,
            reason="FailedValidation",
            message=f"{text}. Correct the manifest, delete the job and create it again.",
        )
        status = self._advance(counted(self.facts, {}), outcome=outcome)
        plan = self._plan(status, RunPolicy())
        plan.events = [
            Event("Warning", FAILED_SYNCED, problem.event or str(problem)) for problem in found
        ]
        return plan

    def _ended(self, spec: ChainerJobSpec, outcome: Outcome) -> Plan:
        numbers = counted(self.facts, _wanted(spec))
        if numbers.start_time is None and self.facts.job is not None:
            numbers.start_time = self.facts.job_start()  # it began and ended between two looks
        status = self._advance(numbers, outcome=outcome)
        plan = self._plan(status, spec.run_policy)
        plan.events = lifecycle.transition_events(self.stored, status)
        if outcome.succeeded:
            plan.events += notes.lost_workers(status)
        return plan

    def _finished(self, policy: RunPolicy) -> Plan:
        """Terminal is final: only what is left of the pods, and of the time to live, changes."""
        numbers = counted(self.facts, {})
        status = msgspec.structs.replace(
            self.stored,
            replica_statuses=numbers.replica_statuses,
            workers_ready=numbers.workers_ready,
        )
        plan = self._plan(status, policy)
        left = lifecycle.time_to_live(status, policy, self.now)
        if left is not None:
            plan.look_again_after = left.total_seconds()
            plan.delete_job = plan.look_again_after <= 0
        return plan

    def _suspended(self, spec: ChainerJobSpec) -> Plan:
        none = dict.fromkeys(spec.worker_sets, 0)
        numbers = counted(self.facts, none)
        numbers.pod_records = lifecycle.texts(lifecycle.release(lifecycle.records(numbers)))
        active = sum(pod.active for pod in self.observed.pods)
        status = self._advance(numbers, suspend=True, active_pods=active)
        plan = Plan(status=document(self.facts, status), stages=self.writes.suspend())
        plan.events = lifecycle.transition_events(self.stored, status)
        return self._finish_plan(plan)

    def _going(self, spec: ChainerJobSpec, found: list[Problem]) -> Plan:
        waiting_for = self.facts.waiting_for(spec)
        numbers = counted(self.facts, _wanted(spec))
        progress = self._progress(spec, numbers, waiting_for, found)
        left = self._budget(spec)
        if not self.facts.started and left <= 0:
            return self._ended(spec, self._too_late(spec, progress))
        if (refusal := self._permanent_refusal()) is not None:
            outcome = Outcome(succeeded=False, reason=FAILED_SYNCED, message=refusal)
            return self._ended(spec, outcome)
        synced = progress.sync_problem is None
        status = self._advance(numbers, progress=progress, synced=synced)
        plan = Plan(status=document(self.facts, status))
        if not found and not self.observed.leftovers:
            plan.stages = self.writes.go(spec, start_master=waiting_for is None)
            plan.delete = self.writes.removed_sets(spec)
        plan.events = lifecycle.transition_events(self.stored, status)
        plan.events += self._sync_events(spec, status, progress)
        if not self.facts.started:
            plan.look_again_after = left
        if progress.sync_reason == RESOURCE_EXISTS:
            plan.look_again_after = min(left, FOREIGN_RETRY_SECONDS)
        return self._finish_plan(plan)

    def _progress(
        self,
        spec: ChainerJobSpec,
        numbers: Status,
        waiting_for: str | None,
        found: list[Problem],
    ) -> Progress:
        problem = self._sync_problem(found)
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
        since = lifecycle.waiting_since(self.stored) or self.now
        seconds = spec.run_policy.scheduling_policy.schedule_timeout_seconds
        return seconds - (self.now - since).total_seconds()

    # -- what stands in the way ---------------------------------------------------------------

    def _sync_problem(self, found: list[Problem]) -> tuple[str, str] | None:
        if found:
            return FAILED_SYNCED, "; ".join(str(problem) for problem in found)
        for key, refusal in self.observed.refusals.items():
            if refusal.foreign:
                text = f'Resource "{key.name}" already exists and is not managed by {api.KIND}'
                return RESOURCE_EXISTS, text
            return FAILED_SYNCED, f"{key.kind} {key.name}: {pods.shorten(refusal.message)}"
        for key in sorted(self.observed.leftovers):
            text = (
                f"{key.kind} {key.name} of an earlier {api.KIND} of this name is still being"
                " deleted"
            )
            return "WaitingForDeletion", text
        return None

    def _permanent_refusal(self) -> str | None:
        for key, refusal in self.observed.refusals.items():
            if refusal.permanent and not self.facts.started:
                return f"{key.kind} {key.name}: {pods.shorten(refusal.message, 1000)}"
        return None

    def _too_late(self, spec: ChainerJobSpec, progress: Progress) -> Outcome:
        reason, message = "WorkersNotReady", progress.message
        before = self.stored.condition(lifecycle.SYNCED)
        if before is not None:  # it was not the workers
            reason, message = before.reason, before.message
        seconds = spec.run_policy.scheduling_policy.schedule_timeout_seconds
        text = f"Not started within {seconds} s: {message}"
        return Outcome(succeeded=False, reason=reason, message=text)

    def _sync_events(self, spec: ChainerJobSpec, status: Status, progress: Progress) -> list[Event]:
        if progress.sync_problem is not None:
            before = self.stored.condition(lifecycle.SYNCED)
            if progress.sync_reason == "WaitingForDeletion" or (
                before is not None and before.message == progress.sync_problem
            ):
                return []
            return [Event("Warning", progress.sync_reason, progress.sync_problem)]
        was_synced = self.stored.condition(lifecycle.SYNCED) is None
        if was_synced and status.observed_generation == self.stored.observed_generation:
            return []
        return [SYNCED, *notes.warnings(self.facts.owner, spec, self.facts.job)]

    def _advance(
        self,
        numbers: Status,
        *,
        outcome: Outcome | None = None,
        progress: Progress | None = None,
        suspend: bool = False,
        active_pods: int = 0,
        synced: bool = True,
    ) -> Status:
        generation = self.metadata.generation if synced else self.stored.observed_generation
        return lifecycle.advance(
            numbers,
            kind=api.KIND,
            generation=generation,
            now=self.now,
            outcome=outcome,
            suspend=suspend,
            active_pods=active_pods,
            progress=progress,
        )

    def _plan(self, status: Status, policy: RunPolicy) -> Plan:
        """The plan of a job that has ended."""
        plan = Plan(status=document(self.facts, status), stages=self.writes.stop(policy))
        if policy.clean_pod_policy == "All":
            plan.delete = {
                ChildKey("Pod", pod.metadata.name): pod.metadata.uid
                for pod in self.facts.master_pods
                if pod.metadata.deletion_timestamp is None
            }
        return self._finish_plan(plan)

    def _finish_plan(self, plan: Plan) -> Plan:
        plan.urgent = lifecycle.is_urgent(self.observed.job.status, plan.status)
        return plan


def _wanted(spec: ChainerJobSpec) -> dict[str, int]:
    return {name: workers.replicas for name, workers in spec.worker_sets.items()}
