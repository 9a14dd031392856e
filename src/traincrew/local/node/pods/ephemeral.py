"""Ephemeral containers: added to a running pod by `kubectl debug`, each runs once.

Upstream: `computePodActions` and `ephemeralContainerStartSpec` of `kuberuntime`. They start once
the pod's volumes are prepared, whatever its other containers do; nothing waits for them; they end
with the pod.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from traincrew.engine.observability import get_logger
from traincrew.local.node.containers.container import Container
from traincrew.local.node.fields.downward import FieldError
from traincrew.local.node.pods.unsupported import unsupported_ephemeral
from traincrew.local.node.records.record import Terminated
from traincrew.local.node.runtime.instances import instances_of
from traincrew.local.node.runtime.processes import Join

if TYPE_CHECKING:
    from traincrew.local.node.containers.handle import PodHandle

__all__ = ["EphemeralContainers"]

Document = Mapping[str, Any]


class EphemeralContainers:
    """Runs the ephemeral containers of one pod.

    Args:
        pod: The pod they are added to.
        others: Its other containers, by name.

    Attributes:
        containers: Those that were added so far, by name.
    """

    def __init__(self, pod: PodHandle, others: Mapping[str, Container]) -> None:
        self.containers: dict[str, Container] = {}
        self._pod = pod
        self._others = others
        self._tasks: list[asyncio.Task[None]] = []
        self._open = False
        self._changed = asyncio.Event()
        self._stop_at: float | None = None
        self._log = get_logger(pod=f"{pod.namespace}/{pod.name}")

    def start(self, spec: Document) -> None:
        """Start the ephemeral containers, and from now on those that are added."""
        self._open = True
        self.update(spec)

    def update(self, spec: Document) -> None:
        """Start the ephemeral containers that were added to the pod."""
        pod = self._pod
        if not self._open:
            return
        pod.record.add_ephemeral(spec)
        for each in spec.get("ephemeralContainers") or ():
            name = str(each["name"])
            if name in self.containers:
                continue
            if not pod.shown_container(name):
                found = unsupported_ephemeral(spec, name, pod.context.isolation)
                pod.not_emulated([f"{one.field}: {one.why}" for one in found])
            self.containers[name] = container = Container(pod, each, "ephemeral")
            if self._stop_at is not None:
                container.stop(max(self._stop_at - time.monotonic(), 0.0))
            task = asyncio.create_task(self._run(container), name=f"ephemeral {name}")
            self._tasks.append(task)
            pod.changed()

    async def _run(self, container: Container) -> None:
        try:
            await self._until_target_runs(container)
            await container.run()
        except Exception as error:  # noqa: BLE001  # logged, and shown in the container's status
            # The pod continues without it.
            self._log.exception("a defect of the node ended an ephemeral container")
            if container.running is not None:
                container.running.instance.kill()
            text = f"{type(error).__name__}: {error}"
            container.record.end(Terminated(137, "NodeError", message=text))
            self._pod.changed()

    def changed(self) -> None:
        """Report that a container of the pod has started or ended."""
        self._changed.set()

    async def _until_target_runs(self, container: Container) -> None:
        """Wait for the target container, unless this container started before."""
        pod, record = self._pod, container.record
        target = self._others.get(container.spec.get("targetContainerName", ""))
        known = instances_of(pod.context.paths.containers(pod.uid) / container.name)
        if target is None or known or pod.shown_container(container.name).get("containerID"):
            return
        if target.running is None:
            record.wait("CreateContainerConfigError", _no_target(target.name))
            pod.changed()
        # The target may run only briefly between two failures.
        while target.running is None and self._stop_at is None:
            self._changed.clear()
            await self._changed.wait()

    def stop(self, grace: float) -> None:
        """Terminate them within `grace` seconds and start no more; a later call may shorten it."""
        stop_at = time.monotonic() + grace
        self._stop_at = stop_at if self._stop_at is None else min(self._stop_at, stop_at)
        self._changed.set()
        for container in self.containers.values():
            container.stop(max(self._stop_at - time.monotonic(), 0.0))

    async def finish(self) -> None:
        """Wait until they have ended, after `stop`."""
        self._open = False
        await asyncio.gather(*self._tasks)

    async def leave(self) -> None:
        """Stop managing them; running containers continue."""
        self._open = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def join(self, container: Document) -> Join | None:
        """Return the namespaces that a container enters; None if it gets its own.

        Upstream, the containers of a pod share host name and System V IPC. Here each regular
        container has its own namespaces; a container that debugs one enters those.

        Raises:
            FieldError: The target container is not running.
        """
        name = container["name"]
        if name not in self.containers:
            return None
        target = container.get("targetContainerName")
        if target:
            joined = _joined(self._others.get(target), ["ipc", "uts", "pid"])
            if joined is None:
                raise FieldError(_no_target(target))
            return joined
        mains = [each for each in self._others.values() if each.role == "main"]
        candidates = (_joined(each, ["ipc", "uts"]) for each in mains)
        return next((each for each in candidates if each is not None), None)


def _no_target(name: str) -> str:
    return f"unable to find target container {name}: it does not run"


def _joined(container: Container | None, kinds: list[str]) -> Join | None:
    """Return the namespaces of a container; None if it is not running."""
    if container is None or container.running is None:
        return None
    processes = container.running.instance.processes()
    if processes is None or processes[1] is None:
        return None
    return Join(processes[0], processes[1], kinds)
