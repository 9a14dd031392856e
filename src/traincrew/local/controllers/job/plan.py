"""What a Job does next: (job, its pods, now) -> pods to make and delete, status, events. Pure.

The rules are upstream's (`pkg/controller/job`, KEP-2307 for the counting):

1. A finished pod is counted exactly once. Its UID goes to `status.uncountedTerminatedPods`, then
   its finalizer goes, then the counter is raised and the UID leaves the list. Every step can be
   repeated, so a crash between any two of them neither loses nor doubles a count.
2. A decision is announced before it is complete: `FailureTarget` or `SuccessCriteriaMet` first,
   `Failed` or `Complete` once every pod has ended.
3. Pods the controller itself takes away (suspended, scaled down) are no failures: their finalizer
   goes before they are deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.engine.resources import JOBS
from traincrew.local.controllers import pods as facts
from traincrew.local.controllers.common import (
    find_condition,
    format_time,
    has_condition,
    owner_reference,
    parse_time,
    set_condition,
)
from traincrew.local.controllers.job import indexes as ix
from traincrew.local.controllers.job.backoff import Backoff, remaining
from traincrew.local.controllers.job.failure_policy import judge, success_message
from traincrew.local.controllers.writes import Deletion, Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.engine.objects import AnyObject

TRACKING = "batch.kubernetes.io/job-tracking"
"""Finalizer that keeps a deleted pod until it was counted."""
MANAGED_BY = "kubernetes.io/job-controller"
MAX_PODS_PER_STEP = 500
"""Pods made or deleted in one reconcile (upstream `MaxPodCreateDeletePerSync`)."""
MAX_UNCOUNTED = 500
"""UIDs in `uncountedTerminatedPods` at a time (upstream `MaxUncountedPods`)."""


class Plan(Struct, kw_only=True):
    """What to write, in this order: deletions and creations, status, finalizers, final status.

    Attributes:
        delete: Pods to delete.
        create: Pods to make.
        status: Status before finalizers go; None to leave it.
        release: Pods whose tracking finalizer goes.
        final_status: Status once they are gone; None to leave it.
        notes: Events, once the status is written.
        backoff: To hand in again next time.
        look_again_at: Seconds since the epoch, or None.
    """

    delete: list[Deletion] = field(default_factory=list)
    create: list[dict[str, Any]] = field(default_factory=list)
    status: dict[str, Any] | None = None
    release: list[AnyObject] = field(default_factory=list)
    final_status: dict[str, Any] | None = None
    notes: list[Note] = field(default_factory=list)
    backoff: Backoff = Backoff()
    look_again_at: float | None = None


def is_job_finished(job: AnyObject) -> bool:
    """Whether it is Complete or Failed; nothing changes after that."""
    conditions = job.status.get("conditions")
    return has_condition(conditions, "Complete") or has_condition(conditions, "Failed")


def is_tracked(pod: AnyObject) -> bool:
    """Whether the pod still waits to be counted."""
    return TRACKING in pod.metadata.finalizers


def plan_job(job: AnyObject, pods: Sequence[AnyObject], now: float, backoff: Backoff) -> Plan:
    """Decide.

    Args:
        job: As the cache holds it, every own write included.
        pods: All pods it controls, finished and terminating ones too.
        now: Seconds since the epoch.
        backoff: `Plan.backoff` of the last time, or a new one.
    """
    if job.spec.get("managedBy", MANAGED_BY) != MANAGED_BY:
        return Plan(backoff=backoff)
    if is_job_finished(job):
        return Plan(release=[pod for pod in pods if is_tracked(pod)], backoff=backoff)
    return _Decision(job, pods, now, backoff).make()


class _Decision:
    """The numbers of one reconcile; lives as long as one call."""

    def __init__(
        self, job: AnyObject, pods: Sequence[AnyObject], now: float, backoff: Backoff
    ) -> None:
        spec = job.spec
        self.job, self.pods, self.now = job, pods, now
        self.plan = Plan(backoff=backoff)
        self.indexed = spec.get("completionMode") == "Indexed"
        self.completions: int | None = spec.get("completions")
        self.parallelism = int(spec.get("parallelism", 1))
        self.suspended = bool(spec.get("suspend", False))
        self.per_index = spec.get("backoffLimitPerIndex")
        self.policy = spec.get("podFailurePolicy")
        default = "Failed" if self.policy else "TerminatingOrFailed"
        self.only_failed = spec.get("podReplacementPolicy", default) == "Failed"
        self.deleting = job.metadata.deletion_timestamp is not None

        uncounted = job.status.get("uncountedTerminatedPods") or {}
        self.uncounted_succeeded: list[str] = list(uncounted.get("succeeded") or ())
        self.uncounted_failed: list[str] = list(uncounted.get("failed") or ())

        self.active = [pod for pod in pods if facts.is_active(pod)]
        self.active_count = len(self.active)
        self.ready = sum(map(facts.is_ready, self.active))
        self.terminating = sum(
            facts.is_terminating(pod) and not facts.is_finished(pod) for pod in pods
        )
        self.status: dict[str, Any] = dict(job.status)
        self.conditions: list[dict[str, Any]] = list(job.status.get("conditions") or ())
        self.finish: dict[str, str] | None = None  # type, reason, message of the decision
        self.previous_indexes: set[int] = set()
        self.succeeded_indexes: set[int] = set()
        self.failed_indexes: set[int] = set()
        self.delayed: dict[int, AnyObject] = {}

    # -- the steps ---------------------------------------------------------------------------

    def make(self) -> Plan:
        """Count, judge, act, write down."""
        self._count()
        if self.status.get("startTime") is None and not self.suspended:
            self.status["startTime"] = format_time(self.now)
        self._judge()
        if self.finish is not None:
            self._stop_active()
        else:
            self._run()
        self._track()
        return self.plan

    def _count(self) -> None:
        known_succeeded, known_failed = set(self.uncounted_succeeded), set(self.uncounted_failed)
        all_succeeded = [pod for pod in self.pods if facts.phase(pod) == "Succeeded"]
        all_failed = [pod for pod in self.pods if self._failed(pod)]
        # Pods the controller took away itself are on their way out without the finalizer.
        blamed = [pod for pod in all_failed if is_tracked(pod) or not facts.is_terminating(pod)]
        self.plan.backoff = self.plan.backoff.observe(all_succeeded, blamed, self.now)
        succeeded = [
            pod
            for pod in all_succeeded
            if self._is_new(pod) and pod.metadata.uid not in known_failed
        ]
        failed = [pod for pod in all_failed if self._is_new(pod)]
        self.succeeded = (
            int(self.status.get("succeeded") or 0)
            + len(known_succeeded)
            + sum(pod.metadata.uid not in known_succeeded for pod in succeeded)
        )
        self.failed = (
            int(self.status.get("failed") or 0)
            + len(known_failed)
            + sum(
                pod.metadata.uid not in known_failed and judge(self.policy, pod).counts
                for pod in failed
            )
        )
        if not self.indexed:
            return
        total = self.completions or 0
        self.previous_indexes = ix.parse(self.status.get("completedIndexes"), total)
        self.succeeded_indexes = self.previous_indexes | {
            index for pod in succeeded if (index := ix.index_of(pod, total)) is not None
        }
        self.succeeded = len(self.succeeded_indexes)
        if self.per_index is not None:
            self._count_failed_indexes(total)

    def _count_failed_indexes(self, total: int) -> None:
        self.failed_indexes = ix.parse(self.status.get("failedIndexes"), total)
        busy = ix.active_indexes(self.pods, total) | self.succeeded_indexes
        for pod in self.pods:
            index = ix.index_of(pod, total)
            if index is None or not self._failed(pod):
                continue
            verdict = judge(self.policy, pod)
            exhausted = verdict.counts and ix.failure_count(pod) >= int(self.per_index or 0)
            if verdict.action == "FailIndex" or exhausted:
                self.failed_indexes.add(index)
        for pod in self.pods:
            index = ix.index_of(pod, total)
            if (
                index is None
                or not self._failed(pod)
                or index in busy
                or index in self.failed_indexes
            ):
                continue
            # The newest failure of an index keeps its finalizer until its successor is made: the
            # successor's annotation takes over the count.
            other = self.delayed.get(index)
            if other is None or _failures(other) <= _failures(pod):
                self.delayed[index] = pod

    def _judge(self) -> None:
        """Whether the Job is decided, and why."""
        spec = self.job.spec
        for kind in ("SuccessCriteriaMet", "FailureTarget"):
            condition = find_condition(self.conditions, kind)
            if condition is not None and condition.get("status") == "True":
                self._decide(kind, condition.get("reason", ""), condition.get("message", ""))
                return
        for pod in self.pods:
            if self.policy and self._failed(pod):
                verdict = judge(self.policy, pod)
                if verdict.action == "FailJob":
                    self._decide("FailureTarget", "PodFailurePolicy", verdict.message)
                    return
        limit = spec.get("backoffLimit", 6 if self.per_index is None else 2**31 - 1)
        deadline = self._deadline()
        if self.failed > limit or self._restarted_too_often(limit):
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
            self._look_again(deadline)
        if self.finish is None and self.indexed:
            self._judge_indexes()

    def _judge_indexes(self) -> None:
        total = self.completions or 0
        if self.per_index is not None:
            highest = self.job.spec.get("maxFailedIndexes")
            done = len(self.failed_indexes) + len(self.succeeded_indexes)
            if highest is not None and len(self.failed_indexes) > highest:
                self._decide(
                    "FailureTarget",
                    "MaxFailedIndexesExceeded",
                    "Job has exceeded the specified maximal number of failed indexes",
                )
            elif self.failed_indexes and done >= total:
                self._decide("FailureTarget", "FailedIndexes", "Job has failed indexes")
        if self.finish is None:
            message = success_message(
                self.job.spec.get("successPolicy"), self.succeeded_indexes, total
            )
            if message is not None:
                self._decide("SuccessCriteriaMet", "SuccessPolicy", message)

    def _stop_active(self) -> None:
        """The decision is made: no pod goes on."""
        for pod in self.active:
            self._delete(pod, release="")

    def _run(self) -> None:
        managed = not self.deleting
        if managed:
            self._manage()
        wanted = self.completions
        complete = self.succeeded > 0 if wanted is None else self.succeeded >= wanted
        if complete and self.active_count == 0:
            self._decide(
                "SuccessCriteriaMet",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            )
        elif managed:
            self._note_suspension()

    def _manage(self) -> None:
        """Bring the number of active pods to what is wanted: deletions first, else creations."""
        for pod in [pod for pod in self.active if not is_tracked(pod)]:
            # Its finalizer went so that it could be deleted, which did not happen: nobody would
            # count what it achieves.
            self.active.remove(pod)
            self._delete(pod, release="")
        if self.suspended:
            for pod in self.active:
                self._delete(pod, release=TRACKING)
            return
        if self.completions is None:
            wanted = self.active_count if self.succeeded else self.parallelism
        else:
            wanted = max(0, min(self.completions - self.succeeded, self.parallelism))
        surplus = self._surplus(max(0, self.active_count - wanted))[:MAX_PODS_PER_STEP]
        for pod in surplus:
            self._delete(pod, release=TRACKING)
        terminating = self.terminating if self.only_failed else 0
        missing = min(wanted - terminating - self.active_count, MAX_PODS_PER_STEP)
        if not self.plan.delete and missing > 0:
            self._create(missing)

    def _surplus(self, at_least: int) -> list[AnyObject]:
        surplus: list[AnyObject] = []
        rest = self.active
        if self.indexed:
            rest = []
            owners: dict[int, AnyObject] = {}
            for pod in sorted(self.active, key=facts.removal_order, reverse=True):
                index = ix.index_of(pod, self.completions or 0)
                if index is None or owners.setdefault(index, pod) is not pod:
                    surplus.append(pod)
                else:
                    rest.append(pod)
        if len(surplus) < at_least:
            surplus += sorted(rest, key=facts.removal_order)[: at_least - len(surplus)]
        return surplus

    def _create(self, count: int) -> None:
        if self.per_index is None:
            wait = self.plan.backoff.remaining(self.now)
            if wait > 0:
                self._look_again(self.now + wait)
                return
        if not self.indexed:
            self.plan.create += [pod_of(self.job) for _ in range(count)]
            self.active_count += count
            return
        total = self.completions or 0
        taken = self.succeeded_indexes | self.failed_indexes
        taken |= ix.active_indexes(self.active, total)
        if self.only_failed:
            found = (
                ix.index_of(pod, total)
                for pod in self.pods
                if facts.is_terminating(pod) and not facts.is_finished(pod)
            )
            taken |= {index for index in found if index is not None}
        for index in ix.first_missing(taken, count, total):
            before = self.delayed.get(index)
            if before is not None:
                ended = facts.finished_at(before)
                wait = remaining(
                    ix.failure_count(before) + 1, self.now if ended is None else ended, self.now
                )
                if wait > 0:
                    self._look_again(self.now + wait)
                    continue
            self.plan.create.append(self._indexed_pod(index, before))
            self.active_count += 1

    def _indexed_pod(self, index: int, before: AnyObject | None) -> dict[str, Any]:
        annotations = {}
        if self.per_index is not None:
            failures = ignored = 0
            if before is not None:
                excused = not judge(self.policy, before).counts
                failures = ix.failure_count(before) + (not excused)
                ignored = ix.ignored_failure_count(before) + excused
            annotations[ix.INDEX_FAILURES] = str(failures)
            if ignored:
                annotations[ix.INDEX_IGNORED_FAILURES] = str(ignored)
        return pod_of(self.job, index, annotations)

    def _note_suspension(self) -> None:
        seen = find_condition(self.conditions, "Suspended")
        was = seen is not None and seen.get("status") == "True"
        if self.suspended and not was:
            self._condition("Suspended", True, "JobSuspended", "Job suspended")
            self.status.pop("startTime", None)
            self.plan.notes.append(Note("Suspended", "Job suspended"))
        elif was and not self.suspended:
            self._condition("Suspended", False, "JobResumed", "Job resumed")
            # The deadline counts the time since the Job was resumed only.
            self.status["startTime"] = format_time(self.now)
            self.plan.notes.append(Note("Resumed", "Job resumed"))

    # -- counting and status -----------------------------------------------------------------

    def _track(self) -> None:
        """Count finished pods, let go of them, and declare the Job finished when all is done."""
        tracked = {pod.metadata.uid for pod in self.pods if is_tracked(pod)}
        self._settle(tracked)
        full = self._collect(tracked)
        if self.indexed:
            self.status["succeeded"] = len(self.succeeded_indexes)
            self.status["completedIndexes"] = ix.text(self.succeeded_indexes)
            if self.per_index is not None:
                self.status["failedIndexes"] = ix.text(self.failed_indexes)
        self.status["active"] = self.active_count
        self.status["ready"] = self.ready
        self.status["terminating"] = self.terminating
        final: dict[str, str] | None = None
        if self.finish is not None:
            kind = self.finish["type"]
            self._condition(kind, True, self.finish["reason"], self.finish["message"])
            final = self.finish | {
                "type": "Failed" if kind == "FailureTarget" else "Complete",
            }
        first = self._written(self.uncounted_succeeded, self.uncounted_failed)
        # What was announced must be on record before the finalizers go.
        seen = _clean(self.job.status)
        if self.plan.release and first != seen:
            self.plan.status = seen = first
        last = self._settled()
        if final is not None and not full and self.terminating == 0:
            last = self._finished(last, final)
        if last != seen:
            self.plan.final_status = last

    def _settle(self, tracked: set[str]) -> None:
        """Fold UIDs whose finalizer is gone into the counters."""
        done_succeeded = [uid for uid in self.uncounted_succeeded if uid not in tracked]
        done_failed = [uid for uid in self.uncounted_failed if uid not in tracked]
        if not self.indexed:
            self._raise("succeeded", len(done_succeeded))
        self._raise("failed", len(done_failed))
        self.uncounted_succeeded = [uid for uid in self.uncounted_succeeded if uid in tracked]
        self.uncounted_failed = [uid for uid in self.uncounted_failed if uid in tracked]

    def _collect(self, tracked: set[str]) -> bool:
        """Put newly finished pods on record; True if there were too many for one step."""
        failing = self.finish is not None and self.finish["type"] == "FailureTarget"
        total = self.completions or 0
        counted = 0
        taken_away = {
            deletion.pod.metadata.uid for deletion in self.plan.delete if deletion.release
        }
        for pod in self.pods:
            uid = pod.metadata.uid
            if uid not in tracked or uid in taken_away or not self._may_release(pod):
                continue
            self.plan.release.append(pod)
            index = ix.index_of(pod, total) if self.indexed else None
            known = uid in self.uncounted_failed or uid in self.uncounted_succeeded
            if facts.phase(pod) == "Succeeded" and uid not in self.uncounted_failed:
                if not self.indexed and not known:
                    self.uncounted_succeeded.append(uid)
                    counted += 1
            elif (
                (self._failed(pod) or failing)
                and not known
                and (not self.indexed or index is not None)
                and judge(self.policy, pod).counts
            ):
                self.uncounted_failed.append(uid)
                counted += 1
            if counted >= MAX_UNCOUNTED:
                return True
        return False

    def _may_release(self, pod: AnyObject) -> bool:
        if self.deleting or self.finish is not None or facts.phase(pod) == "Succeeded":
            return True
        if not self._failed(pod):
            return False
        index = ix.index_of(pod, self.completions or 0) if self.indexed else None
        delayed = self.delayed.get(index) if index is not None else None
        return delayed is None or delayed.metadata.uid != pod.metadata.uid

    def _written(self, succeeded: list[str], failed: list[str]) -> dict[str, Any]:
        uncounted = {"succeeded": list(succeeded), "failed": list(failed)}
        status = self.status | {
            "uncountedTerminatedPods": {key: value for key, value in uncounted.items() if value},
        }
        if self.conditions:
            status["conditions"] = list(self.conditions)
        return _clean(status)

    def _settled(self) -> dict[str, Any]:
        """The status after the finalizers of `plan.release` are gone."""
        gone = {pod.metadata.uid for pod in self.plan.release}
        if not self.indexed:
            self._raise("succeeded", sum(uid in gone for uid in self.uncounted_succeeded))
        self._raise("failed", sum(uid in gone for uid in self.uncounted_failed))
        return self._written(
            [uid for uid in self.uncounted_succeeded if uid not in gone],
            [uid for uid in self.uncounted_failed if uid not in gone],
        )

    def _finished(self, status: dict[str, Any], final: dict[str, str]) -> dict[str, Any]:
        if any(status["uncountedTerminatedPods"].values()):
            return status
        self._condition(final["type"], True, final["reason"], final["message"])
        status["conditions"] = list(self.conditions)
        if final["type"] == "Complete":
            status["completionTime"] = format_time(self.now)
            if self.completions is not None and status.get("succeeded", 0) > self.completions:
                self.plan.notes.append(
                    Note(
                        "TooManySucceededPods",
                        "Too many succeeded pods running after completion count reached",
                        "Warning",
                    )
                )
            self.plan.notes.append(Note("Completed", "Job completed"))
        else:
            self.plan.notes.append(Note(final["reason"], final["message"], "Warning"))
        self.plan.look_again_at = None
        return status

    # -- small things ------------------------------------------------------------------------

    def _is_new(self, pod: AnyObject) -> bool:
        """Finished and not in the counters yet (it may be on the list of the uncounted)."""
        if not is_tracked(pod):
            return False
        return not self.indexed or ix.index_of(pod, self.completions or 0) is not None

    def _failed(self, pod: AnyObject) -> bool:
        """Failed, or deleted by somebody before it could end (unless the Job waits for that)."""
        state = facts.phase(pod)
        if state == "Failed":
            return True
        return not self.only_failed and facts.is_terminating(pod) and state != "Succeeded"

    def _deadline(self) -> float | None:
        seconds, start = self.job.spec.get("activeDeadlineSeconds"), self.status.get("startTime")
        if seconds is None or start is None or self.suspended:
            return None
        return parse_time(start) + float(seconds)

    def _restarted_too_often(self, limit: int) -> bool:
        """With `restartPolicy: OnFailure` it is the kubelet that tries again, in the same pod."""
        template = self.job.spec.get("template") or {}
        if (template.get("spec") or {}).get("restartPolicy") != "OnFailure":
            return False
        count = sum(
            facts.restarts(pod) for pod in self.pods if facts.phase(pod) in {"Running", "Pending"}
        )
        return count > 0 if limit == 0 else count >= limit

    def _decide(self, kind: str, reason: str, message: str) -> None:
        self.finish = {"type": kind, "reason": reason, "message": message}

    def _condition(self, kind: str, status: bool, reason: str, message: str) -> None:
        self.conditions = set_condition(
            self.conditions,
            kind,
            status,
            reason,
            message,
            now=self.now,
            extra_times=("lastProbeTime",),
        )

    def _delete(self, pod: AnyObject, *, release: str) -> None:
        tracked = release and is_tracked(pod)
        self.plan.delete.append(Deletion(pod, release if tracked else ""))
        self.active_count -= 1
        self.terminating += 1
        self.ready -= facts.is_ready(pod)

    def _raise(self, counter: str, by: int) -> None:
        if by:
            self.status[counter] = int(self.status.get(counter) or 0) + by

    def _look_again(self, moment: float) -> None:
        known = self.plan.look_again_at
        self.plan.look_again_at = moment if known is None else min(known, moment)


def pod_of(
    job: AnyObject, index: int | None = None, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    """A pod of the Job; for an Indexed Job the one that works on `index`."""
    template = job.spec.get("template") or {}
    name, uid = job.metadata.name, job.metadata.uid
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec: dict[str, Any] = {}
    base = facts.generated_base(name)
    if index is not None:
        labels[ix.INDEX] = str(index)
        annotations = {ix.INDEX: str(index)} | (annotations or {})
        spec["hostname"] = f"{name}-{index}"
        base = facts.generated_base(name, f"-{index}-")
        variable = {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{ix.INDEX}']"}},
        }
        for key in ("containers", "initContainers"):
            if containers := (template.get("spec") or {}).get(key):
                spec[key] = facts.with_environment(containers, variable)
    return facts.from_template(
        template,
        namespace=job.metadata.namespace,
        owner=owner_reference(job, JOBS),
        generate_name=base,
        labels=labels,
        annotations=annotations,
        finalizers=(TRACKING,),
        spec=spec,
    )


def _failures(pod: AnyObject) -> int:
    return ix.failure_count(pod) + ix.ignored_failure_count(pod)


def _clean(status: dict[str, Any]) -> dict[str, Any]:
    """Counters at zero are left out, as upstream's encoding does."""
    return {
        key: value
        for key, value in status.items()
        if not (key in {"active", "succeeded", "failed"} and not value)
        and not (key == "completedIndexes" and not value)
    }
