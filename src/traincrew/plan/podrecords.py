"""Counting of restarts.

Restarts are counted by the UID of pods, from a record kept in the status, never from the pods that
happen to be visible; so the counters only grow, and know every pod once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traincrew.plan.model import PodView


class PodRecord(Struct, frozen=True, kw_only=True):
    """The newest pod seen in a place (the master, or worker 3 of a set), and what was counted.

    Stored as one short line of text: a job may have thousands of pods, and one object holds them.
    """

    uid: str
    """The first eight characters, enough to tell a pod from its successor."""
    created: str
    restarts: int = 0
    was_ready: bool = False
    """Whether a pod in this place has been ready in this execution."""
    released: bool = False
    """The pod was taken away on purpose (suspended); its successor is no restart."""
    failed: bool = False
    """The failure of this pod has been counted, so that it may be taken away."""

    def text(self) -> str:
        """As it is stored."""
        words = [self.uid, self.created, str(self.restarts)]
        words += ["ready"] if self.was_ready else []
        words += ["released"] if self.released else []
        words += ["failed"] if self.failed else []
        return " ".join(words)

    @classmethod
    def parse(cls, text: Any) -> PodRecord | None:
        """What was stored; None if it is not ours."""
        words = text.split(" ") if isinstance(text, str) else []
        if len(words) < 3 or not words[2].isdecimal():
            return None
        return cls(
            uid=words[0],
            created=words[1],
            restarts=int(words[2]),
            was_ready="ready" in words[3:],
            released="released" in words[3:],
            failed="failed" in words[3:],
        )


def count_restarts(
    records: Mapping[str, PodRecord], places: Mapping[str, Iterable[PodView]]
) -> tuple[dict[str, PodRecord], dict[str, int]]:
    """Find the restarts that have not been counted yet.

    A restart is a container that was started again in its pod, or a pod that took the place of an
    earlier one. Every pod has been counted, by UID, when it is the recorded one of its place or
    older than that; so looking twice, or after a crash, counts nothing twice, and pods that came
    and went while nobody looked are counted once by their successor.

    Args:
        records: What was counted before, by place.
        places: The pods of every place that is still wanted or still has pods; records of other
            places are forgotten.

    Returns:
        New records, and the number of new restarts by place.
    """
    after: dict[str, PodRecord] = {}
    new: dict[str, int] = {}
    for place, pods in places.items():
        record = records.get(place)
        by_age = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name))
        visible = {_short(pod) for pod in by_age}
        new[place] = 0
        for pod in by_age:
            count, record = _count(pod, record, visible)
            new[place] += count
        if record is not None:
            after[place] = record
    return after, new


def _count(
    pod: PodView, record: PodRecord | None, visible: set[str]
) -> tuple[int, PodRecord | None]:
    uid, created = _short(pod), pod.metadata.creation_timestamp
    was_ready = pod.ready or (record is not None and record.was_ready)
    if record is not None and uid == record.uid:
        restarts = max(pod.restarts, record.restarts)
        known = msgspec.structs.replace(record, restarts=restarts, was_ready=was_ready)
        return restarts - record.restarts, known
    successor = PodRecord(uid=uid, created=created, restarts=pod.restarts, was_ready=was_ready)
    if record is None:
        return pod.restarts, successor
    # Timestamps have whole seconds: within one, the recorded pod being gone tells which was first.
    if created > record.created or (created == record.created and record.uid not in visible):
        return pod.restarts + (0 if record.released else 1), successor
    return 0, record


def read(texts: Mapping[str, Any]) -> dict[str, PodRecord]:
    """The records in a status (`podRecords`)."""
    parsed = {place: PodRecord.parse(text) for place, text in texts.items()}
    return {place: record for place, record in parsed.items() if record is not None}


def texts(records: Mapping[str, PodRecord]) -> dict[str, str]:
    """Records as they are stored."""
    return {place: record.text() for place, record in records.items()}


def is_of(record: PodRecord, pod: PodView) -> bool:
    """Whether a record is about this very pod."""
    return record.uid == _short(pod)


def _short(pod: PodView) -> str:
    return pod.metadata.uid[:8]


def release(records: Mapping[str, PodRecord]) -> dict[str, PodRecord]:
    """Note that all pods are being taken away on purpose."""
    return {
        place: msgspec.structs.replace(record, released=True, was_ready=False)
        for place, record in records.items()
    }
