"""The status of such a job: failures that were counted, numbers, times of conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from traincrew.api.meta import format_time
from traincrew.plan.shared import lifecycle, podrecords
from traincrew.plan.shared.lifecycle import ReplicaStatus, Status
from traincrew.plan.shared.replicas.states import FAILURES, State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.observed import ObservedReplicas
    from traincrew.plan.shared.views import ObservedPod


class ReplicasStatus(Status, rename="camel", kw_only=True, omit_defaults=True):
    """``status`` of a job with such pods."""

    failures: int = 0
    """Number of failed pods that were recreated; all pods that made no progress count as one."""


AnyReplicasStatus = TypeVar("AnyReplicasStatus", bound=ReplicasStatus)


def with_counts(
    stored: AnyReplicasStatus,
    current: ObservedReplicas,
    before: Mapping[str, PodRecord],
    selectors: Mapping[str, Mapping[str, str]],
    *,
    total: int | None,
    counted: Collection[str] = (),
    wanted: bool = True,
) -> tuple[AnyReplicasStatus, set[str]]:
    """Return the stored status with the counts of this reconcile, and what it releases.

    Pods that are no longer desired are marked as released, and deleted once the mark is stored.

    Args:
        stored: The status as stored.
        current: The observed state.
        before: The records of the pods so far.
        selectors: Labels of all pods of a type, by type.
        total: The number of desired pods; None if they no longer matter.
        counted: Types whose pods `total` is about; by default all.
        wanted: Whether the job should have pods at all.

    Returns:
        The status, and the keys of places whose pods it marks as released for the first time.
    """
    places: dict[str, list[ObservedPod]] = {}
    if wanted:
        places = {place.key: [] for place in current.places}
    kept = set(places)
    for pod in current.pods.values():
        places.setdefault(current.key_of(pod), []).append(pod)
    records, new = podrecords.count_restarts(before, places)
    unwanted = records.keys() - kept
    released = {key for key in unwanted if not records[key].released}
    records = podrecords.release(records, unwanted)
    failures = record_failures(current, records) if wanted else 0
    statuses = {
        name: numbers(name, current.members(name), stored, new, selector)
        for name, selector in sorted(selectors.items())
    }
    ready = sum(each.ready for name, each in statuses.items() if not counted or name in counted)
    if total is None:
        total = int(stored.workers_ready.rpartition("/")[2] or 0)
    status = msgspec.structs.replace(
        stored,
        replica_statuses=statuses,
        pod_records=podrecords.texts(records),
        restarts=stored.restarts + sum(new.values()),
        failures=stored.failures + failures,
        workers_ready=f"{min(ready, total)}/{total}",
    )
    return status, released


def record_failures(current: ObservedReplicas, records: dict[str, PodRecord]) -> int:
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


def numbers(
    name: str,
    members: Sequence[ObservedPod],
    stored: Status,
    new: Mapping[str, int],
    selector: Mapping[str, str],
) -> ReplicaStatus:
    """Return the counts of the pods of one type.

    Args:
        name: The type.
        members: Its pods.
        stored: The status as stored.
        new: Restarts that were not counted yet, by the key of their place.
        selector: Labels of all its pods.
    """
    lower = name.lower()
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
        selector=",".join(f"{key}={value}" for key, value in selector.items()),
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
