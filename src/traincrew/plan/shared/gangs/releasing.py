"""Whether the pods of a job are released, because only some of them have found room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.meta import format_time, parse_time
from traincrew.plan.shared import pods
from traincrew.plan.shared.gangs import release
from traincrew.plan.shared.lifecycle import RELEASED, SUSPENDED
from traincrew.plan.shared.model import Event, Plan
from traincrew.plan.shared.schedulers import KAI

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.plan.shared.gangs.job import JobGang
    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.model import Observed, Question

_NAMED = "schedulerName in the templates must name its scheduler"
_ADVICE: dict[str, str] = {
    KAI: "before release 0.15, it puts pods into groups of its own; update it",
}
"""What to do if an engine has placed pods one by one."""


class GangRelease:
    """The decision of one reconcile; see `traincrew.plan.shared.gangs.release`.

    Args:
        observed: The job and its pods.
        stored: The stored status.
        gang: The gang.
        now: The time.
        trains: Whether the pods that are placed train already.

    Attributes:
        asks: Whether the pods must be listed first: one may just have been placed.
        text: Why the pods are released, or stay so for now; empty if they are not.
        stamp: When they were released, and how often.
        seconds: Seconds until something else is to be done.
        events: Events of a release.
    """

    def __init__(
        self,
        observed: Observed,
        stored: Status,
        gang: JobGang,
        now: datetime,
        *,
        trains: bool,
    ) -> None:
        self._observed, self._stored, self._now = observed, stored, now
        self.asks = False
        self.text = ""
        self.stamp = ("", 0)
        self.seconds: float | None = None
        self.events: list[Event] = []
        if stored.finished or not gang.is_wanted:
            return
        if stored.gang_released_at:
            self._stay()
            return
        self.stamp = ("", 0 if trains else stored.gang_releases)
        if trains or stored.holds(SUSPENDED):
            return
        found = self._observed.pods
        left = release.seconds_left(found, gang.size, stored.gang_releases, now)
        if left is None or left > 0:
            self.seconds = left
        elif not self._observed.confirmed:
            self.asks = True
        else:
            self._release(gang.size, gang.engine)

    def _release(self, needed: int, engine: str) -> None:
        found = self._observed.pods
        placed = sum(bool(pod.spec.node_name) for pod in found)
        count = self._stored.gang_releases + 1
        self.seconds = release.wait(self._observed.job.metadata.uid, count)
        self.stamp = (format_time(self._now), count)
        self.text = (
            f"Only {placed} of {pods.quantity(needed, 'pod')} found room within"
            f" {release.patience(count - 1)} s: all are released, and created again in about"
            f" {self.seconds:.0f} s"
        )
        if engine:
            self.text += f"; {engine} has not placed them together: {_ADVICE.get(engine, _NAMED)}"
        self.events = [Event("Warning", RELEASED, self.text)]

    def _stay(self) -> None:
        stored = self._stored
        count = stored.gang_releases
        passed = (self._now - parse_time(stored.gang_released_at)).total_seconds()
        left = release.wait(self._observed.job.metadata.uid, count) - passed
        if left <= 0 and not any(pod.active for pod in self._observed.pods):
            self.stamp = ("", count)
            return
        before = stored.condition(SUSPENDED)
        self.stamp = (stored.gang_released_at, count)
        self.text = before.message if before is not None else "The pods are released"
        self.seconds = max(left, 1.0)

    def applied(self, plan: Plan | Question) -> Plan | Question:
        """Return the plan of an active job, with what is stored of its releases."""
        if not isinstance(plan, Plan):
            return plan
        at, count = self.stamp
        values = {"gangReleasedAt": at, "gangReleases": count}
        plan.status = {name: each for name, each in plan.status.items() if name not in values}
        plan.status |= {name: each for name, each in values.items() if each}
        if self.seconds is not None:
            waits = [each for each in (plan.requeue_after, self.seconds) if each is not None]
            plan.requeue_after = min(waits)
        return plan
