"""Writing a pod's status: as seldom and as little as possible, and at once where it matters."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError, ConflictError, NotFoundError
from traincrew.engine.logs import get_logger
from traincrew.engine.resources import PODS
from traincrew.local.node.status import OWN_CONDITIONS, merge_patch, pod_status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.engine.client import Client
    from traincrew.local.node.records import PodRecord
    from traincrew.local.node.views import PodView

__all__ = ["StatusReporter"]

# A container that starts goes through several states within milliseconds: they become one write.
_SETTLE_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_OWN = (
    "phase",
    "conditions",
    "startTime",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "containerStatuses",
    "initContainerStatuses",
    "observedGeneration",
    "reason",
    "message",
)


class StatusReporter:
    """Keeps the status of one pod as its record says.

    Args:
        client: The API server.
        view: The pod as it is now.
        record: What its containers do; changed by others, who call `changed`.
    """

    def __init__(self, client: Client, view: PodView, record: PodRecord) -> None:
        self._client = client
        self._view = view
        self._record = record
        self._shown: Mapping[str, Any] = {
            key: value for key, value in view.status.items() if key in _OWN
        }
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._log = get_logger(pod=f"{view.metadata.namespace}/{view.metadata.name}")

    def seen(self, view: PodView) -> None:
        """The object has a new version, perhaps with conditions others wrote."""
        self._view = view
        unseen = view.metadata.generation != self._shown.get("observedGeneration")
        if unseen or view.spec.get("readinessGates"):
            self._changed.set()

    def changed(self) -> None:
        """The record has changed."""
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
        return _essence(status) != _essence(self._shown)

    def _status(self) -> dict[str, Any]:
        own = [
            each for each in self._shown.get("conditions") or () if each["type"] in OWN_CONDITIONS
        ]
        others = [
            each
            for each in self._view.status.get("conditions") or ()
            if each["type"] not in OWN_CONDITIONS
        ]
        previous = {"phase": self._shown.get("phase"), "conditions": [*own, *others]}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        generation = self._view.metadata.generation
        return pod_status(self._view.spec, self._record, previous, now, generation=generation)

    async def write(self) -> None:
        """Write now, if there is something to write.

        Raises:
            ApiError: It could not be written; a pod that is gone is no error.
        """
        async with self._writing:
            status = self._status()
            patch = merge_patch(self._shown, status)
            if not patch:
                return
            metadata = self._view.metadata
            try:
                await self._client.patch(
                    PODS,
                    metadata.name,
                    metadata.namespace,
                    # The identity keeps a late write from a new pod of the same name.
                    patch={"metadata": {"uid": metadata.uid}, "status": patch},
                    subresource="status",
                )
            except (NotFoundError, ConflictError):
                return
            self._shown = status


def _essence(status: Mapping[str, Any]) -> tuple[Any, ...]:
    """What somebody may be waiting for."""
    ready = [
        condition.get("status")
        for condition in status.get("conditions") or ()
        if condition["type"] == "Ready"
    ]
    return status.get("phase"), ready, status.get("reason")
