"""What follows from the rest of a plan: the status after it, its urgency, the next reconcile."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from traincrew.api.meta import parse_time
from traincrew.plan.shared import advancing, lifecycle, podrecords, pods, runpolicy
from traincrew.plan.shared.facts import JobFacts, Spec
from traincrew.plan.shared.lifecycle import AnyStatus, Outcome, Progress, Suspension
from traincrew.plan.shared.views import StatefulSetView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.model import Observed, Plan
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.views import ObservedPod

MAX_CONTROLLER_LAG = timedelta(seconds=10)
"""Maximum age of a StatefulSet whose controller has not seen it, so that nobody asks why pods are
missing. When many are created at once, its controller is behind."""


class PlanAssembly(JobFacts[Spec, AnyStatus]):
    """Completes the plans of one job."""

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self.progress_limit: int | None = None
        self.queue_status = self.stored.queue
        self._advance_left: float | None = None

    def advance(
        self,
        numbers: AnyStatus,
        *,
        outcome: Outcome | None = None,
        progress: Progress | None = None,
        suspend: Suspension | None = None,
        active_pods: int = 0,
    ) -> AnyStatus:
        """Return the status after this reconcile."""
        synced = progress is None or progress.sync_problem is None
        generation = self.metadata.generation if synced else self.stored.observed_generation
        advance = self._assess_reports(progress) if progress is not None else None
        return lifecycle.advance(
            msgspec.structs.replace(
                numbers, progress=self.observed.progress, queue=self.queue_status
            ),
            kind=self.definition.kind,
            generation=generation,
            now=self.now,
            outcome=outcome,
            suspend=suspend,
            active_pods=active_pods,
            progress=progress,
            advance=advance,
        )

    def _assess_reports(self, progress: Progress) -> advancing.Advance | None:
        """Return whether the reports of the program advance; only while the job is running."""
        if self.observed.progress is None or not progress.running or progress.restarting:
            return None
        advance = advancing.assess(
            self.observed.progress,
            self.observed.positions,
            began=advancing.began(self.observed.pods),
            deadline=self.progress_limit,
            stored=self.stored.condition(lifecycle.PROGRESSING),
            now=self.now,
        )
        self._advance_left = advance.seconds if advance is not None else None
        return advance

    def expired(self, plan: Plan, status: AnyStatus, policy: CommonPolicy) -> Plan:
        """Let a plan delete a finished job whose time to live is over, or wait for that."""
        left = runpolicy.time_to_live(status, policy, self.now)
        if left is None:
            return plan
        if left.total_seconds() > 0:
            plan.requeue_after = first([plan.requeue_after, left.total_seconds()])
        else:
            self.expire(plan)
        return plan

    def delete_released(
        self, plan: Plan, records: Mapping[str, PodRecord], place: str, pod: ObservedPod
    ) -> None:
        """Delete the pod in a place that is not desired, once it is stored as released."""
        if podrecords.is_released(records, place, pod):
            plan.delete_pods([pod])
        elif pod.metadata.deletion_timestamp is None:
            self.releasing = True

    def complete(self, plan: Plan) -> Plan:
        """Set what follows from the rest of the plan."""
        before = self.observed.job.status
        plan.urgent = self.releasing or lifecycle.is_urgent(before, plan.status, self.status_type)
        begins = lifecycle.is_beginning(before, plan.status, self.status_type)
        plan.patient = not self.releasing and (begins or not plan.urgent)
        late = pods.seconds_until_late(self.observed.pods, self.now)
        waits = [plan.requeue_after, self._advance_left, late]
        if plan.missing and (left := self._controller_lag()) > 0:
            plan.missing = {}
            waits.append(left)
        plan.requeue_after = first(waits)
        return plan

    def _controller_lag(self) -> float:
        """Return for how many seconds the controller of a StatefulSet may not have seen it yet."""
        created = [
            parse_time(child.metadata.creation_timestamp)
            for child in self.observed.children.values()
            if isinstance(child, StatefulSetView) and not child.is_observed
        ]
        left = max(created) + MAX_CONTROLLER_LAG - self.now if created else timedelta()
        return max(0.0, left.total_seconds())


def first(waits: Sequence[float | None]) -> float | None:
    """Return the shortest of several waits in seconds; None if none of them ends."""
    return min((wait for wait in waits if wait is not None), default=None)
