"""The server's own chores: the namespaces every cluster has, and the expiry of events."""

from __future__ import annotations

import asyncio
import calendar
import time
from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests import WriteOptions

if TYPE_CHECKING:
    from .verbs import Verbs

__all__ = ["Housekeeping"]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
EVENT_LIFETIME = 3600.0
"""Seconds an Event is kept (upstream: ``--event-ttl``)."""
_SWEEP_INTERVAL = 60.0


class Housekeeping:
    """Creates missing system namespaces and removes expired events.

    Args:
        verbs: the verbs to write with.
    """

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._task: asyncio.Task[None] | None = None

    def create_namespaces(self) -> None:
        """Create the namespaces every cluster has, as far as they are missing."""
        resource = self._verbs.registry.find("", "v1", "namespaces")
        assert resource is not None
        options = WriteOptions(
            "kube-apiserver", dry_run=False, validation="Ignore", warnings=[], dropped=[]
        )
        for name in NAMESPACES:
            if self._verbs.storage.get("namespaces", ("", name)) is None:
                document = {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": name},
                }
                self._verbs.insert(resource, document, options)

    def start(self) -> None:
        """Start the periodic removal of events."""
        self._task = asyncio.create_task(
            self._remove_events_periodically(), name="apiserver-housekeeping"
        )

    async def stop(self) -> None:
        """Stop the periodic removal of events."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _remove_events_periodically(self) -> None:
        while True:
            self.remove_expired_events()
            await asyncio.sleep(_SWEEP_INTERVAL)

    def remove_expired_events(self) -> None:
        """Remove the events last observed more than `EVENT_LIFETIME` ago."""
        storage = self._verbs.storage
        oldest = self._verbs.clock() - EVENT_LIFETIME
        for entry in storage.scan("events"):
            event = entry.obj
            last = (
                (event.get("series") or {}).get("lastObservedTime")
                or event.get("lastTimestamp")
                or event.get("eventTime")
                or event["metadata"]["creationTimestamp"]
            )
            if _seconds(last) < oldest:
                storage.delete("events", entry.key)


def _seconds(text: str) -> float:
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
