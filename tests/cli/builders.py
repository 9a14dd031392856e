"""Objects as an API server sends them, with what a test cares about."""

from typing import Any

from traincrew.cli.display.objects import Event, Job, Pod, Workload, decode


def owner(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def job(phase: str = "", *, conditions: list[dict[str, str]] | None = None, name: str = "digits",
        kind: str = "ChainerJob", message: str = "", progress: Any = None,
        spec: dict[str, Any] | None = None, version: str = "", created: str = "",
        **status: Any) -> Job:  # fmt: skip
    document: dict[str, Any] = {
        "kind": kind,
        "apiVersion": version,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": created,
        },
        "spec": spec or {},
        "status": {"phase": phase, "message": message, "conditions": conditions or [], **status},
    }
    if progress is not None:
        document["status"]["progress"] = progress
    return decode(document, Job)


def condition(type_: str, status: str = "True", reason: str = "", message: str = "") -> Any:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def workload(kind: str, name: str, *, replicas: int = 1, job_name: str = "digits") -> Workload:
    size = {"parallelism": replicas} if kind == "Job" else {"replicas": replicas}
    return decode(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "ownerReferences": [owner("ChainerJob", job_name)],
            },
            "spec": size,
        },
        Workload,
    )


def running(name: str = "chainer", restarts: int = 0, **more: Any) -> dict[str, Any]:
    state = {"running": {"startedAt": "2026-01-01T00:00:01Z"}}
    return {"name": name, "restartCount": restarts, "ready": True, "state": state, **more}


def ended(code: int, name: str = "chainer", *, reason: str = "", message: str = "",
          restarts: int = 0, seconds: int = 3,
          sidecar: bool = False) -> dict[str, Any]:  # fmt: skip
    state = {
        "exitCode": code,
        "reason": reason or ("Error" if code else "Completed"),
        "message": message,
        "startedAt": "2026-01-01T00:00:01Z",
        "finishedAt": f"2026-01-01T00:00:{1 + seconds:02}Z",
    }
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "restartCount": restarts, "state": {"terminated": state}, **policy}


def waiting(reason: str, message: str = "", name: str = "chainer", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}, **more}


def pod(
    name: str,
    phase: str = "Pending",
    *containers: dict[str, Any],
    owned_by: tuple[str, str] | None = None,
    role: str = "",
    node: str = "local",
    init: list[dict[str, Any]] | None = None,
    app: list[str] | None = None,
    conditions: list[dict[str, str]] | None = None,
    deleting: bool = False,
    labels: dict[str, str] | None = None,
    **status: Any,
) -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if owned_by is not None:
        metadata["ownerReferences"] = [owner(*owned_by)]
    if labels is not None:
        metadata["labels"] = labels
    if role:
        metadata["labels"] = {"chainerjob.kubeflow.org/role": role, **(labels or {})}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    return decode(
        {
            "metadata": metadata,
            "spec": {
                "nodeName": node,
                "containers": [{"name": name} for name in app or ["chainer"]],
                "initContainers": [
                    {"name": one["name"], "restartPolicy": one.get("restartPolicy")}
                    for one in init or []
                ],
            },
            "status": {
                "phase": phase,
                "conditions": conditions or [],
                "containerStatuses": list(containers),
                "initContainerStatuses": init or [],
                **status,
            },
        },
        Pod,
    )


def event(message: str, *, reason: str = "BackOff", type_: str = "Warning", count: int = 1,
          about: tuple[str, str] = ("Pod", "digits-master-x")) -> Event:  # fmt: skip
    return decode(
        {
            "metadata": {"name": "e1", "uid": "uid-e1"},
            "involvedObject": {"kind": about[0], "name": about[1]},
            "type": type_,
            "reason": reason,
            "message": message,
            "count": count,
        },
        Event,
    )
