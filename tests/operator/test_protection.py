"""Runtimes that TrainJobs refer to, with the operator and the embedded API server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from plan.elasticjob.world import elastic
from plan.trainjob.world import KINDS, runtime, trained
from traincrew.api.meta import CustomObject
from traincrew.engine.cache import Informer
from traincrew.engine.controller import Manager, Request
from traincrew.engine.resources import DEPLOYMENTS, Resource
from traincrew.engine.tasks import end_tasks
from traincrew.operator.protection import USERS_INDEX, Protector, users_index
from traincrew.plan.trainjob import IN_USE, KIND

if TYPE_CHECKING:
    from harness import Cluster

GROUP = "trainer.kubeflow.org"
TRAIN_JOBS = Resource(GROUP, "v1alpha1", "trainjobs", "TrainJob")
RUNTIMES = {
    "TrainingRuntime": Resource(GROUP, "v1alpha1", "trainingruntimes", "TrainingRuntime"),
    "ClusterTrainingRuntime": Resource(
        GROUP, "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", False
    ),
}
SPACE = "default"

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPERATOR_KINDS = ("JobSet", "TrainJob")


async def create_runtime(cluster: Cluster, name: str, kind: str = KINDS[1], *held: str) -> None:
    """Create a runtime with these finalizers."""
    resource = RUNTIMES[kind]
    document = runtime("torch-distributed") | {"kind": kind}
    document["metadata"] = {"name": name, "finalizers": list(held)}
    await cluster.client.create(resource, document, SPACE if resource.namespaced else None)


async def find(cluster: Cluster, name: str, kind: str = KINDS[1]) -> dict[str, Any] | None:
    """The metadata of a runtime; None if it is gone."""
    found = await cluster.find(RUNTIMES[kind], name)
    metadata: dict[str, Any] | None = None if found is None else found["metadata"]
    return metadata


async def delete(cluster: Cluster, name: str, kind: str = KINDS[1]) -> None:
    """Ask for the deletion of a runtime."""
    resource = RUNTIMES[kind]
    await cluster.client.delete(resource, name, SPACE if resource.namespaced else None)


async def until_held(cluster: Cluster, name: str, kind: str = KINDS[1]) -> None:
    """Wait until a runtime has the finalizer."""

    async def held() -> bool:
        found = await find(cluster, name, kind)
        return found is not None and found.get("finalizers") == [IN_USE]

    await cluster.until(held)


async def until_gone(cluster: Cluster, name: str, kind: str = KINDS[1]) -> None:
    """Wait until a runtime does not exist any more."""

    async def gone() -> bool:
        return await find(cluster, name, kind) is None

    await cluster.until(gone)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_runtime_exists_as_long_as_a_job_uses_it(served: Cluster, kind: str) -> None:
    for name in ("used", "other"):
        await create_runtime(served, name, kind)
    await served.create(trained("used", kind=kind))
    await until_held(served, "used", kind)

    await delete(served, "other", kind)
    assert await find(served, "other", kind) is None
    await delete(served, "used", kind)
    found = await find(served, "used", kind)
    assert found is not None
    assert found["deletionTimestamp"]
    await served.client.delete(TRAIN_JOBS, "digits", SPACE)
    await until_gone(served, "used", kind)


async def test_a_runtime_of_another_namespace_is_another_one(served: Cluster) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}}
    await served.client.create(Resource("", "v1", "namespaces", "Namespace", False), space)
    document = {**runtime("torch-distributed"), "kind": KINDS[1], "metadata": {"name": "used"}}
    await served.client.create(RUNTIMES[KINDS[1]], document, "theirs")
    await create_runtime(served, "used")
    await served.create(trained("used", kind=KINDS[1]))
    await until_held(served, "used")
    theirs = await served.client.get(RUNTIMES[KINDS[1]], "used", "theirs")
    assert "finalizers" not in theirs["metadata"]
    await served.client.delete(TRAIN_JOBS, "digits", SPACE)
    await delete(served, "used")
    await until_gone(served, "used")


async def test_what_trainer_has_left_can_be_deleted(served: Cluster) -> None:
    await create_runtime(served, "left", KINDS[1], IN_USE)
    await delete(served, "left")
    await until_gone(served, "left")


async def test_trainer_holds_runtimes_itself_while_it_runs(served: Cluster) -> None:
    labels = {"app.kubernetes.io/name": "trainer"}
    container = {"name": "manager", "image": "kubeflow/trainer"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "trainer", "namespace": SPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    await create_runtime(served, "before", KINDS[1], IN_USE)
    await served.kill_operator()
    await served.client.create(DEPLOYMENTS, deployment)
    await served.start_operator()
    await delete(served, "before")
    await served.create(elastic(1))
    await served.until_phase(elastic(1)["metadata"]["name"], "Created")
    assert await find(served, "before") is not None
    await served.client.delete(DEPLOYMENTS, "trainer", SPACE)
    await until_gone(served, "before")


async def test_a_job_that_the_cache_lacks_counts(served: Cluster) -> None:
    await create_runtime(served, "used")
    await served.create(trained("used", kind=KINDS[1]))
    await until_held(served, "used")
    await delete(served, "used")
    manager = Manager(served.client)
    protection = KIND.protection
    assert protection is not None
    jobs: Any = Informer(
        served.client, TRAIN_JOBS, CustomObject, indexers={USERS_INDEX: users_index(protection)}
    )  # never filled
    protector = Protector(
        served.client,
        manager,
        jobs,
        SimpleNamespace(why_not=""),  # type: ignore[arg-type]
        resource=RUNTIMES[KINDS[1]],
        protection=protection,
    )
    (objects,) = (each for each in protector.controller.informers if each is not jobs)
    watching = asyncio.create_task(objects.run())
    try:
        await objects.wait_synced()
        await protector.reconcile(Request(SPACE, "used"))
    finally:
        await end_tasks(watching)

    assert await find(served, "used") is not None
    await served.client.delete(TRAIN_JOBS, "digits", SPACE)
    await until_gone(served, "used")


async def test_an_operator_of_one_namespace_does_not_see_all_users(served: Cluster) -> None:
    kind = KINDS[0]
    await create_runtime(served, "shared", kind, IN_USE)
    await served.kill_operator()
    await served.start_operator(namespace=SPACE)
    await delete(served, "shared", kind)
    job = elastic(1)
    job["metadata"]["name"] = "seen"
    await served.create(job)
    await served.until_phase("seen", "Created")
    assert await find(served, "shared", kind) is not None

    await served.kill_operator()
    await served.start_operator()
    await until_gone(served, "shared", kind)
