"""The format of pod records in ``status.podRecords``.

A job may have thousands of pods, one object holds the records of all, and ``kubectl describe``
shows each entry of a map on a line of its own. So there is one entry per role (``master``,
``worker``, a worker set), and pods that differ only in their UID share the rest::

    worker: 2026-01-31T08:15:00Z 0-998/0r/<999 times 4 characters> 2026-01-31T08:20:11Z 999/1r/Xf3_

That is a creation time, followed by the groups of pods created then: indexes, container restarts
with flags, and an ID for each index. The flags are ``r`` (was ready), ``x`` (released), ``f``
(failed) and ``s`` (stalled); the number of failures in its place follows as ``b3`` if there were
any. A role without indexes leaves them out.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.plan.shared.indexes import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ID_BYTES = 3
_ID_LENGTH = 4
"""Characters of an ID. For two successive pods that were created within the same second, the
probability of the same ID is 1 in 16 million."""
_INDEXED = re.compile(r"(.*)-(0|[1-9][0-9]{0,8})", re.DOTALL)
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_STATE = re.compile(r"([0-9]{1,9})([rxfs]*)(?:b([0-9]{1,9}))?")


class PodRecord(Struct, frozen=True, kw_only=True):
    """The newest pod observed in a place (the master, or worker 3 of a set), and its counts."""

    uid: str
    """Hash of the UID by `short_id`."""
    created: str
    restarts: int = 0
    was_ready: bool = False
    """Whether a pod in this place has been ready in this execution."""
    released: bool = False
    """The job itself ends this pod; that is no failure, and its successor is no restart."""
    failed: bool = False
    """The failure of this pod has been counted, so the pod may be deleted."""
    stalled: bool = False
    """The job itself ends this pod because its attempt made no progress, which is counted."""
    failures: int = 0
    """How many pods in this place have failed in this execution, with this one if it is `failed`;
    for the back-off of kinds that create their pods."""


@lru_cache(maxsize=16384)
def short_id(uid: str) -> str:
    """Return the ID of a UID; cached, because every reconcile needs it repeatedly for each pod."""
    digest = hashlib.sha256(uid.encode()).digest()[:_ID_BYTES]
    return base64.urlsafe_b64encode(digest).decode()


def matches(record: PodRecord, uid: str, created: str) -> bool:
    """Return whether a record is of the pod with this UID and creation time."""
    return (record.uid, record.created) == (short_id(uid), created)


# -- reading --------------------------------------------------------------------------------------


def read(texts: Mapping[str, Any]) -> dict[str, PodRecord]:
    """Decode the records of a status (``podRecords``), by place; malformed ones are left out."""
    records: dict[str, PodRecord] = {}
    for key, text in texts.items():
        if isinstance(text, str):
            records.update(_read_role(key, text.split(" ")))
    return records


def _read_role(role: str, words: list[str]) -> Iterator[tuple[str, PodRecord]]:
    created = ""
    for word in words:
        indexes, slash, rest = word.partition("/")
        if not slash:
            created = word
            continue
        state, _, ids = rest.partition("/")
        found = _STATE.fullmatch(state)
        places = _places(role, indexes, len(ids))
        if found is None or not places or len(ids) != len(places) * _ID_LENGTH:
            continue
        for number, place in enumerate(places):
            record = PodRecord(
                uid=ids[number * _ID_LENGTH : (number + 1) * _ID_LENGTH],
                created=created,
                restarts=int(found.group(1)),
                was_ready="r" in found.group(2),
                released="x" in found.group(2),
                failed="f" in found.group(2),
                stalled="s" in found.group(2),
                failures=int(found.group(3) or 0),
            )
            yield place, record


def _places(role: str, indexes: str, most: int) -> list[str]:
    """Return the places of a group, in order; empty if malformed or more than `most`."""
    if not indexes:
        return [role]
    places: list[str] = []
    for part in indexes.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            return []
        first, last = int(found.group(1)), int(found.group(2) or found.group(1))
        if last - first >= most - len(places):
            return []
        places += [f"{role}-{index}" for index in range(first, last + 1)]
    return places


# -- writing --------------------------------------------------------------------------------------


def texts(records: Mapping[str, PodRecord]) -> dict[str, str]:
    """Encode records: the same text for the same records, whatever their order."""
    roles: dict[str, list[tuple[int | None, PodRecord]]] = {}
    for place, record in records.items():
        found = _INDEXED.fullmatch(place)
        role, index = (found.group(1), int(found.group(2))) if found else (place, None)
        roles.setdefault(role, []).append((index, record))
    return {role: _role(members) for role, members in sorted(roles.items())}


def _role(members: list[tuple[int | None, PodRecord]]) -> str:
    def group(member: tuple[int | None, PodRecord]) -> tuple[str, bool, str]:
        index, record = member
        return record.created, index is not None, _state(record)

    words: list[str] = []
    ordered = sorted(members, key=lambda member: (*group(member), member[0] or 0))
    for created, of_one_time in groupby(ordered, key=lambda member: member[1].created):
        words.append(created)
        for (_, _, state), same in groupby(of_one_time, key=group):
            pods = list(same)
            indexes = text_of(index for index, _ in pods if index is not None)
            ids = "".join(record.uid for _, record in pods)
            words.append(f"{indexes}/{state}/{ids}")
    return " ".join(words)


def _state(record: PodRecord) -> str:
    flags = (
        ("r", record.was_ready),
        ("x", record.released),
        ("f", record.failed),
        ("s", record.stalled),
    )
    failures = f"b{record.failures}" if record.failures else ""
    return str(record.restarts) + "".join(letter for letter, is_set in flags if is_set) + failures


__all__ = ["PodRecord", "matches", "read", "short_id", "texts"]
