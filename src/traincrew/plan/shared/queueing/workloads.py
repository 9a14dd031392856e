"""The Workload of a job: what it looks like, and how its status is written.

Kueue lets the controller of a job write these conditions. What is written when is the contract of
its own job controllers (`pkg/controller/jobframework/reconciler.go`).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from traincrew.api.meta import format_time, parse_time
from traincrew.plan.shared.model import FINGERPRINT, QueueWrite
from traincrew.plan.shared.queueing import kueue, podsets, standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from traincrew.api.meta import ObjectMeta, Owner
    from traincrew.plan.shared.model import Priority
    from traincrew.plan.shared.queueing.podsets import PodSet
    from traincrew.plan.shared.views import WorkloadView

Document = dict[str, Any]
_MAX_NAME = 63
_HASH = 5
_MAX_MESSAGE = 1024


def name_of(owner: Owner, after: str = "") -> str:
    """Return the name of the Workload of a job, as Kueue would choose it.

    Source: `pkg/controller/jobframework/workload_names.go`.

    Args:
        owner: The job.
        after: Name of the Workload that it replaces; empty for the first one.
    """
    group = owner.api_version.rpartition("/")[0]
    text = f"{owner.kind}\n{group}\n{owner.name}\n{owner.uid}" + (f"\n{after}" if after else "")
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:_HASH]
    return f"{f'{owner.kind.lower()}-{owner.name}'[: _MAX_NAME - 1 - _HASH]}-{digest}"


def prebuilt_name(metadata: ObjectMeta) -> str:
    """Return the name of the Workload that MultiKueue has made for a job; empty for others.

    Source: `PrebuiltWorkloadNameFor` of `pkg/controller/jobframework/utils.go`.
    """
    return metadata.labels.get(kueue.PREBUILT) or metadata.annotations.get(kueue.PREBUILT, "")


def create(
    owner: Owner, queue: str, pods: Sequence[PodSet], priority: Priority | None
) -> QueueWrite:
    """Return the write that creates the Workload of a job."""
    spec: Document = {"queueName": queue, "podSets": [podsets.document(each) for each in pods]}
    if (seconds := max_seconds(owner.labels)) is not None:
        spec["maximumExecutionTimeSeconds"] = seconds
    document = {
        "apiVersion": kueue.API_VERSION,
        "kind": kueue.WORKLOAD,
        "metadata": {
            "name": name_of(owner),
            "namespace": owner.namespace,
            "labels": _labels(owner),
            "annotations": {FINGERPRINT: podsets.fingerprint(pods)},
            "finalizers": [kueue.IN_USE],
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": spec | _priority(priority),
    }
    return QueueWrite(create=document)


def _labels(owner: Owner) -> dict[str, str]:
    return {kueue.JOB_UID: owner.uid, kueue.MANAGED: owner.kind.lower()}


def adopt(owner: Owner, found: WorkloadView) -> QueueWrite:
    """Return the write after which a Workload that MultiKueue has made belongs to its job."""
    metadata = {
        "labels": _labels(owner),
        "finalizers": [*found.finalizers, kueue.IN_USE],
        "ownerReferences": [owner.owner_reference()],
    }
    return QueueWrite(found=found, patch={"metadata": metadata})


def out_of_sync(found: WorkloadView, now: datetime) -> QueueWrite:
    """Return the write that ends a Workload which asks for something else than its job."""
    text = "The prebuilt workload is out of sync with its user job"
    return Conditions(found, now).set(kueue.FINISHED, True, kueue.OUT_OF_SYNC, text).write()


def _priority(priority: Priority | None) -> Document:
    if priority is None:
        return {}
    if not priority.name:
        return {"priority": priority.value}
    ref = {"group": priority.group, "kind": priority.kind, "name": priority.name}
    return {"priorityClassRef": ref, "priority": priority.value}


def max_seconds(labels: Mapping[str, str]) -> int | None:
    """Return for how long a job may be admitted, by its label; None for no limit."""
    text = labels.get(kueue.MAX_SECONDS, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def updates(
    owner: Owner,
    found: WorkloadView,
    queue: str,
    pods: Sequence[PodSet],
    priority: Priority | None,
) -> list[QueueWrite]:
    """Return the write after which a Workload without quota asks for what its job asks for."""
    spec: Document = {}
    wanted = podsets.fingerprint(pods)
    if found.metadata.annotations.get(FINGERPRINT) != wanted or not same_counts(found, pods):
        spec["podSets"] = [podsets.document(each) for each in pods]
    if found.spec.get("queueName") != queue:
        spec["queueName"] = queue
    if found.spec.get("maximumExecutionTimeSeconds") != max_seconds(owner.labels):
        spec["maximumExecutionTimeSeconds"] = max_seconds(owner.labels)
    for name, value in _priority(priority).items():
        if found.spec.get(name) != value:
            spec[name] = value
    if not spec:
        return []
    patch: Document = {"spec": spec}
    if "podSets" in spec:
        # One that has replaced another may not be admitted partially before it says so no more.
        stated = (kueue.ELASTIC, kueue.REPLACES)
        removed = {name: None for name in stated if name in found.metadata.annotations}
        patch["metadata"] = {"annotations": {FINGERPRINT: wanted, **removed}}
    return [QueueWrite(found=found, patch=patch)]


def same_counts(found: WorkloadView, pods: Sequence[PodSet]) -> bool:
    """Return whether a Workload asks for these numbers of pods."""
    asked = [(each["name"], each.get("count"), each.get("minCount")) for each in _pod_sets(found)]
    return asked == [(each.name, each.count, each.least_count) for each in pods]


def _pod_sets(found: WorkloadView) -> list[Document]:
    sets: list[Document] = found.spec.get("podSets") or []
    return sets


def asked(found: WorkloadView) -> dict[str, int]:
    """Return the numbers of pods that a Workload asks for."""
    return {each["name"]: each.get("count", 1) for each in _pod_sets(found)}


def reclaimed(found: WorkloadView) -> dict[str, int]:
    """Return how many pods of a Workload need no quota any more."""
    return {each["name"]: each["count"] for each in found.status.get("reclaimablePods") or ()}


# -- its conditions -------------------------------------------------------------------------------


def condition(found: WorkloadView, kind: str) -> Document | None:
    """Return a condition of a Workload."""
    return standing.condition(found.status, kind)


def holds(found: WorkloadView, kind: str) -> bool:
    """Return whether a condition of a Workload is true."""
    return standing.holds(found.status, kind)


def is_on_hold(found: WorkloadView) -> bool:
    """Return whether the operator has taken a Workload out of its queue."""
    stated = condition(found, kueue.QUOTA_RESERVED)
    return (
        stated is not None
        and stated.get("status") == "False"
        and stated.get("reason") == kueue.ON_HOLD
    )


class Conditions:
    """Changes of the conditions of a Workload.

    Args:
        found: The Workload.
        now: The time.
    """

    def __init__(self, found: WorkloadView, now: datetime) -> None:
        self._found = found
        self._now = now
        self._all: dict[str, Document] = {
            each["type"]: each for each in found.status.get("conditions") or ()
        }

    def set(self, kind: str, status: bool, reason: str, message: str) -> Conditions:
        """Set a condition; its time changes with its status only."""
        text, before = str(status), self._all.get(kind, {})
        time = before.get("lastTransitionTime")
        if before.get("status") != text or not time:
            time = format_time(self._now)
        self._all[kind] = {
            "type": kind,
            "status": text,
            "reason": reason,
            "message": message[:_MAX_MESSAGE],
            "lastTransitionTime": time,
            "observedGeneration": self._found.metadata.generation,
        }
        return self

    def write(self, **status: Any) -> QueueWrite:
        """Return the write of these conditions, with other fields of the status."""
        return QueueWrite(
            found=self._found, status={"conditions": list(self._all.values()), **status}
        )


def release(found: WorkloadView, now: datetime, reason: str, message: str) -> QueueWrite:
    """Return the write that gives the quota of a Workload back.

    Args:
        found: The Workload.
        now: The time.
        reason: Why it has none then.
        message: The same for people.
    """
    changes = Conditions(found, now)
    evicted = condition(found, kueue.EVICTED)
    if evicted is not None and evicted.get("status") == "True":
        # Others are put back into the queue by Kueue, when the time has come.
        at_once = evicted.get("reason") in {kueue.PREEMPTED, kueue.NODE_FAILURES}
        changes.set(kueue.REQUEUED, at_once, evicted.get("reason", ""), evicted.get("message", ""))
    status: Document = {"admission": None}
    admitted = condition(found, kueue.ADMITTED)
    if admitted is not None and admitted.get("status") == "True":
        text = "The workload has no reservation"
        changes.set(kueue.ADMITTED, False, "NoReservation", text)
        since = parse_time(admitted["lastTransitionTime"])
        before = found.status.get("accumulatedPastExecutionTimeSeconds") or 0
        seconds = max(0, int((now - since).total_seconds()))
        status["accumulatedPastExecutionTimeSeconds"] = before + seconds
    if condition(found, kueue.PODS_READY) is not None:
        changes.set(kueue.PODS_READY, False, kueue.WAIT_FOR_START, _NOT_READY)
    if found.status.get("reclaimablePods"):
        status["reclaimablePods"] = None  # all pods are created again
    changes.set(kueue.QUOTA_RESERVED, False, reason, message)
    return changes.write(**status)


_NOT_READY = "Not all pods are ready or succeeded"
_RECOVERING = "At least one pod has failed, waiting for recovery"
_READY = "All pods reached readiness and the workload is running"


def pods_ready(found: WorkloadView, now: datetime, *, ready: bool) -> QueueWrite | None:
    """Return the write that says whether the pods of an admitted Workload are ready."""
    before = condition(found, kueue.PODS_READY) or {}
    reason, recovering = before.get("reason"), {kueue.WAIT_FOR_RECOVERY, kueue.RECOVERED}
    if ready:
        wanted = kueue.RECOVERED if reason in recovering else kueue.STARTED
        text = _READY
    elif before.get("status") == "True" or reason == kueue.WAIT_FOR_RECOVERY:
        wanted, text = kueue.WAIT_FOR_RECOVERY, _RECOVERING
    else:
        wanted, text = kueue.WAIT_FOR_START, _NOT_READY
    if before.get("status") == str(ready) and reason == wanted:
        return None
    return Conditions(found, now).set(kueue.PODS_READY, ready, wanted, text).write()


def reclaim(found: WorkloadView, counts: Mapping[str, int]) -> QueueWrite | None:
    """Return the write that gives back the quota of pods that need none any more.

    Args:
        found: The Workload.
        counts: Their numbers. While quota is reserved they never decrease.
    """
    before = reclaimed(found)
    after = {name: max(count, before.get(name, 0)) for name, count in counts.items()}
    wanted = {**before, **{name: count for name, count in after.items() if count}}
    if wanted == before:
        return None
    listed = [{"name": name, "count": count} for name, count in sorted(wanted.items())]
    return QueueWrite(found=found, status={"reclaimablePods": listed})


def finish(
    found: WorkloadView, now: datetime, *, succeeded: bool, message: str
) -> list[QueueWrite]:
    """Return the writes after which a Workload is finished, and nothing holds it any more."""
    writes = []
    if not holds(found, kueue.FINISHED):
        reason = "Succeeded" if succeeded else "Failed"
        changes = Conditions(found, now).set(kueue.FINISHED, True, reason, message)
        writes.append(changes.write())
    return [*writes, *let_go(found)]


def let_go(found: WorkloadView) -> list[QueueWrite]:
    """Return the write that removes the finalizer, if it is there."""
    if kueue.IN_USE not in found.finalizers:
        return []
    left = [each for each in found.finalizers if each != kueue.IN_USE]
    return [QueueWrite(found=found, patch={"metadata": {"finalizers": left or None}})]


def delete(found: WorkloadView) -> list[QueueWrite]:
    """Return the writes that delete a Workload."""
    return [*let_go(found), QueueWrite(found=found, delete=True)]
