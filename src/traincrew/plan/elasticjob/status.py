"""The status of an ElasticJob: its counts, and how it is assembled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from traincrew.api.kinds.elasticjob.types import WORKER
from traincrew.api.meta import format_time
from traincrew.plan.elasticjob.children import LABEL_TYPE, selector
from traincrew.plan.elasticjob.fit import FITTED, Fit
from traincrew.plan.elasticjob.observed import FAILURES, ObservedJob, State
from traincrew.plan.shared import lifecycle, podrecords
from traincrew.plan.shared.lifecycle import ReplicaStatus, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from traincrew.api.kinds.elasticjob.types import ElasticJobSpec
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.views import ObservedPod


class ElasticJobStatus(Status, rename="camel", kw_only=True, omit_defaults=True):
    """``status`` of an ElasticJob."""

    more_conditions: ClassVar[tuple[str, ...]] = (FITTED,)

    min_replicas: int = 0
    max_replicas: int = 0
    """Limits that the workers' launchers have; 0 as long as no worker was to be created."""
    failures: int = 0
    """Number of failed pods that were recreated; all workers that made no progress count as one."""
    fit: Fit | None = None
    """Workers given up because they could not be scheduled."""
    last_scale_in_time: str = ""
    """When workers were last asked to terminate because replicas was lowered."""


def status_with_counts(
    current: ObservedJob,
    stored: ElasticJobStatus,
    before: Mapping[str, PodRecord],
    job: str,
    spec: ElasticJobSpec | None,
    *,
    wanted: bool = True,
) -> ElasticJobStatus:
    """Return the stored status, with `before` as its records and the counts of this reconcile.

    Pods that are no longer desired are marked as released, and deleted once the mark is stored.
    """
    places: dict[str, list[ObservedPod]] = {}
    if wanted:
        places = {place.key: [] for place in current.places}
    kept = set(places)
    for pod in current.pods.values():
        places.setdefault(current.place_of(pod), []).append(pod)
    records, new = podrecords.count_restarts(before, places)
    unwanted = records.keys() - kept
    scaled_in = wanted and spec is not None and _is_scaled_in(records, unwanted, places)
    records = podrecords.release(records, unwanted)
    failures = _record_failures(current, records) if wanted else 0

    types = spec.replica_specs if spec is not None else stored.replica_statuses
    statuses = {name: _numbers(name, job, current, stored, new) for name in sorted(types)}
    ready = statuses[WORKER].ready if WORKER in statuses else 0
    total = int(stored.workers_ready.rpartition("/")[2] or 0)
    if spec is not None:
        total = spec.replica_specs[WORKER].replicas if wanted and WORKER in types else 0
    return msgspec.structs.replace(
        stored,
        replica_statuses=statuses,
        pod_records=podrecords.texts(records),
        restarts=stored.restarts + sum(new.values()),
        min_replicas=(spec.min_replicas if wanted and spec else None) or stored.min_replicas,
        max_replicas=(spec.max_replicas if wanted and spec else None) or stored.max_replicas,
        failures=stored.failures + failures,
        fit=stored.fit if wanted else None,
        last_scale_in_time=format_time(current.now) if scaled_in else stored.last_scale_in_time,
        workers_ready=f"{min(ready, total)}/{total}",
    )


def _is_scaled_in(
    records: Mapping[str, PodRecord],
    unwanted: Iterable[str],
    places: Mapping[str, list[ObservedPod]],
) -> bool:
    """Decide whether running pods are about to be deleted because their place is not desired."""
    return any(
        pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        for key in unwanted
        if not records[key].released
        for pod in places.get(key, ())
    )


def _record_failures(current: ObservedJob, records: dict[str, PodRecord]) -> int:
    """Record the failures that have not been counted yet; return how many.

    The pods are kept until that is stored, because only they show it. Pods that failed for good are
    recorded as well, so that their exit code is reported once.
    """
    found = 0
    for place, state in current.states.items():
        record = records.get(place.key)
        if state in FAILURES and record is not None and not record.failed:
            pod = current.pod(place)
            assert pod is not None
            if podrecords.is_of(record, pod):
                counts = state is State.RETRYABLE
                found += counts
                records[place.key] = msgspec.structs.replace(
                    record, failed=True, failures=record.failures + counts
                )
    return found


def _numbers(
    name: str, job: str, current: ObservedJob, stored: Status, new: Mapping[str, int]
) -> ReplicaStatus:
    lower = name.lower()
    members = [pod for pod in current.pods.values() if pod.metadata.labels.get(LABEL_TYPE) == lower]
    before = stored.replica_statuses.get(name, ReplicaStatus())
    succeeded, failed = _in_phase("Succeeded", members), _in_phase("Failed", members)
    if stored.finished:  # pods that are cleaned up keep counting
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


def _in_phase(phase: str, pods: Iterable[ObservedPod]) -> int:
    return sum(pod.status.phase == phase for pod in pods)


def document(status: Status, before: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the status as plain data, with ``lastUpdateTime`` in its conditions."""
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
