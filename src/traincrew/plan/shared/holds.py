"""What holds a job: it has no pods although it has not ended.

Each of these plans is that of a job that its user suspends. So no kind can count it as a failure,
and it is stored before any pod is deleted that the pods are ended by us.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from traincrew.api.kind import MULTI_KUEUE
from traincrew.api.reasons import QUEUE_UNAVAILABLE
from traincrew.api.runpolicy import policy_path
from traincrew.plan.shared.assembly import PlanAssembly, first
from traincrew.plan.shared.facts import Spec
from traincrew.plan.shared.gangs.releasing import GangRelease
from traincrew.plan.shared.lifecycle import RELEASED, SUCCEEDED, SUSPENDED, AnyStatus, Suspension
from traincrew.plan.shared.model import Confirm, Event, Plan
from traincrew.plan.shared.queueing import apply
from traincrew.plan.shared.queueing.multikueue import SentJobQueue, job_queue

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.model import Observed, Question
    from traincrew.plan.shared.queueing.job import JobQueue
    from traincrew.plan.shared.queueing.verdict import Verdict


class Hold(Suspension, frozen=True, kw_only=True):
    """What holds a job now.

    Attributes:
        gang_releases: What the status keeps of releases of a gang: when the last was, how many.
        seconds: Seconds until something else is to be done; None for never.
        events: Events to emit.
    """

    gang_releases: tuple[str, int] = ("", 0)
    seconds: float | None = None
    events: tuple[Event, ...] = field(default=())


class Holding(PlanAssembly[Spec, AnyStatus]):
    """Decides whether a job is held, and what follows."""

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self._release: GangRelease | None = None
        self._verdict: Verdict | None = None
        self._asked: Spec | None = None

    @property
    def policy_field(self) -> str:
        """Path of the run policy, for messages."""
        return policy_path(self.definition.spec)

    @property
    def _manager(self) -> str:
        return self.definition.manager.of(self.observed.job.spec)

    # -- queues -------------------------------------------------------------------------------

    @cached_property
    def queue(self) -> JobQueue:
        """The queue of the job, if it asks for one of this operator.

        Kueue itself queues jobs of other projects' kinds: it creates their Workloads, and suspends
        them (`pkg/controller/jobs/kubeflow` of Kueue).
        """
        owner = self.owner
        if self.definition.project:
            owner = msgspec.structs.replace(owner, labels={})
        here = self.definition.manager.is_here(self.observed.job.spec)
        return job_queue(self.observed, owner, self.stored.queue, self.now, here=here)

    def queue_question(self, spec: Spec, found: list[Problem]) -> Question | None:
        """Return what must be known of the queue of the job; None if it has none."""
        if not self.queue.is_asked_for:
            return None
        return self.queue.question(self.pod_sets(spec) if not found else [])

    def in_queue(self, spec: Spec, found: list[Problem]) -> Spec:
        """Decide what the queue of the job demands; return the spec that it has admitted.

        Args:
            spec: The desired state.
            found: What is invalid in it.
        """
        stored = self.stored.queue
        self._verdict = verdict = self.queue.decide(
            self.pod_sets(spec) if self.queue.is_asked_for and not found else None,
            self.finished_for_good(),
            suspended=self.policy(spec).suspend,
            runs=stored is not None
            and bool(stored.cluster_queue)
            and not self.stored.holds(SUSPENDED),
        )
        if verdict is None:
            return spec
        self.queue_status = verdict.status
        self._asked = spec
        return self.admitted(spec, verdict.counts) if verdict.counts else spec

    @property
    def admission_conflict(self) -> str:
        """Why the job can never run with its admission; empty if it can."""
        return self._verdict.failure if self._verdict is not None else ""

    def add_admission(self, plan: Plan) -> None:
        """Add to what a plan creates what the admission of the job demands."""
        verdict = self._verdict
        if verdict is None:
            return
        if verdict.unknown:
            apply.without_pods(plan)
            return
        old = apply.outdated(self.observed.children.items(), verdict.added)
        if old and not any(pod.active for pod in self.observed.pods):
            plan.stages, plan.later, plan.coming, plan.missing = [], [], {}, {}
            plan.delete = {}
            for key in old:
                plan.delete_child(key, self.observed.children[key])
            return
        apply.apply(plan, verdict.added, self.pod_set_of)

    def sync_problem(self, found: list[Problem]) -> tuple[str, str] | None:
        """Return why the spec has not taken effect: reason and message."""
        if not found and self._verdict is not None and self._verdict.unknown:
            return QUEUE_UNAVAILABLE, self._verdict.unknown
        return super().sync_problem(found)

    def plan_deleted(self) -> Plan | Question:
        """Return the plan of a job that is being deleted: its Workload lasts as long as its pods.

        Garbage collection deletes its children.
        """
        plan = Plan(status=self.observed.job.status)
        if not self.queue.is_asked_for:
            return plan
        if (question := self.queue.question([])) is not None:
            return question
        verdict = self.queue.leave()
        if verdict.asks:
            return Confirm()
        plan.queue, plan.requeue_after = verdict.writes, verdict.seconds
        return plan

    def plan_elsewhere(self) -> Plan | Question:
        """Return the plan of a job that another manager runs: nothing but its Workload.

        MultiKueue finds the jobs to run elsewhere by their Workloads, and makes none of kinds that
        are not compiled into Kueue. The status is MultiKueue's.
        """
        plan = Plan(status=self.observed.job.status)
        if not self.queue.is_asked_for or self._manager != MULTI_KUEUE:
            return plan
        if self.metadata.deletion_timestamp is not None:
            return self.plan_deleted()
        try:
            spec = self.decode(self.observed.job.spec)
        except msgspec.ValidationError:
            return plan
        found = self.problems(spec)
        if (question := self.queue_question(spec, found)) is not None:
            return question
        assert isinstance(self.queue, SentJobQueue)
        verdict = self.queue.sent(
            None if found else self.pod_sets(spec),
            suspended=self.policy(spec).suspend,
            finished=self.stored.finished,
        )
        if verdict is None:
            return plan
        if verdict.asks:
            return Confirm()
        plan.queue, plan.requeue_after = verdict.writes, verdict.seconds
        return self.expired(plan, self.stored, self.policy(spec))

    def leave_queue(self) -> Question | None:
        """Decide what is done with the Workload of a finished job; return what to read first."""
        if self.stored.queue is None or not self.stored.queue.workload:
            return None
        if (question := self.queue.question([])) is not None:
            return question
        succeeded = self.stored.holds(SUCCEEDED)
        verdict = self.queue.finish(succeeded=succeeded, message=self.stored.message)
        if verdict.asks:
            return Confirm()
        self._verdict, self.queue_status = verdict, verdict.status
        return None

    def with_queue(self, plan: Plan) -> Plan:
        """Add to a plan what is done with the Workload."""
        if self._verdict is not None:
            plan.queue = self._verdict.writes
            plan.requeue_after = first([plan.requeue_after, self._verdict.seconds])
        return plan

    # -- what holds a job ---------------------------------------------------------------------

    def hold_of(self, spec: Spec, found: list[Problem]) -> Hold | Confirm | None:
        """Return what holds the job, or what must be known before; None if nothing does.

        Args:
            spec: The desired state.
            found: What is invalid in it; then only the user and the queue hold the job.
        """
        verdict = self._verdict
        if verdict is not None and verdict.asks:
            return Confirm()
        if self.policy(spec).suspend:
            return Hold(field=f"{self.policy_field}.suspend")
        if verdict is not None and verdict.reason:
            return Hold(reason=verdict.reason, text=verdict.text, events=self._told(verdict))
        return self._released(spec) if not found else None

    def _told(self, verdict: Verdict) -> tuple[Event, ...]:
        """Return an event if the job cannot be queued, and that was not told yet."""
        before = self.stored.condition(SUSPENDED)
        if verdict.reason != QUEUE_UNAVAILABLE or (
            before is not None and before.is_true and before.message == verdict.text
        ):
            return ()
        return (Event("Warning", verdict.reason, verdict.text),)

    def _released(self, spec: Spec) -> Hold | Confirm | None:
        """Return the release of the pods, if only some of them have found room."""
        gang, stored = self.gang(spec), self.stored
        if not (gang.is_wanted or stored.gang_releases or stored.gang_released_at):
            return None
        trains = gang.is_wanted and self.trains(spec)
        found = GangRelease(self.observed, stored, gang, self.now, trains=trains)
        self._release = found
        if found.asks:
            return Confirm()
        if not found.text:
            return None
        return Hold(
            reason=RELEASED,
            text=found.text,
            gang_releases=found.stamp,
            seconds=found.seconds,
            events=tuple(found.events),
        )

    def plan_held(self, spec: Spec, hold: Hold) -> Plan:
        """Return the plan of a job that is held.

        Args:
            spec: The desired state, suspended.
            hold: What holds it.
        """
        numbers = self.status_with_counts(spec, wanted=False)
        active = sum(pod.active for pod in self.observed.pods)
        numbers.gang_released_at, numbers.gang_releases = hold.gang_releases
        status = self.advance(numbers, suspend=hold, active_pods=active)
        plan = Plan(status=self.document(status))
        self.suspend(plan, spec)
        plan.events = [*self.transitions(status), *hold.events]
        plan.requeue_after = hold.seconds
        return self.complete(self.with_queue(plan))

    def not_held(self, plan: Plan | Question) -> Plan | Question:
        """Return the plan of a job that nothing holds, with what is stored of earlier holds."""
        if self._release is not None:
            plan = self._release.applied(plan)
        if self._verdict is None or not isinstance(plan, Plan):
            return plan
        if self._verdict.added and self._asked is not None:
            wanted = {each.name: each.count for each in self.pod_sets(self._asked)}
            self._verdict.writes += self.queue.report(wanted)
        return self.with_queue(plan)
