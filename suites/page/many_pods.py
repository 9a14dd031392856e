"""An ElasticJob with many workers that need not run: objects with statuses, through the API."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import PODS, Resource

if TYPE_CHECKING:
    import traincrew

ELASTIC_JOBS = Resource("elastic.pytorch.org", "v1alpha1", "elasticjobs", "ElasticJob")
NAMESPACE = "default"
AT_ONCE = 50
PODS_OF_A_NODE = 8
CONTAINERS = [{"name": "elasticjob-worker", "image": "python:3.11", "command": ["true"]}]


def install(cluster: traincrew.LocalCluster) -> None:
    """Install the kinds without an operator, which would manage the pods."""
    program = Path(sys.executable).with_name("traincrew")
    command = [str(program), "manifests", "--crds-only"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    for document in yaml.load_all(printed.stdout, yaml.CSafeLoader):
        cluster.client.create(document)


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


def pod(job: str, rank: int, **spec: Any) -> dict[str, Any]:
    """Return a pod of a job."""
    labels = {
        "group-name": "elastic.pytorch.org", "job-name": job,
        "replica-type": "worker", "replica-index": str(rank),
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod_name(job, rank), "labels": labels},
        "spec": {"containers": CONTAINERS, **spec},
    }


def printing(job: str, rank: int, program: str) -> dict[str, Any]:
    """Return a pod that really runs a Python program."""
    container = {**CONTAINERS[0], "command": ["python", "-c", program]}
    return pod(job, rank, containers=[container], restartPolicy="Never")


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


async def create_job(client: Client, name: str, workers: int, namespace: str = NAMESPACE) -> None:
    """Create a job without its pods."""
    await client.create(ELASTIC_JOBS, _job(name, workers), namespace)
    counts = {"Worker": {"ready": workers}}
    await client.patch(
        ELASTIC_JOBS, name, namespace, subresource="status",
        patch={"status": {"phase": "Running", "startTime": _now(), "replicaStatuses": counts}},
    )  # fmt: skip


async def create_pods(
    client: Client, job: str, statuses: list[dict[str, Any]], namespace: str = NAMESPACE
) -> None:
    """Create a pod for each status; nothing starts them."""
    for first in range(0, len(statuses), AT_ONCE):
        ranks = range(first, min(first + AT_ONCE, len(statuses)))
        await asyncio.gather(
            *(_create_pod(client, job, rank, statuses[rank], namespace) for rank in ranks)
        )


async def _create_pod(
    client: Client, job: str, rank: int, status: dict[str, Any], namespace: str
) -> None:
    # Of no scheduler and no node of this cluster.
    node = {"nodeName": f"node-{rank // PODS_OF_A_NODE}"} if "startTime" in status else {}
    await client.create(PODS, pod(job, rank, schedulerName="none", **node), namespace)
    await set_status(client, job, rank, status, namespace)


async def set_status(
    client: Client, job: str, rank: int, status: dict[str, Any], namespace: str = NAMESPACE
) -> None:
    """Change the status of a pod."""
    await client.patch(
        PODS, pod_name(job, rank), namespace, patch={"status": status}, subresource="status"
    )


def create(
    cluster: traincrew.LocalCluster,
    job: str,
    statuses: list[dict[str, Any]],
    workers: int = 0,
    namespace: str = NAMESPACE,
) -> None:
    """Create a job with a pod for each status.

    Args:
        cluster: Where.
        job: Its name.
        statuses: By rank.
        workers: How many the job asks for, if that is another number.
        namespace: Its namespace.
    """

    async def work() -> None:
        async with Client(load_config(str(cluster.kubeconfig))) as client:
            await create_job(client, job, workers or len(statuses), namespace)
            await create_pods(client, job, statuses, namespace)

    asyncio.run(work())


def change(cluster: traincrew.LocalCluster, job: str, rank: int, status: dict[str, Any]) -> None:
    """Change the status of a pod."""

    async def work() -> None:
        async with Client(load_config(str(cluster.kubeconfig))) as client:
            await set_status(client, job, rank, status)

    asyncio.run(work())


def report(
    cluster: traincrew.LocalCluster, job: str, rank: int, percentage: float, *, behind: bool
) -> None:
    """Report how far a rank is, of a job whose median is 47%, and whether it is behind."""
    pod = pod_name(job, rank)
    message = f"Rank {rank} in pod {pod} is behind: it has done 12%, and the median is 45%."
    reason, status = ("RankBehind", "False") if behind else ("Advancing", "True")
    slowest = [
        {"rank": rank, "pod": pod, "percentage": percentage, "lastAdvanceTime": _now()},
    ]
    change = {
        "conditions": [_condition("Progressing", status, reason=reason, message=message)],
        "progress": {
            "percentage": 47,
            "lastUpdateTime": _now(),
            "ranks": {"count": 1000, "median": 47, "slowest": slowest},
        },
    }

    set_job(cluster, job, change)


def address_of(job: str, namespace: str = NAMESPACE) -> str:
    """Return how the page names a job."""
    return f"{ELASTIC_JOBS.kind}.{ELASTIC_JOBS.group}/{namespace}/{job}"


def set_job(cluster: traincrew.LocalCluster, job: str, status: dict[str, Any]) -> None:
    """Change the status of a job."""

    async def work() -> None:
        async with Client(load_config(str(cluster.kubeconfig))) as client:
            await client.patch(
                ELASTIC_JOBS, job, NAMESPACE, patch={"status": status}, subresource="status"
            )

    asyncio.run(work())


def reported(number: int, **metrics: float) -> dict[str, Any]:
    """Return a status with the report of this number, of which there are at most 60."""
    at = f"2026-01-01T00:{number:02}:00Z"
    values = [{"name": name, "value": str(value)} for name, value in metrics.items()]
    return {"progress": {"percentage": number, "lastUpdateTime": at, "metrics": values}}
