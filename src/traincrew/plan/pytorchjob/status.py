"""The status of a PyTorchJob: its counts, and how it is assembled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.plan.pytorchjob.children import LABEL_TYPE, selector
from traincrew.plan.shared import lifecycle, podrecords
from traincrew.plan.shared.lifecycle import Status
from traincrew.plan.shared.replicas import counts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.api.kinds.pytorchjob.types import PyTorchJobSpec
    from traincrew.plan.pytorchjob.observed import ObservedJob
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.views import ObservedPod


class PyTorchJobStatus(Status, rename="camel", kw_only=True, omit_defaults=True):
    """``status`` of a PyTorchJob."""

    failures: int = 0
    """Number of failed pods that were recreated."""


def status_with_counts(
    current: ObservedJob,
    stored: PyTorchJobStatus,
    before: Mapping[str, PodRecord],
    job: str,
    spec: PyTorchJobSpec | None,
    *,
    wanted: bool = True,
) -> PyTorchJobStatus:
    """Return the stored status, with `before` as its records and the counts of this reconcile.

    Pods that are no longer desired are marked as released, and deleted once the mark is stored.
    """
    places: dict[str, list[ObservedPod]] = {}
    if wanted:
        places = {place.key: [] for place in current.places}
    kept = set(places)
    for pod in current.pods.values():
        places.setdefault(current.key_of(pod), []).append(pod)
    records, new = podrecords.count_restarts(before, places)
    records = podrecords.release(records, records.keys() - kept)
    failures = counts.record_failures(current, records) if wanted else 0

    types = spec.pytorch_replica_specs if spec is not None else stored.replica_statuses
    statuses = {
        name: counts.numbers(name, _members(current, name), stored, new, selector(job, name))
        for name in sorted(types)
    }
    total = int(stored.workers_ready.rpartition("/")[2] or 0)
    if spec is not None:
        total = spec.total if wanted else 0
    ready = sum(each.ready for each in statuses.values())
    return msgspec.structs.replace(
        stored,
        replica_statuses=statuses,
        pod_records=podrecords.texts(records),
        restarts=stored.restarts + sum(new.values()),
        failures=stored.failures + failures,
        workers_ready=f"{min(ready, total)}/{total}",
    )


def _members(current: ObservedJob, name: str) -> list[ObservedPod]:
    lower = name.lower()
    return [pod for pod in current.pods.values() if pod.metadata.labels.get(LABEL_TYPE) == lower]


def document(status: PyTorchJobStatus, before: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the status as plain data.

    The condition that says in which phase the job is comes last: the definition of
    training-operator shows that one as the job's state, and so do its users' scripts.
    """
    plain = counts.document(status, before, now)
    if conditions := plain.get("conditions"):
        phase = lifecycle.summary(status.conditions)[0]
        plain["conditions"] = sorted(conditions, key=lambda each: each["type"] == phase)
    return plain
