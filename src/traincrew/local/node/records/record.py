"""The observed state of a pod's containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NOT_LOCATED = "The container could not be located when the pod was terminated"

__all__ = ["ContainerRecord", "PodRecord", "Terminated", "is_sidecar"]


class Terminated(Struct, frozen=True):
    """How a container instance ended. Times are RFC 3339 in UTC."""

    exit_code: int
    reason: str
    signal: int = 0
    message: str = ""
    started_at: str = ""
    finished_at: str = ""
    container_id: str = ""


class ContainerRecord(Struct):
    """One container of a pod.

    Attributes:
        state: as in its status.
        reason: why it waits (`ContainerCreating`, `CrashLoopBackOff`, …).
        message: details of the reason.
        container_id: of the current or last instance; empty before the first.
        started_at: of the current instance.
        terminated: how the current instance ended, in state `terminated`.
        last: how the previous instance ended.
        restarts: number of restarts.
        started: it is running, and its startup probe has succeeded.
        ready: its readiness probe has succeeded.
        resources: those that it has while a resize is pending; None for those of its spec.
    """

    name: str
    state: Literal["waiting", "running", "terminated"] = "waiting"
    reason: str = ""
    message: str = ""
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    started_at: str = ""
    terminated: Terminated | None = None
    last: Terminated | None = None
    restarts: int = 0
    started: bool = False
    ready: bool = False
    resources: Mapping[str, Any] | None = None

    @property
    def was_tried(self) -> bool:
        """Whether an instance was started, as far as is known."""
        return self.state != "waiting" or self.last is not None

    def wait(self, reason: str, message: str = "") -> None:
        """Record why no instance runs; the end of the current one becomes the last state."""
        if self.terminated is not None:
            self.last, self.terminated = self.terminated, None
        self.state, self.reason, self.message = "waiting", reason, message
        self.started = self.ready = False

    def run(self, container_id: str, started_at: str, restarts: int) -> None:
        """Record that an instance is running."""
        if self.terminated is not None:
            self.last, self.terminated = self.terminated, None
        self.state, self.reason, self.message = "running", "", ""
        self.container_id, self.started_at, self.restarts = container_id, started_at, restarts
        self.started = self.ready = False

    def end(self, terminated: Terminated) -> None:
        """Record that the instance has ended."""
        if self.terminated is not None:
            self.last = self.terminated
        self.state, self.reason, self.message = "terminated", "", ""
        self.terminated = terminated
        self.started = self.ready = False

    def close(self) -> bool:
        """Record that no instance will run any more: a waiting container has ended.

        Returns:
            Whether its end is known.
        """
        if self.state == "waiting" and self.last is None:
            self.end(Terminated(137, "ContainerStatusUnknown", message=_NOT_LOCATED))
            return False
        if self.state == "waiting" and self.last is not None:
            last, self.last = self.last, None
            self.end(last)
        return True


class PodRecord(Struct):
    """One pod.

    Attributes:
        start_time: when the node accepted it, RFC 3339.
        failure: (reason, message) if the node itself ended it, for instance `DeadlineExceeded`.
        pending_resize: (reason, message) if the node cannot give it the resources of its spec.
        prepared: its volumes are prepared.
        closed: none of its containers runs or starts any more.
        unlocated: when it was closed, the end of some container was unknown.
        containers: by name.
        ephemeral: the ephemeral ones by name; they do not affect the pod's phase.
    """

    start_time: str
    host_ip: str = ""
    pod_ip: str = ""
    prepared: bool = False
    closed: bool = False
    unlocated: bool = False
    failure: tuple[str, str] | None = None
    pending_resize: tuple[str, str] | None = None
    containers: dict[str, ContainerRecord] = field(default_factory=dict)
    ephemeral: dict[str, ContainerRecord] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: Mapping[str, Any], start_time: str, host_ip: str) -> PodRecord:
        """Return the record of a pod before its first container starts."""
        record = cls(start_time, host_ip)
        for container in _all(spec):
            record.containers[container["name"]] = _new_record(spec, container)
        record.add_ephemeral(spec)
        return record

    def add_ephemeral(self, spec: Mapping[str, Any]) -> None:
        """Add the ephemeral containers that were added to the pod."""
        for container in spec.get("ephemeralContainers") or ():
            if container["name"] not in self.ephemeral:
                self.ephemeral[container["name"]] = _new_record(spec, container)

    def container(self, name: str) -> ContainerRecord:
        """Return the record of a container, of any kind."""
        return self.containers.get(name) or self.ephemeral[name]

    def close(self, spec: Mapping[str, Any]) -> None:
        """Record that no container of the pod runs or starts any more.

        Upstream's rule (`status_manager.go`, TerminatePod): once a pod has been initialized, main
        containers whose end is unknown count as failed; so do init containers up to the last one
        that has been started, and the first one in any case.
        """
        self.closed = True
        inits = [self.containers[each["name"]] for each in spec.get("initContainers") or ()]
        mains = [self.containers[each["name"]] for each in spec.get("containers") or ()]
        tried = max((index for index, each in enumerate(inits) if each.was_tried), default=0)
        closing = inits[: tried + 1]
        if (
            not inits
            or any(each.was_tried for each in mains)
            or (inits[-1].terminated is not None and inits[-1].terminated.exit_code == 0)
        ):
            closing += mains
        located = [each.close() for each in closing]
        self.unlocated = not all(located)


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Return whether an init container runs beside the main ones (KEP-753)."""
    return container.get("restartPolicy") == "Always"


def _new_record(spec: Mapping[str, Any], container: Mapping[str, Any]) -> ContainerRecord:
    """Return the record of a container before its first start."""
    reason = "PodInitializing" if spec.get("initContainers") else "ContainerCreating"
    return ContainerRecord(container["name"], reason=reason, image=container.get("image", ""))


def _all(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()
