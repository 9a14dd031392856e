"""Kueue's API as definitions that the embedded API server accepts, and its controller by hand."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import gangs_api
from traincrew.engine.errors import AlreadyExistsError
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS
from traincrew.operator.queues import CLASSES, FLAVORS, WORKLOADS

if TYPE_CHECKING:
    from harness import Cluster

Document = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
STAMP = "2026-01-01T00:00:00Z"
FLAVOR, CLASS = "spot", "high"
LABELS = {"pool": "spot"}
RESOURCES = (WORKLOADS, FLAVORS, CLASSES)


def definitions() -> list[Document]:
    """The definitions of what the operator uses."""
    return [gangs_api.definition(each, status=each == WORKLOADS) for each in RESOURCES]


def objects() -> list[Document]:
    """A flavor, and a class of priority."""
    return [
        {
            "apiVersion": FLAVORS.api_version,
            "kind": FLAVORS.kind,
            "metadata": {"name": FLAVOR},
            "spec": {"nodeLabels": LABELS},
        },
        {
            "apiVersion": CLASSES.api_version,
            "kind": CLASSES.kind,
            "metadata": {"name": CLASS},
            "value": 1000,
        },
    ]


async def install(cluster: Cluster) -> None:
    """Serve the API, with a flavor and a class of priority."""
    for document in definitions():
        await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, document)
    for resource in RESOURCES:
        await cluster.until(lambda: gangs_api.is_served(cluster.client, resource))  # noqa: B023
    for resource, document in zip((FLAVORS, CLASSES), objects(), strict=True):
        with contextlib.suppress(AlreadyExistsError):
            await cluster.client.create(resource, document)


async def workload_of(cluster: Cluster, job: str) -> Document | None:
    """The Workload of a job."""
    for each in (await cluster.client.list(WORKLOADS, "default"))["items"]:
        (owner,) = each["metadata"]["ownerReferences"]
        if owner["name"] == job:
            found: Document = each
            return found
    return None


def said(workload: Document) -> dict[str, str]:
    """The conditions of a Workload: their status by type."""
    conditions = workload.get("status", {}).get("conditions", ())
    return {each["type"]: each["status"] for each in conditions}


def condition(kind: str, status: str, reason: str, message: str = "") -> Document:
    """A condition as Kueue writes it."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": STAMP,
    }


def admission(workload: Document) -> Document:
    """The status of a Workload that is admitted with all it asks for."""
    assigned = [
        {"name": each["name"], "count": each["count"], "flavors": {"cpu": FLAVOR}}
        for each in workload["spec"]["podSets"]
    ]
    return {
        "admission": {"clusterQueue": "all", "podSetAssignments": assigned},
        "conditions": [
            condition("QuotaReserved", "True", "QuotaReserved"),
            condition("Admitted", "True", "Admitted"),
        ],
    }


async def until_workload(cluster: Cluster, job: str) -> Document:
    """Wait for the Workload of a job."""
    found: Document = await cluster.until(lambda: workload_of(cluster, job))
    return found


async def write(cluster: Cluster, workload: Document, status: Document) -> None:
    """Write the status of a Workload."""
    name = workload["metadata"]["name"]
    await cluster.client.patch(
        WORKLOADS, name, "default", patch={"status": status}, subresource="status"
    )


async def admit(cluster: Cluster, job: str) -> Document:
    """Admit a job; its Workload before that."""
    workload = await until_workload(cluster, job)
    await write(cluster, workload, admission(workload))
    return workload


async def evict(cluster: Cluster, job: str, reason: str = "Preempted") -> None:
    """Take the admission of a job back."""
    workload = await until_workload(cluster, job)
    before = [each for each in workload["status"]["conditions"] if each["type"] != "Evicted"]
    evicted = condition("Evicted", "True", reason, "for another")
    await write(cluster, workload, {"conditions": [*before, evicted]})
