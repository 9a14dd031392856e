"""What holds a job: it has no pods although it has not ended.

Each of these plans is that of a job that its user suspends. So no kind can count it as a failure,
and it is stored before any pod is deleted that the pods are ended by us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from traincrew.api.runpolicy import CommonPolicy
from traincrew.plan.shared.assembly import PlanAssembly
from traincrew.plan.shared.facts import Spec
from traincrew.plan.shared.gangs.releasing import GangRelease
from traincrew.plan.shared.lifecycle import RELEASED, AnyStatus, Suspension
from traincrew.plan.shared.model import Confirm, Event, Plan

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.model import Observed, Question


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

    @property
    def policy_field(self) -> str:
        """Path of the run policy, for messages."""
        return "spec" if issubclass(self.definition.spec, CommonPolicy) else "spec.runPolicy"

    def hold_of(self, spec: Spec, found: list[Problem]) -> Hold | Confirm | None:
        """Return what holds the job, or what must be known before; None if nothing does.

        Args:
            spec: The desired state.
            found: What is invalid in it; then only the user holds the job.
        """
        if self.policy(spec).suspend:
            return Hold(field=f"{self.policy_field}.suspend")
        return self._released(spec) if not found else None

    def _released(self, spec: Spec) -> Hold | Confirm | None:
        """Return the release of the pods, if only some of them have found room."""
        gang, stored = self.gang(spec), self.stored
        if not (gang.is_unplaced or stored.gang_releases or stored.gang_released_at):
            return None
        trains = gang.is_unplaced and self.trains(spec)
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
        return self.complete(plan)

    def not_held(self, plan: Plan | Question) -> Plan | Question:
        """Return the plan of a job that nothing holds, with what is stored of earlier holds."""
        return self._release.applied(plan) if self._release is not None else plan
