"""TrainJobs with the operator and the embedded API server; tests set the state of pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from api.broken import ABSENT, Broken
from plan.trainjob.world import KINDS, runtime, trained
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import PODS, Resource

if TYPE_CHECKING:
    from harness import Cluster

GROUP = "trainer.kubeflow.org"
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
TRAIN_JOBS = Resource(GROUP, "v1alpha1", "trainjobs", "TrainJob")
RUNTIMES = Resource(GROUP, "v1alpha1", "trainingruntimes", "TrainingRuntime")
SELECTOR = "jobset.sigs.k8s.io/jobset-name=digits"
NODES = {"numNodes": 2, "env": [{"name": "LEVEL", "value": "debug"}]}
JOB = trained(trainer=NODES, activeDeadlineSeconds=600)
_PATCH = {"manager": "example.com/me", "trainingRuntimeSpec": {}}
REFUSED = [
    Broken(JOB, "metadata/name", "1digits", ("must match RFC 1035 DNS label format",)),
    Broken(JOB, "metadata/name", "d" * 64, ("must be no more than 63 characters",)),
    Broken(JOB, "spec/runtimeRef", ABSENT, ("spec.runtimeRef",)),
    Broken(JOB, "spec/runtimeRef/kind", "Runtime", ("spec.runtimeRef", "unsupported runtime")),
    Broken(JOB, "spec/runtimeRef/apiGroup", "example.com", ("unsupported runtime",)),
    Broken(JOB, "spec/trainer/numNodes", 0, ("spec.trainer.numNodes",)),
    Broken(JOB, "spec/trainer/nodes", 2, ("nodes",)),
    Broken(JOB, "spec/trainer/env/0/val", "x", ("val",)),
    Broken(JOB, "spec/managedBy", "me", ("spec.managedBy", "ManagedBy must be")),
    Broken(JOB, "spec/activeDeadlineSeconds", 0, ("spec.activeDeadlineSeconds",)),
    Broken(JOB, "spec/runtimePatches", [_PATCH | {"manager": "me"}], ("runtimePatches[0].man",)),
    Broken(JOB, "spec/runtimePatches", [_PATCH, _PATCH], ("Duplicate value",)),
]
CHANGES: list[tuple[bool, str, Any, str]] = [
    (False, "spec/trainer/numNodes", 3, "spec.trainer: Invalid value: field is immutable"),
    (True, "spec/trainer/image", "example/other:1", "field is immutable"),
    (False, "spec/runtimeRef/name", "other", "field is immutable"),
    (False, "spec/activeDeadlineSeconds", 60, "field is immutable"),
    (False, "spec/managedBy", "kueue.x-k8s.io/multikueue", "field is immutable"),
    (False, "spec/runtimePatches", [_PATCH], "only be modified when the TrainJob is suspended"),
    (True, "spec/runtimePatches", [_PATCH], ""),
]
_JOBS = "spec/template/spec/replicatedJobs/0"
_POD = f"{_JOBS}/template/spec/template/spec"
THEIRS = runtime("torch-distributed") | {"kind": KINDS[1]}
RUNTIMES_REFUSED = [
    Broken(THEIRS, f"{_JOBS}/replicas", 2, ("replicas always must be 1",)),
    Broken(THEIRS, f"{_POD}/containers/0/name", "main", ("container for the ancestor: trainer",)),
    Broken(THEIRS, f"{_POD}/containers/0/imag", "x", ("imag",)),
    Broken(THEIRS, "spec/mlPolicy/jax", {}, ("Only one of the policy can be configured",)),
    Broken(THEIRS, "spec/mlPolicy/tensorflow", {}, ("tensorflow",)),
]

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPERATOR_KINDS = ("JobSet", "TrainJob")


async def pods(cluster: Cluster, count: int) -> list[dict[str, Any]]:
    """The pods of the job, when there are so many."""

    found: list[dict[str, Any]] = []

    async def there() -> bool:
        listed = await cluster.client.list(PODS, "default", label_selector=SELECTOR)
        found[:] = listed["items"]
        return len(found) == count

    await cluster.until(there)
    return found


async def remove(cluster: Cluster) -> None:
    """Delete the job, which has its JobSet by then, and wait until nothing of it is left."""

    async def made() -> bool:
        return await cluster.find(JOB_SETS, "digits") is not None

    await cluster.until(made)
    await cluster.client.delete(TRAIN_JOBS, "digits", "default")

    async def gone() -> bool:
        return await cluster.find(JOB_SETS, "digits") is None

    await cluster.until(gone)
    await pods(cluster, 0)


async def test_a_job_runs_by_its_jobset_and_succeeds(served: Cluster) -> None:
    job = trained(trainer=NODES)
    await served.create(job)
    for pod in await pods(served, 2):
        await served.run_pod(pod)
    running = await served.until_phase("digits", "Running", workersReady="2/2")
    assert running["status"]["replicaStatuses"]["node"]["ready"] == 2
    for pod in await pods(served, 2):
        await served.end_pod(pod, 0)
    found = await served.until_phase("digits", "Succeeded")
    last = found["status"]["conditions"][-1]
    assert (last["type"], last["reason"]) == ("Complete", "AllJobsCompleted")
    assert found["status"]["jobsStatus"][0]["succeeded"] == 1
    assert found["spec"]["trainer"] == NODES
    await remove(served)


async def test_a_suspended_job_is_resumed(served: Cluster) -> None:
    await served.create(trained(suspend=True))
    await served.until_phase("digits", "Suspended")
    await served.edit("digits", {"suspend": False})
    (pod,) = await pods(served, 1)
    await served.run_pod(pod)
    await served.until_phase("digits", "Running")
    await served.edit("digits", {"suspend": True})
    await pods(served, 0)
    await remove(served)


async def test_a_runtime_of_the_namespace(served: Cluster) -> None:
    theirs = {**THEIRS, "metadata": {"name": "mine"}}
    await served.client.create(RUNTIMES, theirs, "default")
    await served.create(trained("mine", kind=KINDS[1]))
    await pods(served, 1)
    await remove(served)


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.title)
async def test_refused_at_create(served: Cluster, broken: Broken) -> None:
    with pytest.raises(ApiError) as refused:
        await served.create_strictly(broken.manifest())

    broken.check_refusal(refused.value)


@pytest.mark.parametrize("broken", RUNTIMES_REFUSED, ids=lambda broken: broken.title)
async def test_runtimes_refused_at_create(served: Cluster, broken: Broken) -> None:
    with pytest.raises(ApiError) as refused:
        await served.client.request(
            "POST",
            RUNTIMES.path("default"),
            params={"fieldValidation": "Strict"},
            body=json.dumps(broken.manifest()).encode(),
            content_type="application/json",
        )

    broken.check_refusal(refused.value)


@pytest.mark.parametrize(("suspended", "path", "value", "said"), CHANGES)
async def test_changes(served: Cluster, suspended: bool, path: str, value: Any, said: str) -> None:
    job = {**JOB, "spec": {**JOB["spec"], "suspend": suspended}}
    await served.create(job)
    changed = Broken(job, path, value, (said,))
    patch = {"spec": changed.manifest()["spec"]}
    try:
        await served.client.patch(TRAIN_JOBS, "digits", "default", patch=patch)
    except ApiError as refused:
        assert said
        changed.check_refusal(refused)
    else:
        assert not said
    await remove(served)
