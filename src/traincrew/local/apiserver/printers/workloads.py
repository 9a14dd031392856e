"""Table cells of pods and workloads, including those of ``-o wide``.

Every function takes an object and the time (seconds since the epoch). Objects come from storage, so
their fields have the right types; any field may be absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.autoscaling.versions import to_v2
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.durations import age, between, seconds_of

from .parts import (
    NONE,
    age_of,
    conditions_of,
    containers_of,
    label_text,
    name_of,
    selector_text,
    template_spec,
)

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "autoscaler",
    "controller_revision",
    "cron_job",
    "daemon_set",
    "deployment",
    "disruption_budget",
    "job",
    "pod",
    "pod_template",
    "replica_set",
    "stateful_set",
]

_UNSET = "<unset>"
_UNKNOWN = "<unknown>"


def pod(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Pod; its status column is more specific than its phase."""
    spec, status = field(obj, "spec"), field(obj, "status")
    ready, total, reason, restarts, last_restart = _pod_summary(obj, spec, status)
    shown = str(restarts)
    if restarts and last_restart is not None:
        shown = f"{restarts} ({age(last_restart, now)} ago)"
    addresses = [address.get("ip") for address in items(status, "podIPs")]
    gates = [gate.get("conditionType", "") for gate in items(spec, "readinessGates")]
    conditions = conditions_of(obj)
    open_gates = sum(conditions.get(gate) == "True" for gate in gates)
    return [
        name_of(obj),
        f"{ready}/{total}",
        reason,
        shown,
        age_of(obj, now),
        (addresses[0] if addresses else status.get("podIP")) or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{open_gates}/{len(gates)}" if gates else NONE,
    ]


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


def _pod_summary(
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


def pod_template(obj: Document, _now: float) -> list[Any]:
    """Return the cells of a PodTemplate."""
    template = field(obj, "template")
    labels = field(template, "metadata", "labels")
    return [name_of(obj), *containers_of(field(template, "spec")), label_text(labels)]


# --- workloads -----------------------------------------------------------------------------------


def replica_set(obj: Document, now: float) -> list[Any]:
    """Return the cells of a ReplicaSet or a ReplicationController."""
    status, selector = field(obj, "status"), field(obj, "spec").get("selector")
    plain = obj.get("kind") == "ReplicationController"
    return [
        name_of(obj),
        field(obj, "spec").get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        *containers_of(template_spec(obj)),
        label_text(selector or {}) if plain else selector_text(selector),
    ]


def deployment(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Deployment."""
    spec, status = field(obj, "spec"), field(obj, "status")
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *containers_of(template_spec(obj)),
        selector_text(spec.get("selector")),
    ]


def stateful_set(obj: Document, now: float) -> list[Any]:
    """Return the cells of a StatefulSet."""
    ready = field(obj, "status").get("readyReplicas", 0)
    return [
        name_of(obj),
        f"{ready}/{field(obj, 'spec').get('replicas', 0)}",
        age_of(obj, now),
        *containers_of(template_spec(obj)),
    ]


def daemon_set(obj: Document, now: float) -> list[Any]:
    """Return the cells of a DaemonSet."""
    status = field(obj, "status")
    numbers = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(obj),
        *(status.get(number, 0) for number in numbers),
        label_text(field(template_spec(obj), "nodeSelector")),
        age_of(obj, now),
        *containers_of(template_spec(obj)),
        selector_text(field(obj, "spec").get("selector")),
    ]


def _job_status(obj: Document) -> str:
    conditions = conditions_of(obj)
    for name in ("Complete", "Failed"):
        if conditions.get(name) == "True":
            return name
    if obj["metadata"].get("deletionTimestamp") is not None:
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if conditions.get(name) == "True":
            return name
    return "Running"


def job(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Job."""
    spec, status = field(obj, "spec"), field(obj, "status")
    succeeded, wanted = status.get("succeeded", 0), spec.get("completions")
    completions = f"{succeeded}/{1 if wanted is None else wanted}"
    if wanted is None and spec.get("parallelism", 0) > 1:
        completions += f" of {spec['parallelism']}"
    return [
        name_of(obj),
        _job_status(obj),
        completions,
        between(status.get("startTime"), status.get("completionTime"), now),
        age_of(obj, now),
        *containers_of(template_spec(obj)),
        selector_text(spec.get("selector")),
    ]


def cron_job(obj: Document, now: float) -> list[Any]:
    """Return the cells of a CronJob."""
    spec, status = field(obj, "spec"), field(obj, "status")
    last = status.get("lastScheduleTime")
    inner = field(spec, "jobTemplate", "spec")
    return [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active", ())),
        NONE if last is None else age(last, now),
        age_of(obj, now),
        *containers_of(field(inner, "template", "spec")),
        selector_text(inner.get("selector")),
    ]


def controller_revision(obj: Document, now: float) -> list[Any]:
    """Return the cells of a ControllerRevision."""
    owner = NONE
    for reference in items(obj, "metadata", "ownerReferences"):
        if reference.get("controller"):
            group = reference["apiVersion"].rpartition("/")[0]
            kind = f"{reference['kind']}.{group}" if group else reference["kind"]
            owner = f"{kind.lower()}/{reference['name']}"
    return [name_of(obj), owner, obj.get("revision", 0), age_of(obj, now)]


def disruption_budget(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PodDisruptionBudget."""
    spec = field(obj, "spec")
    return [
        name_of(obj),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        field(obj, "status").get("disruptionsAllowed", 0),
        age_of(obj, now),
    ]


def autoscaler(obj: Document, now: float) -> list[Any]:
    """Return the cells of a HorizontalPodAutoscaler of either version."""
    if obj.get("apiVersion") == "autoscaling/v1":
        obj = to_v2(obj)
    spec = field(obj, "spec")
    target = field(spec, "scaleTargetRef")
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _measured(
            list(items(spec, "metrics")), list(items(field(obj, "status"), "currentMetrics"))
        ),
        str(spec.get("minReplicas", _UNSET)),
        spec.get("maxReplicas", 0),
        field(obj, "status").get("currentReplicas", 0),
        age_of(obj, now),
    ]


def _measured(metrics: list[Document], measured: list[Document]) -> str:
    """Return the first two metrics as ``current/target``."""
    texts = []
    for index, metric in enumerate(metrics):
        kind = metric.get("type", "")
        key = kind[:1].lower() + kind[1:]
        found = field(measured[index], key) if index < len(measured) else {}
        texts.append(_metric(key, field(metric, key), field(found, "current")))
    shown = ", ".join(texts[:2])
    if len(texts) > 2:
        shown += f" + {len(texts) - 2} more..."
    return shown or NONE


def _metric(kind: str, source: Document, current: Document) -> str:
    target = field(source, "target")
    average = target.get("averageValue")
    if kind in {"resource", "containerResource"}:
        name = source.get("name", "")
        if average is not None:
            return f"{name}: {current.get('averageValue', _UNKNOWN)}/{average}"
        share, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        left = _UNKNOWN if share is None else f"{share}%"
        return f"{name}: {left}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if kind not in {"external", "object", "pods"}:
        return "<unknown type>"
    if average is not None:
        note = "" if kind == "pods" else " (avg)"
        return f"{current.get('averageValue', _UNKNOWN)}/{average}{note}"
    return f"{current.get('value', _UNKNOWN)}/{target.get('value', '')}"
