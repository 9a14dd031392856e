"""Setup of a pod's volumes, with the kubelet's retries, and their refresh."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from traincrew.local.node.fields.references import Reference
from traincrew.local.node.volumes.podvolumes import VolumeError, VolumeNotReadyError
from traincrew.local.node.waiting import StoppedError, unless_stopped

if TYPE_CHECKING:
    from traincrew.local.node.containers.handle import PodHandle
    from traincrew.local.node.volumes.podvolumes import PodVolumes

__all__ = ["Mounting", "pod_reference"]

_FIRST_RETRY = 0.5
_LONGEST_RETRY = 10.0
# Grace period for controllers before a failure is reported: to fill a new namespace, to bind.
_CONTROLLERS_SECONDS = 5.0
_CONTROLLERS_RETRY = 0.05


def pod_reference(uid: str) -> Reference:
    """Return the reference that stands for a pod's labels and annotations, shown in volumes."""
    return Reference("Pod", uid)


class Mounting:
    """Prepares and refreshes the volumes of one pod.

    Args:
        pod: The pod.
        volumes: Its volumes.
    """

    def __init__(self, pod: PodHandle, volumes: PodVolumes) -> None:
        self._pod = pod
        self._volumes = volumes
        self._sources = pod.context.sources

    async def prepare(self, stop: asyncio.Event) -> bool:
        """Set up the volumes; return False if the pod is stopped before."""
        delay = _FIRST_RETRY
        silent_until = time.monotonic() + _CONTROLLERS_SECONDS
        while True:
            pause = delay
            try:
                await self._volumes.prepare()
            except VolumeError as error:
                is_new = isinstance(error, VolumeNotReadyError)
                if is_new and time.monotonic() < silent_until:
                    pause = _CONTROLLERS_RETRY
                    self._pod.changed()
                else:
                    delay = min(delay * 2, _LONGEST_RETRY)
                    self._report(str(error))
            else:
                self._report("")
                self._pod.record.prepared = True
                self._pod.changed()
                return True
            references = self._volumes.references()
            try:
                await unless_stopped(
                    stop, self._sources.wait(self._pod.namespace, references, pause)
                )
            except StoppedError:
                return False

    def _report(self, message: str) -> None:
        if message:
            self._pod.event("Warning", "FailedMount", message)
        for record in self._pod.record.containers.values():
            if record.state == "waiting" and record.message != message:
                record.message = message
                self._pod.changed()

    async def follow(self) -> None:
        """Refresh the volumes that show API objects, until cancelled."""
        references = {*self._volumes.references(), pod_reference(self._pod.uid)}
        with self._sources.watching(self._pod.namespace, references) as changed:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._volumes.token_lifetime()):
                        await changed.wait()
                # Before the refresh, so that a change during it triggers another one.
                changed.clear()
                await self._volumes.refresh()
