"""The counts in the status of an MPICluster: pods by state, restarts, failed attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from traincrew.api.kinds.mpicluster.types import MASTER, WORKER
from traincrew.plan.mpicluster import attempts
from traincrew.plan.mpicluster.children import selector
from traincrew.plan.shared import podrecords
from traincrew.plan.shared.lifecycle import ReplicaStatus

if TYPE_CHECKING:
    from traincrew.plan.mpicluster.observed import ObservedCluster
    from traincrew.plan.mpicluster.status import MPIClusterStatus
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.views import ObservedPod


def with_counts(
    current: ObservedCluster, *, wanted: bool, replaced: bool = False
) -> MPIClusterStatus:
    """Return the stored status with the counts of this reconcile.

    Args:
        current: The children and pods.
        wanted: Whether the cluster should have pods at all.
        replaced: Whether all workers are to be replaced by others.
    """
    stored, replicas = current.stored, current.replicas if wanted else 0
    records, new = _count_restarts(current, replicas)
    ending = set(records) if not wanted else set()
    ending |= {place for place in records if _index(place) >= replicas}
    if replaced:
        ending |= {place for place in records if place.startswith(f"{WORKER}-")}
    records = podrecords.release(records, ending)
    record, failed = current.records.get(attempts.PLACE), 0
    if current.one_shot:
        record, failed = attempts.count(record, current.master)
    if record is not None:
        records[attempts.PLACE] = record
    statuses = _numbers(current, new)
    ready = statuses[WORKER].ready
    total = int(stored.workers_ready.rpartition("/")[2] or 0) if current.spec is None else replicas
    return msgspec.structs.replace(
        stored,
        ssh_key_secret_name=stored.ssh_key_secret_name if wanted else "",
        mode=current.spec.mode if current.spec is not None else stored.mode,
        replica_statuses=statuses,
        pod_records=podrecords.texts(records),
        restarts=stored.restarts + sum(new.values()),
        failures=stored.failures + failed,
        workers_ready=f"{min(ready, total)}/{total}",
    )


def _count_restarts(
    current: ObservedCluster, replicas: int
) -> tuple[dict[str, PodRecord], dict[str, int]]:
    """Return records and new restarts of the pods that exist, or have a desired place."""
    before = current.records
    if current.observed.confirmed:
        before = podrecords.unrelease(before, current.staying())
    places: dict[str, list[ObservedPod]] = {MASTER: []}
    places |= {f"{WORKER}-{index}": [] for index in range(replicas)}
    if current.spec is None:
        places |= {place: [] for place in before}
    places |= current.by_place()
    places.pop(attempts.PLACE, None)
    return podrecords.count_restarts(before, places)


def _index(place: str) -> int:
    """Return the index of a worker's place; -1 for that of the master."""
    role, _, index = place.rpartition("-")
    return int(index) if role == WORKER else -1


def _numbers(current: ObservedCluster, new: dict[str, int]) -> dict[str, ReplicaStatus]:
    before = current.stored.replica_statuses
    members = {
        MASTER: [current.master] if current.master is not None else [],
        WORKER: list(current.workers.values()),
    }
    found = {}
    for role, those in members.items():
        old = before.get(role, ReplicaStatus())
        counted = sum(
            count for place, count in new.items() if (_index(place) < 0) == (role == MASTER)
        )
        # The exit code of a pod that is being deleted is meaningless.
        kept = [pod.status.phase for pod in those if pod.metadata.deletion_timestamp is None]
        succeeded, failed = kept.count("Succeeded"), kept.count("Failed")
        if current.stored.finished:  # pods that are cleaned up keep counting
            succeeded, failed = max(succeeded, old.succeeded or 0), max(failed, old.failed or 0)
        found[role] = ReplicaStatus(
            active=sum(pod.active for pod in those),
            ready=sum(pod.ready for pod in those),
            succeeded=succeeded,
            failed=failed,
            restarts=old.restarts + counted,
            selector=_selector(current, role) if current.spec is not None else old.selector,
        )
    return found


def _selector(current: ObservedCluster, role: str) -> str:
    assert current.spec is not None
    labels = selector(current.name, current.spec, role)
    return ",".join(f"{name}={value}" for name, value in labels.items())
