"""The recording of one namespace, and waiting for a state in it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

Document = dict[str, Any]
Key = tuple[str, str]
"""Kind and name."""
OLDER_GROUPS = {"mlkube.io": "MxJob.mlkube.io"}
"""The kind that an API group has in recordings, if another group has the same kind."""
JOB_KINDS = frozenset({"ChainerJob", "ElasticJob", "MPICluster", "MxJob", *OLDER_GROUPS.values()})
"""Kinds of training jobs."""


class Observation(NamedTuple):
    """One state of one object."""

    version: int
    change: str
    """ADDED, MODIFIED or DELETED."""
    kind: str
    document: Document

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.document["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The object's UID."""
        return str(self.document["metadata"]["uid"])


class Recording:
    """Everything that was observed in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.current: dict[Key, Document] = {}
        self.changed_at = time.monotonic()
        self._seen: list[Observation] = []
        self._latest: dict[Key, int] = {}
        self._changed = asyncio.Event()
        self._lost: str | None = None

    # -- for the recorder ---------------------------------------------------------------

    def add(self, observation: Observation) -> None:
        """Store an event of a watch."""
        self._seen.append(observation)
        key = (observation.kind, observation.name)
        self._latest[key] = observation.version
        if observation.change == "DELETED":
            self.current.pop(key, None)
        else:
            self.current[key] = observation.document
        self.changed_at = time.monotonic()
        self._changed.set()

    def lose(self, why: str) -> None:
        """Record that there is a gap from now on."""
        self._lost = why
        self._changed.set()

    # -- for scenarios -------------------------------------------------------------------

    @property
    def observations(self) -> list[Observation]:
        """Return everything observed so far, in order."""
        return sorted(self._seen, key=lambda each: each.version)

    def find(self, kind: str, name: str) -> Document | None:
        """Return the current state of an object; None if there is none."""
        return self.current.get((kind, name))

    def shows(self, kind: str, listed: Document) -> bool:
        """Return whether everything in a list of a kind was observed, including deletions."""
        items = {(kind, item["metadata"]["name"]): version_of(item) for item in listed["items"]}
        at = int(listed["metadata"]["resourceVersion"])
        gone = (
            key
            for key, document in self.current.items()
            if key[0] == kind and key not in items and int(version_of(document)) <= at
        )
        behind = (key for key, seen in items.items() if self._latest.get(key, 0) < int(seen))
        return not any(gone) and not any(behind)

    def all(self, kind: str) -> list[Document]:
        """Return the current objects of a kind, oldest first."""
        found = [document for (each, _), document in self.current.items() if each == kind]
        return sorted(found, key=_age)

    async def until(self, what: str, check: Callable[[], Any], seconds: float) -> Any:
        """Wait until a check of the current state returns something true, and return that.

        Raises:
            AssertionError: It did not within `seconds`; the message has the current state.
        """
        deadline = time.monotonic() + seconds
        while not (result := check()):
            self._changed.clear()
            assert self._lost is None, f"{self.namespace}: {self._lost}"
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await self._changed.wait()
            except TimeoutError:
                raise AssertionError(
                    f"not within {seconds:.0f} s: {what}\n{self.describe()}"
                ) from None
        return result

    async def quiet(self, quiet: float, seconds: float) -> None:
        """Wait until nothing has changed for `quiet` seconds.

        Raises:
            AssertionError: It kept changing for `seconds`.
        """
        deadline = time.monotonic() + seconds
        while (left := self.changed_at + quiet - time.monotonic()) > 0:
            assert time.monotonic() < deadline, f"it does not come to rest\n{self.describe()}"
            await asyncio.sleep(left)

    def describe(self) -> str:
        """Return the current state in a few lines, for people."""
        lines = [f"namespace {self.namespace}:"]
        for (kind, name), document in sorted(self.current.items()):
            lines.append(f"  {kind} {name} {_summary(kind, document)}".rstrip())
        return "\n".join(lines)


def version_of(document: Document) -> str:
    """Return the resource version."""
    return str(document["metadata"]["resourceVersion"])


def _age(document: Document) -> tuple[str, int]:
    return document["metadata"]["creationTimestamp"], int(version_of(document))


def _summary(kind: str, document: Document) -> str:
    if kind == "Event":
        about = document["involvedObject"]
        return f"{about['kind']} {about['name']} {document['reason']}: {document.get('message')}"
    status = document.get("status", {})
    if kind == "Pod" or kind in JOB_KINDS:
        words = [str(status.get(key, "")) for key in ("phase", "reason", "message")]
        words += [
            f"{container['name']}={msgspec.json.encode(container['state']).decode()}"
            for container in status.get("containerStatuses", [])
        ]
        return " ".join(filter(None, words))
    return msgspec.json.encode(status).decode() if status else ""
