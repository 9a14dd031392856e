"""Writes of a pod's status: few and small, and immediate for changes of phase or readiness."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from traincrew.engine import mergepatch
from traincrew.engine.errors import ApiError
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import PODS
from traincrew.engine.times import format_time
from traincrew.local.node.records.status import OWN_CONDITIONS, pod_status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.engine.client import Client
    from traincrew.local.node.records.record import PodRecord
    from traincrew.local.node.records.views import BoundPod

__all__ = ["StatusReporter"]

# A container that starts goes through several states within milliseconds: they become one write.
_SETTLE_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_OWN_FIELDS = (
    "phase",
    "conditions",
    "startTime",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
    "observedGeneration",
    "reason",
    "message",
)


class StatusReporter:
    """Keeps the status of one pod in line with its record.

    Args:
        client: The API server.
        view: The pod as it is now.
        record: Of its containers; whoever changes it calls `changed`.
    """

    def __init__(self, client: Client, view: BoundPod, record: PodRecord) -> None:
        self._client = client
        self._view = view
        self._record = record
        self._written: Mapping[str, Any] = {
            key: value for key, value in view.status.items() if key in _OWN_FIELDS
        }
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._log = get_logger(pod=f"{view.metadata.namespace}/{view.metadata.name}")

    def seen(self, view: BoundPod) -> None:
        """Handle a new version of the object, perhaps with conditions of others."""
        self._view = view
        unseen = view.metadata.generation != self._written.get("observedGeneration")
        if unseen or view.spec.get("readinessGates"):
            self._changed.set()

    def changed(self) -> None:
        """Report that the record has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Write whenever something has changed, until cancelled."""
        while True:
            await self._changed.wait()
            deadline = time.monotonic() + _SETTLE_SECONDS
            while not self._is_urgent() and (left := deadline - time.monotonic()) > 0:
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._changed.wait()
            self._changed.clear()
            try:
                await self.write()
            except ApiError as error:
                self._log.warning("status not written", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                self._changed.set()

    def _is_urgent(self) -> bool:
        status = self._status()
        return _urgent_part(status) != _urgent_part(self._written)

    def _status(self) -> dict[str, Any]:
        own = [
            each for each in self._written.get("conditions") or () if each["type"] in OWN_CONDITIONS
        ]
        others = [
            each
            for each in self._view.status.get("conditions") or ()
            if each["type"] not in OWN_CONDITIONS
        ]
        previous = {"phase": self._written.get("phase"), "conditions": [*own, *others]}
        now = format_time(datetime.now(UTC))
        generation = self._view.metadata.generation
        return pod_status(self._view.spec, self._record, previous, now, generation=generation)

    async def write(self) -> None:
        """Write now, if there is something to write.

        Raises:
            ApiError: The write has failed; a pod that is gone is no error.
        """
        async with self._writing:
            status = self._status()
            patch = mergepatch.difference(self._written, status)
            if not patch:
                return
            metadata = self._view.metadata
            name, namespace, uid = metadata.name, metadata.namespace, metadata.uid
            # The UID keeps a late write from a new pod of the same name.
            document = {"metadata": {"uid": uid}, "status": patch}
            writing = self._client.patch(
                PODS, name, namespace, patch=document, subresource="status"
            )
            written = await self._client.unless_gone(writing, PODS, name, namespace, uid=uid)
            if written is None:
                return
            self._written = status


def _urgent_part(status: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the part of a status whose changes are written at once."""
    ready = [
        condition.get("status")
        for condition in status.get("conditions") or ()
        if condition["type"] == "Ready"
    ]
    return status.get("phase"), ready, status.get("reason")
