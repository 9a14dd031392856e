"""Counts every finished pod of a Job exactly once, and writes its status (KEP-2307). Pure.

The pod's UID is added to `status.uncountedTerminatedPods`, then its finalizer is removed, then the
counter is incremented and the UID leaves the list. Every step can be repeated, so a crash between
any two of them neither loses nor doubles a count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.common import format_time, set_condition
from traincrew.local.controllers.job import indexes as ix
from traincrew.local.controllers.job.failure_policy import evaluate
from traincrew.local.controllers.job.model import is_tracked
from traincrew.local.controllers.writes import Event

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.job.model import Plan
    from traincrew.local.controllers.job.numbers import Numbers

MAX_UNCOUNTED = 500
"""UIDs in `uncountedTerminatedPods` at a time (upstream `MaxUncountedPods`)."""


class Outcome(Struct, frozen=True):
    """How the Job ends; decided, although its pods may not have finished yet.

    Attributes:
        kind: `FailureTarget` or `SuccessCriteriaMet`.
        reason: Reason of this condition and of the final one.
        message: Message of both.
    """

    kind: str
    reason: str
    message: str

    @property
    def final_kind(self) -> str:
        """The condition that follows once every pod has finished."""
        return "Failed" if self.kind == "FailureTarget" else "Complete"


class PodCounts:
    """The status to be written."""

    def __init__(self, numbers: Numbers, plan: Plan, now: float) -> None:
        self._numbers, self._plan, self._now = numbers, plan, now
        self.status: dict[str, Any] = dict(numbers.job.status)
        self.conditions: list[dict[str, Any]] = list(self.status.get("conditions") or ())
        self._succeeded, self._failed = numbers.uncounted_succeeded, numbers.uncounted_failed

    def condition(self, kind: str, status: bool, reason: str, message: str) -> None:
        """Set a condition."""
        self.conditions = set_condition(
            self.conditions,
            kind,
            status,
            reason,
            message,
            now=self._now,
            extra_times=("lastProbeTime",),
        )

    def close(self, outcome: Outcome | None) -> None:
        """Count pods, release those that are counted, and set the final condition when all is done.

        Fills in `status`, `release`, `final_status` and `events` of the plan.
        """
        numbers, plan = self._numbers, self._plan
        tracked = {pod.metadata.uid for pod in numbers.pods if is_tracked(pod)}
        self._settle(tracked)
        full = self._collect(tracked, outcome)
        if numbers.indexed:
            self.status["succeeded"] = len(numbers.succeeded_indexes)
            self.status["completedIndexes"] = ix.text(numbers.succeeded_indexes)
            if numbers.per_index is not None:
                self.status["failedIndexes"] = ix.text(numbers.failed_indexes)
        self.status["active"] = numbers.active_count
        self.status["ready"] = numbers.ready
        self.status["terminating"] = numbers.terminating
        if outcome is not None:
            self.condition(outcome.kind, True, outcome.reason, outcome.message)
        first = self._written()
        # The UIDs must be in the stored status before the finalizers are removed.
        seen = _clean(numbers.job.status)
        if plan.release and first != seen:
            plan.status = seen = first
        self._settle(tracked - {pod.metadata.uid for pod in plan.release})
        if outcome is not None and not full and numbers.terminating == 0:
            self._finish(outcome)
        last = self._written()
        if last != seen:
            plan.final_status = last

    def _settle(self, tracked: set[str]) -> None:
        """Add UIDs whose finalizer is gone to the counters."""
        if not self._numbers.indexed:
            self._increment("succeeded", sum(uid not in tracked for uid in self._succeeded))
        self._increment("failed", sum(uid not in tracked for uid in self._failed))
        self._succeeded = [uid for uid in self._succeeded if uid in tracked]
        self._failed = [uid for uid in self._failed if uid in tracked]

    def _increment(self, counter: str, by: int) -> None:
        if by:
            self.status[counter] = int(self.status.get(counter) or 0) + by

    def _collect(self, tracked: set[str], outcome: Outcome | None) -> bool:
        """Add newly finished pods to the uncounted ones; True if too many for one step."""
        numbers, plan = self._numbers, self._plan
        failing = outcome is not None and outcome.kind == "FailureTarget"
        counted = 0
        taken_away = {deletion.pod.metadata.uid for deletion in plan.delete if deletion.release}
        for pod in numbers.pods:
            uid = pod.metadata.uid
            if uid not in tracked or uid in taken_away:
                continue
            if outcome is None and not self._may_release(pod):
                continue
            plan.release.append(pod)
            if uid in self._failed or uid in self._succeeded:
                continue
            if podutil.phase(pod) == "Succeeded":
                if not numbers.indexed:  # the index itself is the count
                    self._succeeded.append(uid)
                    counted += 1
            elif (
                (failing or numbers.has_failed(pod))
                and (not numbers.indexed or numbers.index_of(pod) is not None)
                and evaluate(numbers.policy, pod).counts
            ):
                self._failed.append(uid)
                counted += 1
            if counted >= MAX_UNCOUNTED:
                return True
        return False

    def _may_release(self, pod: AnyObject) -> bool:
        numbers = self._numbers
        if numbers.deleting or podutil.phase(pod) == "Succeeded":
            return True
        if not numbers.has_failed(pod):
            return False
        # The latest failure of an index keeps its finalizer until its successor is created, whose
        # annotation takes over the count.
        index = numbers.index_of(pod)
        delayed = numbers.delayed.get(index) if index is not None else None
        return delayed is None or delayed.metadata.uid != pod.metadata.uid

    def _written(self) -> dict[str, Any]:
        uncounted = {"succeeded": self._succeeded, "failed": self._failed}
        status = self.status | {
            "uncountedTerminatedPods": {key: value for key, value in uncounted.items() if value},
        }
        if self.conditions:
            status["conditions"] = list(self.conditions)
        return _clean(status)

    def _finish(self, outcome: Outcome) -> None:
        if self._succeeded or self._failed:
            return
        plan, completions = self._plan, self._numbers.completions
        self.condition(outcome.final_kind, True, outcome.reason, outcome.message)
        plan.requeue_at = None
        if outcome.final_kind == "Failed":
            plan.events.append(Event(outcome.reason, outcome.message, "Warning"))
            return
        self.status["completionTime"] = format_time(self._now)
        if completions is not None and int(self.status.get("succeeded") or 0) > completions:
            text = "Too many succeeded pods running after completion count reached"
            plan.events.append(Event("TooManySucceededPods", text, "Warning"))
        plan.events.append(Event("Completed", "Job completed"))


def _clean(status: dict[str, Any]) -> dict[str, Any]:
    """Omit counters at zero, as upstream's encoding does."""
    return {
        key: value
        for key, value in status.items()
        if not (key in {"active", "succeeded", "failed"} and not value)
        and not (key == "completedIndexes" and not value)
    }
