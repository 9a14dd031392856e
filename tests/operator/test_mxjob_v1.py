"""MXJobs of training-operator with the operator and the embedded API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from api.broken import ABSENT, Broken
from plan.mxjob.manifests import GROUP, local
from plan.mxjobv1.world import example, mxnet
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import JOBS, PODS, Resource

if TYPE_CHECKING:
    from harness import Cluster

MX_JOBS = Resource("kubeflow.org", "v1", "mxjobs", "MXJob")
OLDER_MX_JOBS = Resource(GROUP, "v1beta1", "mxjobs", "MxJob")
_SPECS = "spec/mxReplicaSpecs"
TRAIN = example("train")
REFUSED = [
    Broken(TRAIN, "metadata/name", "1digits", ("begin with a letter",)),
    Broken(TRAIN, "spec/jobMode", "dist", ("spec.jobMode", "MXTrain")),
    Broken(TRAIN, f"{_SPECS}/Scheduler/replicas", 2, ("Scheduler.replicas must be 1",)),
    Broken(TRAIN, f"{_SPECS}/PS", {"template": {"spec": {"containers": [{}]}}}, ("keys must be",)),
    Broken(
        TRAIN,
        f"{_SPECS}/Worker/template/spec/containers/1/name",
        "main",
        ("Worker.template.spec.containers must have a container named 'mxnet'",),
    ),
    Broken(
        TRAIN,
        f"{_SPECS}/Worker/template/spec/containers/1/image",
        ABSENT,
        ("Worker.template.spec.containers must have an image each",),
    ),
    Broken(TRAIN, "spec/runPolicy", {"managedBy": "me"}, ("runPolicy.managedBy must be",)),
]

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPERATOR_KINDS = ("MXJob",)


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.title)
async def test_refused_at_create(served: Cluster, broken: Broken) -> None:
    with pytest.raises(ApiError) as refused:
        await served.create_strictly(broken.manifest())

    broken.check_refusal(refused.value)


async def test_a_job_of_each_kind_may_have_the_same_name(served: Cluster) -> None:
    newer, older = mxnet(), local()
    for job, kind in ((newer, MX_JOBS), (older, OLDER_MX_JOBS)):
        job["metadata"]["name"] = "same"
        await served.client.create(kind, job, "default")

    async def children() -> tuple[list[str], int]:
        selector = "training.kubeflow.org/job-name=same"
        pods = (await served.client.list(PODS, "default", label_selector=selector))["items"]
        selector = "mxnet.mlkube.io/job-name=same"
        jobs = (await served.client.list(JOBS, "default", label_selector=selector))["items"]
        return sorted(pod["metadata"]["name"] for pod in pods), len(jobs)

    names = [f"same-{key}" for key in ("scheduler-0", "server-0", "worker-0", "worker-1")]

    async def both() -> bool:
        return await children() == (names, 1)

    await served.until(both)
    for kind in (MX_JOBS, OLDER_MX_JOBS):
        await served.client.delete(kind, "same", "default")

    async def gone() -> bool:
        return await children() == ([], 0)

    await served.until(gone)
