"""An ElasticJob with many workers that need not run: objects with statuses, through the API."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import PODS, Resource

ELASTIC_JOBS = Resource("elastic.pytorch.org", "v1alpha1", "elasticjobs", "ElasticJob")
NAMESPACE = "default"
AT_ONCE = 50
PODS_OF_A_NODE = 8
CONTAINERS = [{"name": "elasticjob-worker", "image": "python:3.11", "command": ["true"]}]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(*, restarts: int = 0) -> dict[str, Any]:
    """Return the status of a pod that runs and is ready."""
    return _status("Running", {"running": {"startedAt": _now()}}, restarts=restarts)


def failed(exit_code: int) -> dict[str, Any]:
    """Return the status of a pod whose container has ended."""
    ended = {"startedAt": _now(), "finishedAt": _now(), "exitCode": exit_code, "reason": "Error"}
    return _status("Failed", {"terminated": ended})


def unscheduled() -> dict[str, Any]:
    """Return the status of a pod that no node has room for."""
    message = "0/250 nodes are available: 250 Insufficient nvidia.com/gpu."
    condition = _condition("PodScheduled", "False", reason="Unschedulable", message=message)
    return {"phase": "Pending", "conditions": [condition]}


def _condition(kind: str, status: str, **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": _now(), **more}


def _status(phase: str, state: dict[str, Any], *, restarts: int = 0) -> dict[str, Any]:
    ready = phase == "Running"
    container = {
        "name": CONTAINERS[0]["name"], "image": "python:3.11", "imageID": "", "ready": ready,
        "restartCount": restarts, "state": state,
    }  # fmt: skip
    conditions = [_condition("PodScheduled", "True"), _condition("Ready", str(ready))]
    return {
        "phase": phase,
        "startTime": _now(),
        "conditions": conditions,
        "containerStatuses": [container],
    }


def pod_name(job: str, rank: int) -> str:
    return f"{job}-worker-{rank}"


def _pod(job: str, rank: int, *, scheduled: bool) -> dict[str, Any]:
    labels = {
        "group-name": "elastic.pytorch.org", "job-name": job,
        "replica-type": "worker", "replica-index": str(rank),
    }  # fmt: skip
    # Of no scheduler and no node of this cluster, so that nothing starts it.
    spec: dict[str, Any] = {"containers": CONTAINERS, "schedulerName": "none"}
    if scheduled:
        spec["nodeName"] = f"node-{rank // PODS_OF_A_NODE}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod_name(job, rank), "labels": labels},
        "spec": spec,
    }


def _job(name: str, workers: int) -> dict[str, Any]:
    worker = {"replicas": workers, "template": {"spec": {"containers": CONTAINERS}}}
    return {
        "apiVersion": ELASTIC_JOBS.api_version,
        "kind": ELASTIC_JOBS.kind,
        "metadata": {"name": name},
        "spec": {
            "rdzvEndpoint": "etcd:2379", "minReplicas": 1, "maxReplicas": workers,
            "replicaSpecs": {"Worker": worker},
        },
    }  # fmt: skip


async def create_job(kubeconfig: str, name: str, statuses: list[dict[str, Any]]) -> None:
    """Create a job with a pod for each status."""
    async with Client(load_config(kubeconfig)) as client:
        await client.create(ELASTIC_JOBS, _job(name, len(statuses)), NAMESPACE)
        counts = {"Worker": {"ready": sum(each["phase"] == "Running" for each in statuses)}}
        await client.patch(
            ELASTIC_JOBS, name, NAMESPACE, subresource="status",
            patch={"status": {"phase": "Running", "startTime": _now(), "replicaStatuses": counts}},
        )  # fmt: skip
        for first in range(0, len(statuses), AT_ONCE):
            ranks = range(first, min(first + AT_ONCE, len(statuses)))
            await asyncio.gather(
                *(_create_pod(client, name, rank, statuses[rank]) for rank in ranks)
            )


async def _create_pod(client: Client, job: str, rank: int, status: dict[str, Any]) -> None:
    await client.create(PODS, _pod(job, rank, scheduled="startTime" in status), NAMESPACE)
    await set_status(client, job, rank, status)


async def set_status(client: Client, job: str, rank: int, status: dict[str, Any]) -> None:
    """Change the status of a pod."""
    await client.patch(
        PODS, pod_name(job, rank), NAMESPACE, patch={"status": status}, subresource="status"
    )


def address_of(job: str) -> str:
    """Return how the page names a job."""
    return f"{ELASTIC_JOBS.kind}.{ELASTIC_JOBS.group}/{NAMESPACE}/{job}"
