"""MXJobs that are given to training-operator 1.8 and to ours."""

from __future__ import annotations

import copy
from typing import Any

from suites.operators.beside import Case

Document = dict[str, Any]


def container(script: str = "sleep 1", **fields: Any) -> Document:
    """The container that trains, as a shell script."""
    return {"name": "mxnet", "image": "busybox:1", "command": ["sh", "-c", script], **fields}


def replicas(
    count: int | None = 1, script: str = "sleep 1", policy: str | None = "Never", **pod: Any
) -> Document:
    """Replicas of one type."""
    found: Document = {"template": {"spec": {"containers": [container(script)], **pod}}}
    if count is not None:
        found["replicas"] = count
    if policy is not None:
        found["restartPolicy"] = policy
    return found


def job(mode: str = "MXTrain", run: Document | None = None, **specs: Document) -> Document:
    """The spec of a job."""
    found: Document = {"jobMode": mode, "mxReplicaSpecs": copy.deepcopy(specs)}
    return found if run is None else {**found, "runPolicy": run}


_LONG = "sleep 600"
_SCHEDULER = replicas(script="sleep 6")
"""A scheduler that ends after the others, so that all of them are counted."""
_FAILS_LATER = "sleep 4; exit 1"
"""Fails when the others run, so that they are counted: theirs does not count after the end."""
_PORTS = [{"name": "mxjob-port", "containerPort": 4711}, {"name": "http", "containerPort": 80}]
_TEMPLATE: Document = {
    "metadata": {
        "labels": {"team": "vision"},
        "annotations": {"example.com/note": "kept", "tuner-server-key": "2080ti"},
    },
    "spec": {
        "containers": [
            {"name": "beside", "image": "busybox:1", "command": ["sh", "-c", "sleep 1"]},
            container(ports=_PORTS, env=[{"name": "DMLC_ROLE", "value": "mine"}]),
        ],
        "initContainers": [{"name": "first", "image": "busybox:1", "command": ["true"]}],
    },
}

CASES: dict[str, Case] = {
    "train": Case(job(Scheduler=_SCHEDULER, Server=replicas(2), Worker=replicas(2)), "Succeeded"),
    "alone": Case(job(Worker=replicas()), "Succeeded"),
    "defaults": Case(
        job(
            Scheduler=replicas(None, "sleep 6", None),
            Server=replicas(None, policy=None),
            Worker=replicas(None, policy=None),
        ),
        "Succeeded",
    ),
    "template": Case(
        job(Scheduler=_SCHEDULER, Server=replicas(), Worker={**replicas(), "template": _TEMPLATE}),
        "Succeeded",
    ),
    "tune": Case(
        job("MXTune", TunerTracker=replicas(), TunerServer=replicas(2), Tuner=replicas()), ""
    ),
    "never": Case(
        job(
            Scheduler=replicas(script=_LONG),
            Server=replicas(script=_LONG),
            Worker=replicas(script=_FAILS_LATER),
        ),
        "Failed",
    ),
    "permanent": Case(job(Worker=replicas(script="exit 1", policy="ExitCode")), "Failed"),
    "limit": Case(
        job(run={"backoffLimit": 0}, Worker=replicas(script="exit 1", policy="OnFailure")),
        "Failed",
    ),
    "clean-all": Case(
        job(run={"cleanPodPolicy": "All"}, Scheduler=_SCHEDULER, Worker=replicas(script=_LONG)),
        "Succeeded",
    ),
    "clean-running": Case(
        job(run={"cleanPodPolicy": "Running"}, Scheduler=_SCHEDULER, Worker=replicas(script=_LONG)),
        "Succeeded",
    ),
    "suspended": Case(
        job(run={"suspend": True}, Scheduler=_SCHEDULER, Worker=replicas()), "Suspended"
    ),
    "overridden": Case(job(Worker=replicas(restartPolicy="Always")), "Succeeded"),
}
_WRONG_NAME = replicas()
_WRONG_NAME["template"]["spec"]["containers"][0]["name"] = "main"
_NO_IMAGE = replicas()
del _NO_IMAGE["template"]["spec"]["containers"][0]["image"]
REFUSED: dict[str, tuple[Document, str]] = {
    "mode": ({"mxReplicaSpecs": {"Worker": replicas()}}, "jobMode"),
    "none": ({"jobMode": "MXTrain"}, "mxReplicaSpecs"),
    "count": (job(Worker={**replicas(), "replicas": "two"}), "replicas"),
}
"""Specs that both refuse, and a word of the field that both name."""
UNSERVED: dict[str, tuple[Document, str]] = {
    "1-name": (job(Worker=replicas()), "metadata.name"),
    "container": (job(Worker=_WRONG_NAME), "container"),
    "image": (job(Worker=_NO_IMAGE), "image"),
}
"""Specs that ours refuses, and a word of the field; training-operator reports them in an event."""
