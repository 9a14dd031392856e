"""PyTorchJobs with the operator and the embedded API server; tests set the state of pods."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from api.broken import ABSENT, Broken
from plan.elasticjob.world import elastic
from plan.pytorchjob.world import example, group, pytorch
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
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


def deployment() -> dict[str, Any]:
    """The Deployment of training-operator, as its manifests have it."""
    labels = {"control-plane": "kubeflow-training-operator"}
    container = {"name": "training-operator", "image": "kubeflow/training-operator"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "training-operator", "namespace": "default", "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def seen(cluster: Cluster, name: str) -> None:
    """Create a job of another kind, which the operator serves, and wait until it has seen it."""
    job = elastic(1)
    job["metadata"]["name"] = name
    await cluster.create(job)
    await cluster.until_phase(name, "Created")


async def test_jobs_are_left_to_their_own_operator_while_it_runs(served: Cluster) -> None:
    await served.client.create(DEPLOYMENTS, deployment())
    await seen(served, "before")
    await served.create(pytorch())
    await seen(served, "after")

    job = await served.client.get(PYTORCH_JOBS, "digits", "default")
    assert (job.get("status"), await pods(served)) == (None, [])
    await served.client.delete(DEPLOYMENTS, "training-operator", "default")
    await run(served, 3)
    await served.until_phase("digits", "Running")

    await remove(served)


async def test_jobs_are_left_alone_while_their_definition_drops_the_status(
    served: Cluster,
) -> None:
    name = "pytorchjobs.kubeflow.org"
    ours = await served.client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    theirs = copy.deepcopy(ours)
    (version,) = theirs["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["status"][
        "x-kubernetes-preserve-unknown-fields"
    ]
    changed = await served.client.replace(CUSTOM_RESOURCE_DEFINITIONS, theirs)
    await seen(served, "before-definition")
    await served.create(pytorch())
    await seen(served, "after-definition")

    job = await served.client.get(PYTORCH_JOBS, "digits", "default")
    assert (job.get("status"), await pods(served)) == (None, [])

    async def said() -> bool:
        found = {(each[1], each[2].partition(",")[0]) for each in await served.events_of("digits")}
        return (
            "NotServed",
            f"the CustomResourceDefinition {name} is that of training-operator",
        ) in found

    await served.until(said)
    changed["spec"] = ours["spec"]
    await served.client.replace(CUSTOM_RESOURCE_DEFINITIONS, changed)
    await run(served, 3)
    await served.until_phase("digits", "Running")

    await remove(served)
