"""The status of an ElasticJob: the numbers in it, and how it is put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.elasticjob import WORKER
from traincrew.api.meta import format_time
from traincrew.plan import lifecycle, podrecords
from traincrew.plan.elasticjob_children import LABEL_TYPE, selector
from traincrew.plan.elasticjob_facts import TO_REPLACE, Facts, State
from traincrew.plan.lifecycle import ReplicaStatus, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from traincrew.api.elasticjob import ElasticJobSpec
    from traincrew.plan.model import PodView
    from traincrew.plan.podrecords import PodRecord


def counted(
    facts: Facts,
    stored: Status,
    before: Mapping[str, PodRecord],
    job: str,
    spec: ElasticJobSpec | None,
    *,
    wanted: bool = True,
) -> Status:
    """The stored status, with its records as `before`, with the numbers of this look."""
    places: dict[str, list[PodView]] = {}
    if wanted:
        places = {place.key: [] for place in facts.places}
    for pod in facts.pods.values():
        if (place := facts.place_of(pod)) not in facts.absent:
            places.setdefault(place, []).append(pod)
    records, new = podrecords.count_restarts(before, places)
    failures = _note_failures(facts, records) if wanted else 0

    types = spec.replica_specs if spec is not None else stored.replica_statuses
    statuses = {name: _numbers(name, job, facts, stored, new) for name in sorted(types)}
    ready = statuses[WORKER].ready if WORKER in statuses else 0
    total = int(stored.workers_ready.rpartition("/")[2] or 0)
    if spec is not None:
        total = spec.replica_specs[WORKER].replicas if wanted and WORKER in types else 0
    return msgspec.structs.replace(
        stored,
        replica_statuses=statuses,
        pod_records=podrecords.texts(records),
        restarts=stored.restarts + sum(new.values()),
        failures=stored.failures + failures,
        fit=stored.fit if wanted else None,
        workers_ready=f"{min(ready, total)}/{total}",
    )


def _note_failures(facts: Facts, records: dict[str, PodRecord]) -> int:
    """Count the failures that have not been counted yet; returns how many.

    The pods stay until that is stored: they are the only ones who know. Those that failed for good
    are noted, too, so that it is told once.
    """
    found = 0
    for place, state in facts.states.items():
        record = records.get(place.key)
        told = state is State.FAILED or state in TO_REPLACE
        if told and record is not None and not record.failed:
            pod = facts.pod(place)
            assert pod is not None
            if podrecords.is_of(record, pod):
                found += state is State.AGAIN
                records[place.key] = msgspec.structs.replace(record, failed=True)
    return found


def _numbers(
    name: str, job: str, facts: Facts, stored: Status, new: Mapping[str, int]
) -> ReplicaStatus:
    lower = name.lower()
    members = [pod for pod in facts.pods.values() if pod.metadata.labels.get(LABEL_TYPE) == lower]
    before = stored.replica_statuses.get(name, ReplicaStatus())
    succeeded, failed = _in_phase("Succeeded", members), _in_phase("Failed", members)
    if stored.finished:  # what is taken away now has ended all the same
        succeeded = max(succeeded, before.succeeded or 0)
        failed = max(failed, before.failed or 0)
    return ReplicaStatus(
        active=_in_phase("Running", members),
        ready=sum(pod.ready for pod in members),
        succeeded=succeeded,
        failed=failed,
        restarts=before.restarts
        + sum(count for key, count in new.items() if key.rpartition("-")[0] == lower),
        selector=",".join(f"{key}={value}" for key, value in selector(job, name).items()),
    )


def _in_phase(phase: str, pods: Iterable[PodView]) -> int:
    return sum(pod.status.phase == phase for pod in pods)


def document(status: Status, before: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The status as plain data; its conditions also say when they were last written."""
    plain = {"restarts": 0, **lifecycle.document(status)}
    stored = {condition["type"]: condition for condition in before.get("conditions", [])}
    for condition in plain.get("conditions", []):
        old = stored.get(condition["type"], {})
        same = all(
            old.get(name, "") == condition.get(name, "") for name in ("status", "reason", "message")
        )
        updated = old.get("lastUpdateTime") if same else None
        condition["lastUpdateTime"] = updated or format_time(now)
    return plain
