"""The status of a pod, computed from its specification and its record. Pure.

The rules are upstream's: `kubelet_pods.go` (getPhase, convertToAPIContainerStatuses) and
`status/generate.go` (conditions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from traincrew.local.node.records.record import is_sidecar

if TYPE_CHECKING:
    from traincrew.local.node.records.record import ContainerRecord, PodRecord, Terminated

__all__ = ["FINISHED", "OWN_CONDITIONS", "phase_of", "pod_status"]

Document = Mapping[str, Any]

FINISHED = frozenset({"Succeeded", "Failed"})
OWN_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "PodResizePending",
)


def pod_status(
    spec: Document, record: PodRecord, previous: Document, now: str, *, generation: int = 0
) -> dict[str, Any]:
    """Return the status of a pod.

    Args:
        spec: Of the pod.
        record: The observed state of its containers.
        previous: The status so far: conditions of others are kept, times of unchanged conditions
            too, and a final phase stays.
        now: RFC 3339, without fractions.
        generation: Of the specification.
    """
    phase = phase_of(spec, record)
    if previous.get("phase") in FINISHED:
        phase = previous["phase"]
    # For a pod closed with an unlocated container, conditions keep what was known before.
    known = "Pending" if record.unlocated else phase
    if phase in FINISHED and _debugged(record):
        # A pod has finished when all its containers have (`status_manager.go`, mergePodStatus).
        phase = previous.get("phase") or "Pending"
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": _conditions(spec, record, known, previous.get("conditions") or (), now),
        "startTime": record.start_time,
        "hostIP": record.host_ip,
        "hostIPs": [{"ip": record.host_ip}],
        "containerStatuses": [
            _container_status(each, record.containers[each["name"]]) for each in spec["containers"]
        ],
    }
    if record.pod_ip:
        status["podIP"] = record.pod_ip
        status["podIPs"] = [{"ip": record.pod_ip}]
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _init_status(each, record.containers[each["name"]]) for each in spec["initContainers"]
        ]
    if ephemeral := spec.get("ephemeralContainers"):
        record.add_ephemeral(spec)
        status["ephemeralContainerStatuses"] = [
            _ephemeral_status(each, record.ephemeral[each["name"]])
            for each in sorted(ephemeral, key=lambda container: str(container["name"]))
        ]
    if record.failure is not None:
        status["reason"], status["message"] = record.failure
    if generation:
        status["observedGeneration"] = generation
        for condition in status["conditions"]:
            if condition["type"] in OWN_CONDITIONS:
                condition["observedGeneration"] = generation
    return status


def phase_of(spec: Document, record: PodRecord) -> str:
    """Return `Pending`, `Running`, `Succeeded` or `Failed`."""
    policy = spec.get("restartPolicy", "Always")
    mains = [record.containers[each["name"]] for each in spec["containers"]]
    sidecars = [
        record.containers[each["name"]]
        for each in spec.get("initContainers") or ()
        if is_sidecar(each)
    ]
    if record.failure is not None:
        busy = any(each.state == "running" for each in record.containers.values())
        return "Running" if busy else "Failed"
    if record.closed:
        ends = [each.terminated for each in mains]
        succeeded = all(end is not None and end.exit_code == 0 for end in ends)
        return "Succeeded" if succeeded else "Failed"
    blocking = _unfinished_init(spec, record)
    if blocking:
        failed = [
            each for each in blocking if each.terminated is not None and each.terminated.exit_code
        ]
        return "Failed" if failed and policy == "Never" else "Pending"
    if any(each.state == "waiting" and each.last is None for each in mains):
        return "Pending"
    if any(each.state == "running" for each in [*mains, *sidecars]):
        return "Running"
    ends = [each.terminated or each.last for each in mains]
    if policy == "Always" or any(each.state == "waiting" for each in mains):
        return "Running"
    if all(end is not None and end.exit_code == 0 for end in ends):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _debugged(record: PodRecord) -> bool:
    """Return whether an ephemeral container is running that still has to be terminated."""
    running = any(each.state == "running" for each in record.ephemeral.values())
    return running and not record.closed


def _unfinished_init(spec: Document, record: PodRecord) -> list[ContainerRecord]:
    """Return the init containers that the main ones still wait for.

    Once a main container has started there are none, whatever a sidecar does.
    """
    if any(
        record.containers[each["name"]].state != "waiting"
        or record.containers[each["name"]].last is not None
        for each in spec["containers"]
    ):
        return []
    unfinished = []
    for each in spec.get("initContainers") or ():
        container = record.containers[each["name"]]
        done = container.started if is_sidecar(each) else _succeeded(container)
        if not done:
            unfinished.append(container)
    return unfinished


def _succeeded(container: ContainerRecord) -> bool:
    return container.terminated is not None and container.terminated.exit_code == 0


def _conditions(
    spec: Document,
    record: PodRecord,
    phase: str,
    previous: Sequence[Document],
    now: str,
) -> list[dict[str, Any]]:
    finished = phase in FINISHED
    unfinished = [each.name for each in _unfinished_init(spec, record)]
    serving = [
        *(each["name"] for each in spec.get("initContainers") or () if is_sidecar(each)),
        *(each["name"] for each in spec["containers"]),
    ]
    unready = [name for name in serving if not record.containers[name].ready]
    ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "")

    initialized: dict[str, Any] = {"status": "True"}
    if phase == "Succeeded":
        initialized["reason"] = "PodCompleted"
    elif unfinished:
        initialized = {
            "status": "False",
            "reason": "ContainersNotInitialized",
            "message": f"containers with incomplete status: [{' '.join(unfinished)}]",
        }
    containers: dict[str, Any] = {"status": "True"}
    if ended:
        containers = {"status": "False", "reason": ended}
    elif unready:
        containers = {
            "status": "False",
            "reason": "ContainersNotReady",
            "message": f"containers with unready status: [{' '.join(unready)}]",
        }
    ready = containers
    if containers["status"] == "True" and (gates := _closed_gates(spec, previous)):
        ready = {
            "status": "False",
            "reason": "ReadinessGatesNotReady",
            "message": "; ".join(gates),
        }
    wanted = {
        "PodReadyToStartContainers": {
            "status": "True" if record.prepared and not finished else "False"
        },
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": containers,
        "PodScheduled": {"status": "True"},
    }
    if record.pending_resize is not None and not finished:
        reason, message = record.pending_resize
        wanted["PodResizePending"] = {"status": "True", "reason": reason, "message": message}
    return _with_times(wanted, previous, now)


def _with_times(
    wanted: Mapping[str, Document], previous: Sequence[Document], now: str
) -> list[dict[str, Any]]:
    """Return conditions by type as a list, with the time of each one's last transition."""
    before = {condition["type"]: condition for condition in previous}
    # Those of others come first, as a kubelet writes them.
    conditions = [dict(each) for each in previous if each["type"] not in OWN_CONDITIONS]
    for kind in (each for each in OWN_CONDITIONS if each in wanted):
        old = before.get(kind) or {}
        same = old.get("status") == wanted[kind]["status"]
        since = old.get("lastTransitionTime") if same else None
        times = {"lastProbeTime": None, "lastTransitionTime": since or now}
        conditions.append({"type": kind, **wanted[kind], **times})
    return conditions


def _closed_gates(spec: Document, conditions: Sequence[Document]) -> list[str]:
    """Return messages about readiness gates that keep a pod from being ready."""
    states = {condition["type"]: condition.get("status") for condition in conditions}
    closed = []
    for gate in spec.get("readinessGates") or ():
        kind = gate.get("conditionType", "")
        if kind not in states:
            closed.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif states[kind] != "True":
            closed.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {states[kind]}'
            )
    return closed


def _init_status(container: Document, record: ContainerRecord) -> dict[str, Any]:
    status = _container_status(container, record)
    if not is_sidecar(container):
        # An init container that has succeeded counts as ready, as upstream.
        status["ready"] = _succeeded(record)
    return status


def _ephemeral_status(container: Document, record: ContainerRecord) -> dict[str, Any]:
    """Return the status of a container without probes: neither started nor ready."""
    status = _container_status(container, record) | {"ready": False}
    del status["started"]
    return status


def _container_status(container: Document, record: ContainerRecord) -> dict[str, Any]:
    status: dict[str, Any] = {
        "name": record.name,
        "image": record.image,
        "imageID": record.image_id,
        "ready": record.ready,
        "started": record.started,
        "restartCount": record.restarts,
        "state": _state(record),
        "lastState": {} if record.last is None else {"terminated": _terminated(record.last)},
    }
    if mounts := [_mount_status(each) for each in container.get("volumeMounts") or ()]:
        status["volumeMounts"] = mounts
    if record.container_id:
        status["containerID"] = record.container_id
        allocated = container.get("resources") if record.resources is None else record.resources
        resources = dict(allocated or {})
        status["resources"] = resources
        if requests := resources.get("requests"):
            status["allocatedResources"] = dict(requests)
    return status


def _mount_status(mount: Document) -> dict[str, Any]:
    status = {"name": mount["name"], "mountPath": mount["mountPath"]}
    # Mounts below a read-only one stay writable: `recursiveReadOnly` is not supported.
    return status | (
        {"readOnly": True, "recursiveReadOnly": "Disabled"} if mount.get("readOnly") else {}
    )


def _state(record: ContainerRecord) -> dict[str, Any]:
    if record.state == "terminated" and record.terminated is not None:
        return {"terminated": _terminated(record.terminated)}
    if record.state == "running":
        return {"running": {"startedAt": record.started_at}}
    waiting = {"reason": record.reason or "ContainerCreating"}
    return {"waiting": waiting | ({"message": record.message} if record.message else {})}


def _terminated(end: Terminated) -> dict[str, Any]:
    state: dict[str, Any] = {"exitCode": end.exit_code, "reason": end.reason}
    optional = {
        "signal": end.signal,
        "message": end.message,
        "startedAt": end.started_at,
        "finishedAt": end.finished_at,
        "containerID": end.container_id,
    }
    return state | {key: value for key, value in optional.items() if value}
