"""Counts restarts.

Restarts are counted by the UID of pods and recorded in the status, never derived from the pods that
currently exist. So the counters only grow, and every pod is counted once.

A pod that the job itself is about to end (scaled in, suspended, replaced by a new template) is
*released* first in its record, and only after that is stored is the pod deleted. However late its
end is observed, and whatever its exit code, it is neither a failure nor a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from traincrew.plan.shared import pods
from traincrew.plan.shared.podrecords.text import PodRecord, matches, read, short_id, texts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from traincrew.plan.shared.views import ObservedPod


def count_restarts(
    records: Mapping[str, PodRecord], places: Mapping[str, Collection[ObservedPod]]
) -> tuple[dict[str, PodRecord], dict[str, int]]:
    """Find the restarts that have not been counted yet.

    A restart is a container that was restarted in its pod, or a pod that replaced an earlier one
    that was not released. A pod has been counted if it is the recorded one of its place, by UID, or
    older. So counting twice, or after a crash, adds nothing, and pods that were created and deleted
    unobserved are counted once, by their successor.

    Args:
        records: The previous records, by place.
        places: The pods of every place that is still desired or still has pods; records of other
            places are dropped.

    Returns:
        New records, and the number of new restarts by place.
    """
    after: dict[str, PodRecord] = {}
    new: dict[str, int] = {}
    for place, members in places.items():
        by_age = sorted(members, key=pods.age)
        record = records.get(place)
        visible = {short_id(pod.metadata.uid): pod for pod in by_age}
        new[place] = 0
        for pod in by_age:
            count, record = _count(pod, record, visible)
            new[place] += count
        if record is not None:
            after[place] = record
    return after, new


def _count(
    pod: ObservedPod, record: PodRecord | None, visible: Mapping[str, ObservedPod]
) -> tuple[int, PodRecord | None]:
    uid, created = short_id(pod.metadata.uid), pod.metadata.creation_timestamp
    if record is not None and is_of(record, pod):
        restarts = max(pod.restarts, record.restarts)
        if record.released:
            return 0, msgspec.structs.replace(record, restarts=restarts)
        was_ready = record.was_ready or pod.ready
        known = msgspec.structs.replace(record, restarts=restarts, was_ready=was_ready)
        return restarts - record.restarts, known
    was_ready = pod.ready or (record is not None and record.was_ready)
    successor = PodRecord(
        uid=uid,
        created=created,
        restarts=pod.restarts,
        was_ready=was_ready,
        failures=record.failures if record is not None and not record.released else 0,
    )
    if record is None:
        return pod.restarts, successor
    recorded = visible.get(record.uid)
    # Within a second nothing tells which came first; of those that end, the later one may be gone.
    if created > record.created or (
        created == record.created
        and not pods.is_ending(pod)
        and (recorded is None or pods.is_ending(recorded))
    ):
        return pod.restarts + (0 if record.released else 1), successor
    return 0, record


def is_of(record: PodRecord, pod: ObservedPod) -> bool:
    """Return whether a record is about this very pod."""
    return matches(record, pod.metadata.uid, pod.metadata.creation_timestamp)


def is_released(records: Mapping[str, PodRecord], place: str, pod: ObservedPod) -> bool:
    """Return whether this very pod is recorded as released."""
    record = records.get(place)
    return record is not None and record.released and is_of(record, pod)


def is_stalled(records: Mapping[str, PodRecord], place: str, pod: ObservedPod) -> bool:
    """Return whether this very pod is recorded as ended because its attempt made no progress."""
    record = records.get(place)
    return record is not None and record.stalled and is_of(record, pod)


def release(
    records: Mapping[str, PodRecord], places: Collection[str] | None = None
) -> dict[str, PodRecord]:
    """Mark the pods of some places (by default of all) as released."""
    return {
        place: msgspec.structs.replace(record, released=True, was_ready=False)
        if places is None or place in places
        else record
        for place, record in records.items()
    }


def stall(records: Mapping[str, PodRecord], places: Collection[str]) -> dict[str, PodRecord]:
    """Mark the pods of some places as ended because their attempt made no progress."""
    return {
        place: msgspec.structs.replace(record, stalled=True) if place in places else record
        for place, record in records.items()
    }


def unrelease(records: Mapping[str, PodRecord], places: Collection[str]) -> dict[str, PodRecord]:
    """Mark pods of some places as not released any more, because they stay after all."""
    return {
        place: msgspec.structs.replace(record, released=False) if place in places else record
        for place, record in records.items()
    }


__all__ = [
    "PodRecord",
    "count_restarts",
    "is_of",
    "is_released",
    "is_stalled",
    "read",
    "release",
    "stall",
    "texts",
    "unrelease",
]
