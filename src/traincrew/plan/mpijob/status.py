"""The status of an MPIJob: its counts, and how it is assembled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from traincrew.api.kinds.mpijob.types import LAUNCHER, WORKER, MPIJobSpec
from traincrew.plan.mpijob.children import labels
from traincrew.plan.shared import podrecords
from traincrew.plan.shared.lifecycle import ReplicaStatus
from traincrew.plan.shared.replicas import counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.plan.mpijob.observed import ObservedJob
    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.views import ObservedPod


def status_with_counts(
    current: ObservedJob,
    before: Mapping[str, PodRecord],
    job: str,
    spec: MPIJobSpec | None,
    *,
    wanted: bool = True,
) -> Status:
    """Return the stored status with the counts of this reconcile.

    Pods that are no longer desired are marked as released, and deleted once the mark is stored.

    Args:
        current: The children and pods.
        before: The records as stored.
        job: The name of the job.
        spec: The desired state; None if it no longer matters.
        wanted: Whether the job should have pods at all.
    """
    stored = current.stored
    places: dict[str, list[ObservedPod]] = {}
    if wanted:
        places[LAUNCHER] = []
        places |= {f"worker-{index}": [] for index in range(spec.workers if spec else 0)}
    kept = set(places)
    if current.master_pods:
        places[LAUNCHER] = current.master_pods
    for pod in current.worker_pods:
        places.setdefault(current.place_of(pod), []).append(pod)
    records, new = podrecords.count_restarts(before, places)
    records = podrecords.release(records, records.keys() - kept)
    selector = labels(job, WORKER)
    workers = counts.numbers(WORKER, current.worker_pods, stored, new, selector)
    total = int(stored.workers_ready.rpartition("/")[2] or 0)
    if spec is not None:
        total = spec.workers if wanted else 0
    statuses = {LAUNCHER: _launcher(current, job, new), WORKER: workers}
    waits = wanted and spec is not None and spec.launcher_creation_policy != "AtStartup"
    if waits and current.job is None and LAUNCHER not in stored.replica_statuses:
        del statuses[LAUNCHER]  # as in mpi-operator, until its Job is there
    return msgspec.structs.replace(
        stored,
        replica_statuses=statuses,
        pod_records=podrecords.texts(records),
        restarts=stored.restarts + sum(new.values()),
        workers_ready=f"{min(workers.ready, total)}/{total}",
    )


def _launcher(current: ObservedJob, job: str, new: Mapping[str, int]) -> ReplicaStatus:
    """Return the counts of the launcher; its Job counts the pods that have ended."""
    stored = current.stored
    found = counts.numbers(LAUNCHER, current.master_pods, stored, {}, labels(job, LAUNCHER))
    before = stored.replica_statuses.get(LAUNCHER, ReplicaStatus(succeeded=0, failed=0))
    succeeded, failed = before.succeeded, before.failed
    if current.job is not None:
        status = current.job.status
        succeeded, failed = int(status.get("succeeded") or 0), int(status.get("failed") or 0)
        if current.job.finished:  # its pods have ended, also if that was not seen yet
            found = msgspec.structs.replace(found, active=0, ready=0)
    return msgspec.structs.replace(
        found,
        restarts=found.restarts + new.get(LAUNCHER, 0),
        succeeded=succeeded,
        failed=failed,
    )
