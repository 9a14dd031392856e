"""PyTorchJobs that are given to training-operator and to ours, and what is compared of each."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from suites.shell import User

Document = dict[str, Any]
LABEL = "training.kubeflow.org/job-name"
OURS = ("KUBEFLOW_TRAINER_",)
"""Prefixes of variables for reports of progress, which all kinds here have."""


def container(script: str = "sleep 1", **fields: Any) -> Document:
    """The container that trains, as a shell script."""
    return {"name": "pytorch", "image": "busybox:1", "command": ["sh", "-c", script], **fields}


def replicas(
    count: int | None = 1, script: str = "sleep 1", policy: str | None = "OnFailure", **pod: Any
) -> Document:
    """Replicas of one type."""
    found: Document = {"template": {"spec": {"containers": [container(script)], **pod}}}
    if count is not None:
        found["replicas"] = count
    if policy is not None:
        found["restartPolicy"] = policy
    return found


def job(master: Document | None, worker: Document | None, **spec: Any) -> Document:
    """The spec of a job."""
    specs = {"Master": master, "Worker": worker}
    given = {name: each for name, each in specs.items() if each is not None}
    return {"pytorchReplicaSpecs": copy.deepcopy(given), **spec}


def manifest(name: str, spec: Document) -> Document:
    """A job."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata,
            "spec": spec}  # fmt: skip


_LONG = "sleep 600"
_LAST = "sleep 6"
_MASTER = replicas(script=_LAST)
"""A master that ends after its workers, so that all of them are counted."""
_PORTS = [{"name": "pytorchjob-port", "containerPort": 4711}, {"name": "http", "containerPort": 80}]
_TEMPLATE: Document = {
    "metadata": {"labels": {"team": "vision"}, "annotations": {"example.com/note": "kept"}},
    "spec": {
        "containers": [
            {"name": "beside", "image": "busybox:1", "command": ["sh", "-c", "sleep 1"]},
            container(ports=_PORTS, env=[{"name": "RANK", "value": "mine"}]),
        ],
        "initContainers": [{"name": "first", "image": "busybox:1", "command": ["true"]}],
    },
}
_MASTERS = copy.deepcopy(_TEMPLATE)
_MASTERS["spec"]["containers"][1]["command"] = ["sh", "-c", _LAST]
_METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_OPTIONS = {
    "rdzvBackend": "etcd",
    "rdzvHost": "etcd",
    "rdzvPort": 2379,
    "rdzvId": "run",
    "rdzvConf": [{"key": "timeout", "value": "9"}, {"key": "last_call_timeout", "value": "3"}],
    "standalone": True,
    "maxRestarts": 7,
}


class Case(NamedTuple):
    """A job, and the condition by which it has come to rest; empty if it gets none."""

    spec: Document
    ends: str


CASES: dict[str, Case] = {
    "master": Case(job(_MASTER, replicas(2)), "Succeeded"),
    "alone": Case(job(replicas(), None), "Succeeded"),
    "workers": Case(job(None, replicas(2)), "Succeeded"),
    "processes": Case(job(_MASTER, replicas(), nprocPerNode="2"), "Succeeded"),
    "defaults": Case(
        job(replicas(script=_LAST, policy=None), replicas(None, policy=None)), "Succeeded"
    ),
    "template": Case(
        job({**_MASTER, "template": _MASTERS}, {**replicas(), "template": _TEMPLATE}),
        "Succeeded",
    ),
    "elastic": Case(job(None, replicas(2), elasticPolicy={}), "Succeeded"),
    "smallest": Case(job(None, replicas(2), elasticPolicy={"minReplicas": 1}), "Succeeded"),
    "options": Case(job(None, replicas(2), elasticPolicy=_OPTIONS), "Succeeded"),
    "old-processes": Case(
        job(None, replicas(), elasticPolicy={"nProcPerNode": 3, "maxReplicas": 2}), "Succeeded"
    ),
    "elastic-master": Case(job(_MASTER, replicas(), elasticPolicy={"maxReplicas": 4}), "Succeeded"),
    "scaled": Case(
        job(None, replicas(script=_LONG), elasticPolicy={"maxReplicas": 4, "metrics": [_METRIC]}),
        "Running",
    ),
    "never": Case(job(replicas(script=_LONG), replicas(1, "exit 1", "Never")), "Failed"),
    "never-killed": Case(job(replicas(1, "exit 137", "Never"), None), "Failed"),
    "permanent": Case(job(replicas(1, "exit 1", "ExitCode"), None), "Failed"),
    "limit": Case(job(replicas(1, "exit 1"), None, runPolicy={"backoffLimit": 0}), "Failed"),
    "clean-all": Case(
        job(_MASTER, replicas(script=_LONG), runPolicy={"cleanPodPolicy": "All"}), "Succeeded"
    ),
    "clean-running": Case(
        job(_MASTER, replicas(script=_LONG), runPolicy={"cleanPodPolicy": "Running"}),
        "Succeeded",
    ),
    "suspended": Case(job(_MASTER, replicas(), runPolicy={"suspend": True}), "Suspended"),
    "overridden": Case(job(replicas(restartPolicy="Always"), None), "Succeeded"),
    "managed": Case(
        job(replicas(), None, runPolicy={"managedBy": "kubeflow.org/training-operator"}),
        "Succeeded",
    ),
    "elsewhere": Case(
        job(replicas(), None, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}), ""
    ),
}
_WRONG_NAME = replicas()
_WRONG_NAME["template"]["spec"]["containers"][0]["name"] = "main"
_NO_IMAGE = replicas()
del _NO_IMAGE["template"]["spec"]["containers"][0]["image"]
BROKEN: dict[str, tuple[Document, str]] = {
    "1-name": (job(replicas(), None), "metadata.name"),
    "container": (job(_WRONG_NAME, None), "container"),
    "image": (job(_NO_IMAGE, None), "image"),
    "masters": (job(replicas(2), None), "replicas"),
    "master-count": (job(replicas(None), None), "replicas"),
    "no-workers": (job(replicas(), replicas(0)), "replicas"),
    "type": ({"pytorchReplicaSpecs": {"PS": replicas()}}, "pytorchReplicaSpecs"),
    "no-worker": (job(replicas(), None, elasticPolicy={}), "Worker"),
    "twice": (
        job(None, replicas(), nprocPerNode="2", elasticPolicy={"nProcPerNode": 2}),
        "nProcPerNode",
    ),
    "manager": (job(replicas(), None, runPolicy={"managedBy": "me"}), "managedBy"),
    "none": ({}, "pytorchReplicaSpecs"),
}
"""Specs that both refuse, and a word of the field that both name."""


def observed(user: User, name: str) -> Document:
    """What a user sees of a job that has come to rest.

    Without the condition ``Created``, which training-operator loses if the autoscaler writes first.
    """
    selected = ("-l", f"{LABEL}={name}")
    status = user.get("pytorchjob", name).get("status", {})
    replica = status.get("replicaStatuses", {})
    events = user.get("event", "--field-selector", f"involvedObject.name={name}")["items"]
    events = [
        each
        for each in events
        if each["involvedObject"]["kind"] == "PyTorchJob"
        and not each["message"].endswith("exited with code 0")
    ]
    return {
        "pods": {_name(each): _pod(each) for each in user.get("pod", *selected)["items"]},
        "services": {
            _name(each): _service(each) for each in user.get("service", *selected)["items"]
        },
        "autoscalers": {
            _name(each): each["spec"]
            for each in user.get("hpa")["items"]
            if each["spec"]["scaleTargetRef"]["name"] == name
        },
        "conditions": sorted(
            (each["type"], each["reason"])
            for each in status.get("conditions", [])
            if each["status"] == "True" and each["type"] != "Created"
        ),
        "messages": sorted(
            each["message"]
            for each in status.get("conditions", [])
            if each["status"] == "True" and each["type"] != "Created"
        ),
        "replicas": {
            kind: {word: each.get(word, 0) for word in ("active", "succeeded", "failed")}
            for kind, each in replica.items()
        },
        # Those that there are: of one type, training-operator may not come to write it.
        "selectors": {
            kind: each["selector"] for kind, each in replica.items() if "selector" in each
        },
        "events": sorted({(each["type"], each["reason"]) for each in events}),
        "component": sorted({each["source"]["component"] for each in events}),
    }


def _name(found: Document) -> str:
    return str(found["metadata"]["name"])


def _head(found: Document) -> Document:
    metadata = found["metadata"]
    owners = [
        {key: value for key, value in each.items() if key != "uid"}
        for each in metadata["ownerReferences"]
    ]
    return {"labels": metadata["labels"], "ownerReferences": owners}


def _pod(found: Document) -> Document:
    spec = found["spec"]
    notes = found["metadata"].get("annotations", {})
    return {
        **_head(found),
        "annotations": {key: notes[key] for key in notes if key.startswith("example.com/")},
        "restartPolicy": spec["restartPolicy"],
        "containers": [_container(each) for each in spec["containers"]],
        "initContainers": [_container(each) for each in spec.get("initContainers", [])],
    }


def _container(found: Document) -> Document:
    fields = ("name", "image", "command", "args", "ports", "resources", "imagePullPolicy")
    env = [each for each in found.get("env", []) if not each["name"].startswith(OURS)]
    return {**{name: found.get(name) for name in fields}, "env": env}


def _service(found: Document) -> Document:
    spec = found["spec"]
    ports = sorted((each.get("name", ""), each["port"]) for each in spec["ports"])
    return {**_head(found), "selector": spec["selector"], "ports": ports,
            "clusterIP": spec["clusterIP"]}  # fmt: skip
