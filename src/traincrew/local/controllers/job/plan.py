"""Plan of a Job: (job, its pods, now) -> pods to create and delete, status, events. Pure.

The rules are upstream's (`pkg/controller/job`):

1. A finished pod is counted exactly once (`ledger`).
2. A decision is announced before it is complete: `FailureTarget` or `SuccessCriteriaMet` first,
   `Failed` or `Complete` once every pod has finished.
3. Pods that the controller itself removes (suspended, scaled down) are not failures: their
   finalizer is removed before they are deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.common import find_condition, format_time, parse_time
from traincrew.local.controllers.job import indexes as ix
from traincrew.local.controllers.job.backoff import Backoff, remaining
from traincrew.local.controllers.job.failure_policy import evaluate, success_message
from traincrew.local.controllers.job.model import (
    MANAGED_BY,
    TRACKING,
    Plan,
    is_job_finished,
    is_tracked,
)
from traincrew.local.controllers.job.numbers import Numbers
from traincrew.local.controllers.job.pod import pod_of
from traincrew.local.controllers.job.podcounts import Outcome, PodCounts
from traincrew.local.controllers.writes import Deletion, Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.engine.objects import AnyObject

MAX_PODS_PER_STEP = 500
"""Pods created or deleted in one reconcile (upstream `MaxPodCreateDeletePerSync`)."""


def plan_job(job: AnyObject, pods: Sequence[AnyObject], now: float, backoff: Backoff) -> Plan:
    """Plan the next step of a Job.

    Args:
        job: The Job as cached, with all own writes.
        pods: All pods it controls, including finished and terminating ones.
        now: Seconds since the epoch.
        backoff: `Plan.backoff` of the previous call, or a new one.
    """
    if job.spec.get("managedBy", MANAGED_BY) != MANAGED_BY:
        return Plan(backoff=backoff)
    if is_job_finished(job):
        return Plan(release=[pod for pod in pods if is_tracked(pod)], backoff=backoff)
    return _Decision(job, pods, now, backoff).make()


class _Decision:
    """The state of one call of `plan_job`."""

    def __init__(
        self, job: AnyObject, pods: Sequence[AnyObject], now: float, backoff: Backoff
    ) -> None:
        self.job, self.now = job, now
        self.numbers = Numbers(job, pods)
        self.plan = Plan(backoff=self.numbers.observe(backoff, now))
        self.ledger = PodCounts(self.numbers, self.plan, now)
        self.outcome: Outcome | None = None

    def make(self) -> Plan:
        """Decide whether the Job ends, manage its pods, compute its status."""
        if self.ledger.status.get("startTime") is None and not self.numbers.suspended:
            self.ledger.status["startTime"] = format_time(self.now)
        self._evaluate()
        if self.outcome is None:
            self._run()
        else:
            for pod in self.numbers.active:  # no pod continues
                self._delete(pod, release="")
        self.ledger.close(self.outcome)
        return self.plan

    # -- whether the Job is decided ----------------------------------------------------------

    def _evaluate(self) -> None:
        for kind in ("SuccessCriteriaMet", "FailureTarget"):
            condition = find_condition(self.ledger.conditions, kind)
            if condition is not None and condition.get("status") == "True":
                self._decide(kind, condition.get("reason", ""), condition.get("message", ""))
                return
        numbers = self.numbers
        for pod in numbers.all_failed if numbers.policy else ():
            verdict = evaluate(numbers.policy, pod)
            if verdict.action == "FailJob":
                self._decide("FailureTarget", "PodFailurePolicy", verdict.message)
                return
        deadline = self._deadline()
        if numbers.failed > numbers.limit or numbers.restarted_too_often():
            self._decide(
                "FailureTarget",
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            )
        elif deadline is not None and deadline <= self.now:
            self._decide(
                "FailureTarget",
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            )
        elif deadline is not None:
            self._requeue_at(deadline)
        if self.outcome is None and numbers.indexed:
            self._evaluate_indexes()

    def _evaluate_indexes(self) -> None:
        numbers, spec = self.numbers, self.job.spec
        failed, succeeded = numbers.failed_indexes, numbers.succeeded_indexes
        highest = spec.get("maxFailedIndexes")
        if highest is not None and len(failed) > highest:
            self._decide(
                "FailureTarget",
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            )
        elif failed and len(failed) + len(succeeded) >= numbers.total:
            self._decide("FailureTarget", "FailedIndexes", "Job has failed indexes")
        else:
            message = success_message(spec.get("successPolicy"), succeeded, numbers.total)
            if message is not None:
                self._decide("SuccessCriteriaMet", "SuccessPolicy", message)

    def _deadline(self) -> float | None:
        seconds = self.job.spec.get("activeDeadlineSeconds")
        start = self.ledger.status.get("startTime")
        if seconds is None or start is None or self.numbers.suspended:
            return None
        return parse_time(start) + float(seconds)

    def _decide(self, kind: str, reason: str, message: str) -> None:
        self.outcome = Outcome(kind, reason, message)

    # -- what its pods do --------------------------------------------------------------------

    def _run(self) -> None:
        numbers = self.numbers
        if not numbers.deleting:
            self._manage()
        wanted = numbers.completions
        complete = numbers.succeeded > 0 if wanted is None else numbers.succeeded >= wanted
        if complete and numbers.active_count == 0:
            self._decide(
                "SuccessCriteriaMet",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            )
        elif not numbers.deleting:
            self._note_suspension()

    def _manage(self) -> None:
        """Bring the number of active pods to the desired one: deletions first, else creations."""
        numbers = self.numbers
        for pod in [pod for pod in numbers.active if not is_tracked(pod)]:
            # Its finalizer was removed for a deletion that did not happen: its outcome would not
            # be counted.
            numbers.active.remove(pod)
            self._delete(pod, release="")
        if numbers.suspended:
            for pod in numbers.active:
                self._delete(pod, release=TRACKING)
            return
        if numbers.completions is None:
            wanted = numbers.active_count if numbers.succeeded else numbers.parallelism
        else:
            wanted = max(0, min(numbers.completions - numbers.succeeded, numbers.parallelism))
        surplus = self._surplus(max(0, numbers.active_count - wanted))
        for pod in surplus[:MAX_PODS_PER_STEP]:
            self._delete(pod, release=TRACKING)
        terminating = numbers.terminating if numbers.only_failed else 0
        missing = min(wanted - terminating - numbers.active_count, MAX_PODS_PER_STEP)
        if not self.plan.delete and missing > 0:
            self._create(missing)

    def _surplus(self, at_least: int) -> list[AnyObject]:
        """Return the pods without a valid index, then as many more as have to be deleted."""
        numbers = self.numbers
        surplus: list[AnyObject] = []
        rest = numbers.active
        if numbers.indexed:
            rest = []
            owners: dict[int, AnyObject] = {}
            for pod in sorted(numbers.active, key=podutil.removal_order, reverse=True):
                index = numbers.index_of(pod)
                if index is None or owners.setdefault(index, pod) is not pod:
                    surplus.append(pod)
                else:
                    rest.append(pod)
        if len(surplus) < at_least:
            surplus += sorted(rest, key=podutil.removal_order)[: at_least - len(surplus)]
        return surplus

    def _create(self, count: int) -> None:
        numbers, plan = self.numbers, self.plan
        if numbers.per_index is None:
            wait = plan.backoff.remaining(self.now)
            if wait > 0:
                self._requeue_at(self.now + wait)
                return
        if not numbers.indexed:
            plan.create += [pod_of(self.job) for _ in range(count)]
            numbers.active_count += count
            return
        busy = [
            pod
            for pod in numbers.pods
            if podutil.is_active(pod)
            or (
                numbers.only_failed and podutil.is_terminating(pod) and not podutil.is_finished(pod)
            )
        ]
        taken = numbers.succeeded_indexes | numbers.failed_indexes
        taken |= {index for pod in busy if (index := numbers.index_of(pod)) is not None}
        for index in ix.first_missing(taken, count, numbers.total):
            before = numbers.delayed.get(index)
            wait = self._wait_after(before) if before is not None else 0.0
            if wait > 0:
                self._requeue_at(self.now + wait)
                continue
            plan.create.append(self._indexed_pod(index, before))
            numbers.active_count += 1

    def _wait_after(self, before: AnyObject) -> float:
        """Return the seconds until the index of a failed pod is retried."""
        ended = podutil.finished_at(before)
        failures = ix.failure_count(before) + 1
        return remaining(failures, self.now if ended is None else ended, self.now)

    def _indexed_pod(self, index: int, before: AnyObject | None) -> dict[str, Any]:
        if self.numbers.per_index is None:
            return pod_of(self.job, index)
        failures = ignored = 0
        if before is not None:
            excused = not evaluate(self.numbers.policy, before).counts
            failures = ix.failure_count(before) + (not excused)
            ignored = ix.ignored_failure_count(before) + excused
        annotations = {ix.INDEX_FAILURES: str(failures)}
        if ignored:
            annotations[ix.INDEX_IGNORED_FAILURES] = str(ignored)
        return pod_of(self.job, index, annotations)

    def _note_suspension(self) -> None:
        seen = find_condition(self.ledger.conditions, "Suspended")
        was = seen is not None and seen.get("status") == "True"
        if self.numbers.suspended and not was:
            self.ledger.condition("Suspended", True, "JobSuspended", "Job suspended")
            self.ledger.status.pop("startTime", None)
            self.plan.events.append(Event("Suspended", "Job suspended"))
        elif was and not self.numbers.suspended:
            self.ledger.condition("Suspended", False, "JobResumed", "Job resumed")
            # The deadline counts only the time since the Job was resumed.
            self.ledger.status["startTime"] = format_time(self.now)
            self.plan.events.append(Event("Resumed", "Job resumed"))

    def _delete(self, pod: AnyObject, *, release: str) -> None:
        numbers = self.numbers
        self.plan.delete.append(Deletion(pod, release if is_tracked(pod) else ""))
        numbers.active_count -= 1
        numbers.terminating += 1
        numbers.ready -= podutil.is_ready(pod)

    def _requeue_at(self, moment: float) -> None:
        known = self.plan.requeue_at
        self.plan.requeue_at = moment if known is None else min(known, moment)
