"""The status of an ElasticJob: its counts, and how it is assembled."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from traincrew.api.kinds.elasticjob.types import WORKER
from traincrew.api.meta import format_time
from traincrew.plan.elasticjob.children import LABEL_TYPE, selector
from traincrew.plan.elasticjob.fit import FITTED, Fit
from traincrew.plan.shared import podrecords
from traincrew.plan.shared.lifecycle import Status
from traincrew.plan.shared.replicas import counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traincrew.api.kinds.elasticjob.types import ElasticJobSpec
    from traincrew.plan.elasticjob.observed import ObservedJob
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
    failures = counts.record_failures(current, records) if wanted else 0

    types = spec.replica_specs if spec is not None else stored.replica_statuses
    statuses = {
        name: counts.numbers(name, _members(current, name), stored, new, selector(job, name))
        for name in sorted(types)
    }
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


def _members(current: ObservedJob, name: str) -> list[ObservedPod]:
    lower = name.lower()
    return [pod for pod in current.pods.values() if pod.metadata.labels.get(LABEL_TYPE) == lower]
