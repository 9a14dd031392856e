"""The status of a ChainerJob: its counts, and how it is assembled."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.chainerjob.types import MASTER
from traincrew.plan.chainerjob.children import LABEL_SET
from traincrew.plan.shared import lifecycle, podrecords
from traincrew.plan.shared.lifecycle import ReplicaStatus, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.plan.chainerjob.edits import Edits
    from traincrew.plan.chainerjob.observed import ObservedJob
    from traincrew.plan.shared.views import ObservedPod


def status_with_counts(
    current: ObservedJob,
    wanted: Mapping[str, int],
    edits: Edits | None = None,
    slots: Mapping[str, int] = MappingProxyType({}),
) -> Status:
    """Return the stored status with the counts of this reconcile.

    Args:
        current: The children and pods.
        wanted: Desired number of workers, by set.
        edits: What the spec requires of the existing pods; None if nothing.
        slots: MPI slots of each pod, of the master and by set; those in the status by default.
    """
    # Over 60 lines: the counts depend on each other.
    before = podrecords.read(current.stored.pod_records)
    if edits is not None and current.observed.confirmed:
        before = podrecords.unrelease(before, edits.staying)
    places: dict[str, list[ObservedPod]] = {MASTER: []}
    # A pod that is not in the cache may exist, so its record stays. It is dropped when its whole
    # set is gone from the spec and from the API server.
    places.update(
        {
            place: []
            for place in before
            if not current.observed.confirmed or place.rpartition("-")[0] in wanted
        }
    )
    for name, replicas in wanted.items():
        places.update({f"{name}-{index}": [] for index in range(replicas)})
    places.update(current.by_place())
    records, new = podrecords.count_restarts(before, places)
    if edits is not None:
        records = podrecords.release(records, edits.ending)

    numbers = current.stored.replica_statuses
    master = numbers.get(MASTER, ReplicaStatus())
    job = current.job.status if current.job is not None else {}
    start = current.stored.start_time
    if start is None and current.job is not None and current.job.finished:
        start = current.job_start()  # it began and ended between two reconciles
    statuses = {
        MASTER: msgspec.structs.replace(
            _numbers(current.master_pods, master.restarts + new[MASTER]),
            succeeded=max(master.succeeded or 0, int(job.get("succeeded") or 0)),
            failed=max(master.failed or 0, int(job.get("failed") or 0)),
            slots=slots.get(MASTER, master.slots),
        )
    }
    by_set: dict[str, list[ObservedPod]] = {name: [] for name in sorted(wanted)}
    for pod in current.worker_pods:
        by_set.setdefault(pod.metadata.labels.get(LABEL_SET, ""), []).append(pod)
    if current.stored.finished:
        by_set = {name: by_set.get(name, []) for name in (*numbers, *by_set) if name != MASTER}
    for name, members in by_set.items():
        before_it = numbers.get(name, ReplicaStatus())
        restarts = before_it.restarts + sum(new[current.place_of(pod)] for pod in members)
        statuses[name] = msgspec.structs.replace(
            _numbers(members, restarts), slots=slots.get(name, before_it.slots)
        )
    ready = sum(status.ready for name, status in statuses.items() if name != MASTER)
    total = sum(wanted.values())
    return msgspec.structs.replace(
        current.stored,
        start_time=start,
        replica_statuses=statuses,
        pod_records=podrecords.texts(records),
        restarts=current.stored.restarts + sum(new.values()),
        workers_ready=f"{min(ready, total)}/{total}" if len(statuses) > 1 else "",
    )


def document(current: ObservedJob, status: Status) -> dict[str, Any]:
    """Return the whole status: the Job's own (the contract), overlaid by the shared part."""
    if current.stored.finished or current.job is None:
        base = current.observed.job.status if current.stored.finished else {}
    else:
        base = current.job.status
    shared = lifecycle.document(status)
    others = [
        condition
        for condition in base.get("conditions", [])
        if not Status.owns(condition.get("type", ""))
    ]
    replaced = {"startTime", "completionTime", *Status.__struct_encode_fields__}
    kept = {name: value for name, value in base.items() if name not in replaced}
    return {
        "restarts": 0,
        **kept,
        **shared,
        "conditions": [*shared.get("conditions", []), *others],
    }


def _numbers(members: list[ObservedPod], restarts: int) -> ReplicaStatus:
    return ReplicaStatus(
        active=sum(pod.active for pod in members),
        ready=sum(pod.ready for pod in members),
        restarts=restarts,
    )
