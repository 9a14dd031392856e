"""What a status says of these pods: failures that were counted, numbers, times of conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from traincrew.api.meta import format_time
from traincrew.plan.shared import lifecycle, podrecords
from traincrew.plan.shared.lifecycle import ReplicaStatus
from traincrew.plan.shared.replicas.states import FAILURES, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.places import Place
    from traincrew.plan.shared.views import ObservedPod


class Observed(Protocol):
    """The observed state of a job."""

    @property
    def states(self) -> Mapping[Place, State]: ...  # noqa: D102 - the state of every place

    def pod(self, place: Place) -> ObservedPod | None: ...  # noqa: D102 - the pod in a place


def record_failures(current: Observed, records: dict[str, PodRecord]) -> int:
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
