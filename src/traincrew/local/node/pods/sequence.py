"""The order of a pod's containers: init containers and sidecars, main containers, termination."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from traincrew.local.node.containers.container import Container, Role
from traincrew.local.node.pods.ephemeral import EphemeralContainers
from traincrew.local.node.records.record import is_sidecar

if TYPE_CHECKING:
    from traincrew.local.node.containers.handle import PodHandle
    from traincrew.local.node.runtime.instances import Instance

__all__ = ["ContainerSequence"]

Document = Mapping[str, Any]


class ContainerSequence:
    """Runs the containers of one pod.

    Args:
        pod: The pod.

    Attributes:
        ephemeral: Containers that are added while it runs.
        stopping: Set when no container starts any more.
    """

    def __init__(self, pod: PodHandle) -> None:
        self._pod = pod
        self._containers: dict[str, Container] = {}
        self._stop_at = 0.0
        self.ephemeral = EphemeralContainers(pod, self._containers)
        self.stopping = asyncio.Event()

    def add(self, spec: Document) -> None:
        """Add the containers of the pod's specification."""
        roles: list[tuple[Document, Role]] = [
            (each, "sidecar" if is_sidecar(each) else "init")
            for each in spec.get("initContainers") or ()
        ]
        roles += [(each, "main") for each in spec["containers"]]
        for each, role in roles:
            container = Container(self._pod, each, role)
            self._containers[container.name] = container

    def container(self, name: str) -> Container | None:
        """Return a container by its name; None before `add`."""
        return self._containers.get(name)

    def running(self) -> list[Instance]:
        """Return the running instances of all containers."""
        containers = [*self._containers.values(), *self.ephemeral.containers.values()]
        found = [each.running for each in containers]
        return [each.instance for each in found if each is not None]

    async def run(self) -> None:
        """Run them to their end; the volumes must be prepared."""
        sidecars: list[tuple[Container, asyncio.Task[bool]]] = []
        try:
            if await self._initialize(sidecars):
                mains = [each for each in self._containers.values() if each.role == "main"]
                await asyncio.gather(*(each.run() for each in mains))
            self.ephemeral.stop(self._left())
        except BaseException:
            for _, task in sidecars:
                task.cancel()
            await asyncio.gather(*(task for _, task in sidecars), return_exceptions=True)
            raise
        for sidecar, task in reversed(sidecars):
            sidecar.stop(self._left())
            await task

    async def _initialize(self, sidecars: list[tuple[Container, asyncio.Task[bool]]]) -> bool:
        """Run the init containers one after the other, and start the sidecars among them.

        Returns:
            Whether the main containers may start.
        """
        for container in self._containers.values():
            if container.role == "sidecar":
                task = asyncio.create_task(container.run(), name=f"sidecar {container.name}")
                sidecars.append((container, task))
                started = asyncio.create_task(container.started.wait())
                stop = asyncio.create_task(self.stopping.wait())
                try:
                    await asyncio.wait({started, task, stop}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    started.cancel()
                    stop.cancel()
            elif container.role == "init":
                succeeded = await container.run()
                if not succeeded and not self.stopping.is_set():
                    return False
        # Containers that were running before the pod was stopped still have to be terminated.
        return True

    def _left(self) -> float:
        """Return the remaining grace period in seconds."""
        if not self.stopping.is_set():
            return max(self._pod.grace, 0.0)
        return max(self._stop_at - time.monotonic(), 0.0)

    def stop(self, grace: float) -> None:
        """Stop the containers: sidecars after the others, unless the grace period is 0."""
        stop_at = time.monotonic() + grace
        self._stop_at = min(self._stop_at, stop_at) if self.stopping.is_set() else stop_at
        self.stopping.set()
        for container in self._containers.values():
            if container.role != "sidecar" or grace <= 0:
                container.stop(grace)
        self.ephemeral.stop(grace)

    def kill(self) -> None:
        """Kill every running instance at once."""
        for instance in self.running():
            instance.kill()
