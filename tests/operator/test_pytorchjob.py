"""PyTorchJobs with the operator and the embedded API server; tests set the state of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from api.broken import ABSENT, Broken
from plan.pytorchjob.world import example, group, pytorch
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import (
    PODS,
    SERVICES,
    Resource,
)

if TYPE_CHECKING:
    from harness import Cluster

AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
SELECTOR = "training.kubeflow.org/job-name=digits"
_SPECS = "spec/pytorchReplicaSpecs"
MASTER, ELASTIC = example("master"), example("elastic")
REFUSED = [
    Broken(MASTER, "metadata/name", "1digits", ("begin with a letter",)),
    Broken(MASTER, f"{_SPECS}/Master/replicas", 2, ("Master.replicas must be 1",)),
    Broken(MASTER, f"{_SPECS}/Master/replicas", ABSENT, ("Master.replicas must be 1",)),
    Broken(MASTER, f"{_SPECS}/Worker/replicas", 0, ("Worker.replicas",)),
    Broken(MASTER, f"{_SPECS}/PS", {"template": {"spec": {"containers": [{}]}}}, ("Worker",)),
    Broken(
        MASTER,
        f"{_SPECS}/Worker/template/spec/containers/0/name",
        "main",
        ("Worker.template.spec.containers must have a container named 'pytorch'",),
    ),
    Broken(
        MASTER,
        f"{_SPECS}/Worker/template/spec/containers/0/image",
        ABSENT,
        ("Worker.template.spec.containers must have an image each",),
    ),
    Broken(ELASTIC, "spec/nprocPerNode", "2", ("elasticPolicy.nProcPerNode must not be used",)),
    Broken(
        MASTER, "spec/elasticPolicy", {"minReplicas": 3, "maxReplicas": 2}, ("at most maxReplicas",)
    ),
    Broken(MASTER, "spec/runPolicy/managedBy", "me", ("runPolicy.managedBy must be",)),
]

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPERATOR_KINDS = ("PyTorchJob",)


async def pods(cluster: Cluster) -> list[dict[str, Any]]:
    """The pods of the job, by name."""
    items = (await cluster.client.list(PODS, "default", label_selector=SELECTOR))["items"]
    return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))


async def names(cluster: Cluster, resource: Resource) -> list[str]:
    """Names of children of the job."""
    items = (await cluster.client.list(resource, "default", label_selector=SELECTOR))["items"]
    return sorted(item["metadata"]["name"] for item in items)


async def run(cluster: Cluster, count: int) -> list[dict[str, Any]]:
    """Wait for the pods, and let them run."""

    async def there() -> Any:
        found = await pods(cluster)
        return found if len(found) == count else None

    found: list[dict[str, Any]] = await cluster.until(there)
    for pod in found:
        await cluster.run_pod(pod)
    return found


async def remove(cluster: Cluster) -> None:
    """Delete the job, and wait until nothing is left of it."""
    await cluster.client.delete(PYTORCH_JOBS, "digits", "default")

    async def gone() -> bool:
        return not await names(cluster, PODS) + await names(cluster, SERVICES)

    await cluster.until(gone)


async def test_a_job_from_creation_to_success(served: Cluster) -> None:
    await served.create(pytorch())
    members = await run(served, 3)
    await served.until_phase("digits", "Running", workersReady="3/3")
    assert await names(served, SERVICES) == [
        "digits-master-0",
        "digits-worker-0",
        "digits-worker-1",
    ]
    for pod in members:
        await served.end_pod(pod, 0)
    job = await served.until_phase("digits", "Succeeded")

    assert job["status"]["conditions"][-1]["type"] == "Succeeded"
    assert job["spec"] == pytorch()["spec"] | {
        "runPolicy": {"suspend": False, "cleanPodPolicy": "None"}
    }
    await remove(served)


async def test_an_elastic_group_is_scaled(served: Cluster) -> None:
    await served.create(group(1))
    await run(served, 1)
    await served.until_phase("digits", "Running")
    assert await names(served, AUTOSCALERS) == ["digits"]
    await served.client.patch(
        PYTORCH_JOBS, "digits", "default", patch={"spec": {"replicas": 2}}, subresource="scale"
    )
    await run(served, 2)
    await served.until_phase("digits", "Running", workersReady="2/2")

    await remove(served)


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.title)
async def test_refused_at_create(served: Cluster, broken: Broken) -> None:
    with pytest.raises(ApiError) as refused:
        await served.create_strictly(broken.manifest())

    broken.check_refusal(refused.value)
