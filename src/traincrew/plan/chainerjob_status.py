"""The status of a ChainerJob: the numbers in it, and how it is put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.chainerjob import MASTER
from traincrew.plan import lifecycle, podrecords
from traincrew.plan.chainerjob_children import LABEL_SET
from traincrew.plan.lifecycle import ReplicaStatus, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.plan.chainerjob_facts import Facts
    from traincrew.plan.model import PodView


def counted(facts: Facts, wanted: Mapping[str, int]) -> Status:
    """The stored status with the numbers of this look."""
    prefix = facts.names.workers("")
    places: dict[str, list[PodView]] = {MASTER: facts.master_pods}
    for name, replicas in wanted.items():
        places.update({f"{name}-{index}": [] for index in range(replicas)})
    for pod in facts.worker_pods:
        places.setdefault(pod.metadata.name.removeprefix(prefix), []).append(pod)
    records, new = podrecords.count_restarts(podrecords.read(facts.stored.pod_records), places)

    before = facts.stored.replica_statuses
    master = before.get(MASTER, ReplicaStatus())
    job = facts.job.status if facts.job is not None else {}
    start = facts.stored.start_time
    if start is None and facts.job is not None and facts.job.finished:
        start = facts.job_start()  # it began and ended between two looks
    statuses = {
        MASTER: msgspec.structs.replace(
            _numbers(facts.master_pods, master.restarts + new[MASTER]),
            succeeded=max(master.succeeded or 0, int(job.get("succeeded") or 0)),
            failed=max(master.failed or 0, int(job.get("failed") or 0)),
        )
    }
    by_set: dict[str, list[PodView]] = {name: [] for name in sorted(wanted)}
    for pod in facts.worker_pods:
        by_set.setdefault(pod.metadata.labels.get(LABEL_SET, ""), []).append(pod)
    if facts.stored.finished:
        by_set = {name: by_set.get(name, []) for name in (*before, *by_set) if name != MASTER}
    for name, members in by_set.items():
        restarts = before.get(name, ReplicaStatus()).restarts
        restarts += sum(new[pod.metadata.name.removeprefix(prefix)] for pod in members)
        statuses[name] = _numbers(members, restarts)
    ready = sum(status.ready for name, status in statuses.items() if name != MASTER)
    total = sum(wanted.values())
    return msgspec.structs.replace(
        facts.stored,
        start_time=start,
        replica_statuses=statuses,
        pod_records=podrecords.texts(records),
        restarts=facts.stored.restarts + sum(new.values()),
        workers_ready=f"{min(ready, total)}/{total}" if len(statuses) > 1 else "",
    )


def document(facts: Facts, status: Status) -> dict[str, Any]:
    """The whole status: the Job's own, which is the contract, with the shared part over it."""
    if facts.stored.finished or facts.job is None:
        base = facts.observed.job.status if facts.stored.finished else {}
    else:
        base = facts.job.status
    shared = lifecycle.document(status)
    others = [
        condition
        for condition in base.get("conditions", [])
        if condition.get("type") not in lifecycle.OWN_CONDITIONS
    ]
    replaced = {"startTime", "completionTime", *Status.__struct_encode_fields__}
    kept = {name: value for name, value in base.items() if name not in replaced}
    return {
        "restarts": 0,
        **kept,
        **shared,
        "conditions": [*shared.get("conditions", []), *others],
    }


def _numbers(members: list[PodView], restarts: int) -> ReplicaStatus:
    return ReplicaStatus(
        active=sum(pod.active for pod in members),
        ready=sum(pod.ready for pod in members),
        restarts=restarts,
    )
