"""PyTorchJobs that are given to training-operator and to ours."""

from __future__ import annotations

import copy
from typing import Any

from suites.operators.beside import Case

Document = dict[str, Any]


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


_LONG = "sleep 600"
_LAST = "sleep 6"
_MASTER = replicas(script=_LAST)
"""A master that ends after its workers, so that all of them are counted."""
_FAILS_LATER = "sleep 4; exit 1"
"""Fails when the others run, so that they are counted: theirs does not count after the end."""
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
    "never": Case(job(replicas(script=_LONG), replicas(1, _FAILS_LATER, "Never")), "Failed"),
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
