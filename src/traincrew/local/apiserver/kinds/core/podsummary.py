"""What a pod does, in the words of ``kubectl get``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.shared.cells import conditions_of
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.durations import seconds_of

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["pod_summary"]


class _Restarts:
    """Number of container restarts, and the time of the last one."""

    def __init__(self) -> None:
        self.count = 0
        self.last: str | None = None

    def add(self, status: Document) -> None:
        self.count += status.get("restartCount", 0)
        finished = field(status, "lastState", "terminated").get("finishedAt")
        moment, last = seconds_of(finished), seconds_of(self.last)
        if moment is not None and (last is None or last < moment):
            self.last = finished


def pod_summary(
    obj: Document, spec: Document, status: Document
) -> tuple[int, int, str, int, str | None]:
    """Return ready containers, all containers, status, restarts and the time of the last one."""
    reason = status.get("reason") or status.get("phase", "")
    for condition in items(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    sidecars = {
        container.get("name")
        for container in items(spec, "initContainers")
        if container.get("restartPolicy") == "Always"
    }
    total = len(list(items(spec, "containers"))) + len(sidecars)
    ready = 0
    restarts, sidecar_restarts = _Restarts(), _Restarts()
    initializing = False
    init_count = len(list(items(spec, "initContainers")))
    for index, container in enumerate(items(status, "initContainerStatuses")):
        restarts.add(container)
        sidecar = container.get("name") in sidecars
        if sidecar:
            sidecar_restarts.add(container)
        state = field(container, "state")
        terminated = state.get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        waiting = field(state, "waiting").get("reason")
        if terminated is not None:
            reason = "Init:" + _ending(terminated)
        elif waiting and waiting != "PodInitializing":
            reason = f"Init:{waiting}"
        else:
            reason = f"Init:{index}/{init_count}"
        initializing = True
        break
    conditions = conditions_of(obj)
    if not initializing or conditions.get("Initialized") == "True":
        restarts = sidecar_restarts
        running_ready, reason = _main_containers(status, reason, restarts, conditions)
        ready += running_ready
    if obj["metadata"].get("deletionTimestamp") is not None:
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return ready, total, reason, restarts.count, restarts.last


def _main_containers(
    status: Document, reason: str, restarts: _Restarts, conditions: dict[str, str]
) -> tuple[int, str]:
    """Return the number of ready running containers and the pod status they result in."""
    ready = 0
    failure = ""
    for container in reversed(list(items(status, "containerStatuses"))):
        restarts.add(container)
        state = field(container, "state")
        terminated = state.get("terminated")
        if field(state, "waiting").get("reason"):
            reason = state["waiting"]["reason"]
        elif terminated is not None:
            reason = _ending(terminated)
            if terminated.get("exitCode"):
                failure = reason
        elif container.get("ready") and "running" in state:
            ready += 1
    if reason == "Completed":
        if ready and conditions.get("Ready") == "True":
            reason = "Running"
        elif failure:
            reason = failure
        elif ready:
            reason = "NotReady"
    return ready, reason


def _ending(terminated: Document) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
