"""The observed state of a Job: its spec in numbers, and the outcome of its pods. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.job import indexes as ix
from traincrew.local.controllers.job.failure_policy import evaluate
from traincrew.local.controllers.job.model import is_tracked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.job.backoff import Backoff


class Numbers:
    """The numbers of one reconcile.

    `active_count`, `ready` and `terminating` are updated by the decisions of the reconcile.
    """

    def __init__(self, job: AnyObject, pods: Sequence[AnyObject]) -> None:
        spec, status = job.spec, job.status
        self.job, self.pods = job, pods
        self.indexed = spec.get("completionMode") == "Indexed"
        self.completions: int | None = spec.get("completions")
        self.total = self.completions or 0
        self.parallelism = int(spec.get("parallelism", 1))
        self.suspended = bool(spec.get("suspend", False))
        self.per_index: int | None = spec.get("backoffLimitPerIndex")
        self.limit = int(spec.get("backoffLimit", 6 if self.per_index is None else 2**31 - 1))
        self.policy: dict[str, Any] | None = spec.get("podFailurePolicy")
        default = "Failed" if self.policy else "TerminatingOrFailed"
        self.only_failed = spec.get("podReplacementPolicy", default) == "Failed"
        self.deleting = job.metadata.deletion_timestamp is not None

        uncounted = status.get("uncountedTerminatedPods") or {}
        self.uncounted_succeeded: list[str] = list(uncounted.get("succeeded") or ())
        self.uncounted_failed: list[str] = list(uncounted.get("failed") or ())

        self.active = [pod for pod in pods if podutil.is_active(pod)]
        self.active_count = len(self.active)
        self.ready = sum(map(podutil.is_ready, self.active))
        self.terminating = sum(
            podutil.is_terminating(pod) and not podutil.is_finished(pod) for pod in pods
        )
        self.all_succeeded = [pod for pod in pods if podutil.phase(pod) == "Succeeded"]
        # Pods that the controller deleted itself are terminating without the finalizer; they are
        # not failures.
        self.all_failed = [
            pod
            for pod in pods
            if self.has_failed(pod) and (is_tracked(pod) or not podutil.is_terminating(pod))
        ]
        self.succeeded_indexes: set[int] = set()
        self.failed_indexes: set[int] = set()
        self.delayed: dict[int, AnyObject] = {}
        """By index: the latest failed pod, as long as it has no successor."""
        self._count()

    def observe(self, backoff: Backoff, now: float) -> Backoff:
        """Return the back-off updated with newly finished pods."""
        return backoff.observe(self.all_succeeded, self.all_failed, now)

    def has_failed(self, pod: AnyObject) -> bool:
        """Return whether it failed, or was deleted first (unless the Job waits for its end)."""
        state = podutil.phase(pod)
        if state == "Failed":
            return True
        return not self.only_failed and podutil.is_terminating(pod) and state != "Succeeded"

    def index_of(self, pod: AnyObject) -> int | None:
        """Return the index of a pod of an Indexed Job."""
        return ix.index_of(pod, self.total) if self.indexed else None

    def restarted_too_often(self) -> bool:
        """Check the limit for `restartPolicy: OnFailure`, where the kubelet restarts containers."""
        template = self.job.spec.get("template") or {}
        if (template.get("spec") or {}).get("restartPolicy") != "OnFailure":
            return False
        count = sum(
            podutil.restarts(pod)
            for pod in self.pods
            if podutil.phase(pod) in {"Running", "Pending"}
        )
        return count > 0 if self.limit == 0 else count >= self.limit

    def _count(self) -> None:
        status = self.job.status
        known_succeeded, known_failed = set(self.uncounted_succeeded), set(self.uncounted_failed)
        succeeded = [
            pod
            for pod in self.all_succeeded
            if self._is_uncounted(pod) and pod.metadata.uid not in known_failed
        ]
        self.succeeded = (
            int(status.get("succeeded") or 0)
            + len(known_succeeded)
            + sum(pod.metadata.uid not in known_succeeded for pod in succeeded)
        )
        self.failed = (
            int(status.get("failed") or 0)
            + len(known_failed)
            + sum(
                self._is_uncounted(pod)
                and pod.metadata.uid not in known_failed
                and evaluate(self.policy, pod).counts
                for pod in self.all_failed
            )
        )
        if not self.indexed:
            return
        self.succeeded_indexes = ix.parse(status.get("completedIndexes"), self.total) | {
            index for pod in succeeded if (index := self.index_of(pod)) is not None
        }
        self.succeeded = len(self.succeeded_indexes)
        if self.per_index is not None:
            self._count_failed_indexes(self.per_index)

    def _is_uncounted(self, pod: AnyObject) -> bool:
        return is_tracked(pod) and (not self.indexed or self.index_of(pod) is not None)

    def _count_failed_indexes(self, limit: int) -> None:
        self.failed_indexes = ix.parse(self.job.status.get("failedIndexes"), self.total)
        failed = [
            (index, pod) for pod in self.all_failed if (index := self.index_of(pod)) is not None
        ]
        for index, pod in failed:
            verdict = evaluate(self.policy, pod)
            exhausted = verdict.counts and ix.failure_count(pod) >= limit
            if verdict.action == "FailIndex" or exhausted:
                self.failed_indexes.add(index)
        settled = self.succeeded_indexes | self.failed_indexes
        settled |= ix.active_indexes(self.pods, self.total)
        for index, pod in failed:
            other = self.delayed.get(index)
            if index not in settled and (other is None or _failures(other) <= _failures(pod)):
                self.delayed[index] = pod


def _failures(pod: AnyObject) -> int:
    return ix.failure_count(pod) + ix.ignored_failure_count(pod)
