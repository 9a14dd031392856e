"""Jobs whose pods cannot run: the job's message names the pod, the object, and the reason.

Here pods are real: the embedded cluster's node looks for images, ConfigMaps and commands.
"""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import pytest_asyncio

from harness import CHAINER_JOBS, MX_JOBS
from plan.chainerjob.world import distributed, plain
from plan.mxjob import manifests as mxjobs
from traincrew.api.crd import definition
from traincrew.api.kinds import KINDS
from traincrew.engine.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from traincrew.local.cluster import LocalCluster
from traincrew.operator import deferral
from traincrew.operator.app import run_operator
from traincrew.operator.options import OperatorOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from traincrew.engine.resources import Resource

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEADLINE = 60.0


class Unfit(NamedTuple):
    """What is wrong with the pods, and what the job has to say about it."""

    title: str
    pod: dict[str, Any]
    container: dict[str, Any]
    says: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of the job."""
        return self.title.lower().replace(" ", "-")


UNFIT = [
    Unfit("unknown image", {}, {"image": "nobody/nothing:1"}, ("nobody/nothing:1", "Pull")),
    Unfit("no image name", {}, {"image": "UPPER case"}, ("InvalidImageName", "UPPER case")),
    Unfit(
        "image that must be there",
        {},
        {"image": "nobody/nothing:1", "imagePullPolicy": "Never"},
        ("ErrImageNeverPull", "nobody/nothing:1"),
    ),
    Unfit(
        "more GPUs than there are",
        {},
        {"resources": {"limits": {"nvidia.com/gpu": 64}}},
        ("Unschedulable", "Insufficient nvidia.com/gpu"),
    ),
    Unfit(
        "more memory than there is",
        {},
        {"resources": {"requests": {"memory": "900Ti"}}},
        ("Unschedulable", "Insufficient memory"),
    ),
    Unfit(
        "a node that does not exist",
        {"nodeSelector": {"disk": "golden"}},
        {},
        ("Unschedulable", "node(s) didn't match Pod's node affinity/selector"),
    ),
    Unfit(
        "a missing key of a ConfigMap",
        {},
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "here", "key": "rate"}}}]},
        ("CreateContainerConfigError", "rate", "here"),
    ),
    Unfit(
        "a missing ConfigMap",
        {},
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "a"}}}]},
        ("CreateContainerConfigError", 'configmap "gone" not found'),
    ),
    Unfit(
        "a missing Secret",
        {},
        {"envFrom": [{"secretRef": {"name": "gone"}}]},
        ("CreateContainerConfigError", 'secret "gone" not found'),
    ),
    Unfit("a command that does not exist", {}, {"command": ["/no/such/program"]}, ("/no/such",)),
]


class Here:
    """The embedded cluster and the operator, on the module's event loop."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.client = cluster.client

    async def job_says(
        self, name: str, texts: tuple[str, ...], kind: Resource = CHAINER_JOBS
    ) -> dict[str, Any]:
        """Wait until the job's message has all texts in it, in upper or lower case."""
        end = asyncio.get_running_loop().time() + DEADLINE
        while True:
            job = await self.client.get(kind, name, "default")
            message = job.get("status", {}).get("message", "")
            if all(text.lower() in message.lower() for text in texts):
                return job
            assert asyncio.get_running_loop().time() < end, f"{texts} not in {message!r}"
            await asyncio.sleep(0.02)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here() -> AsyncIterator[Here]:
    """One embedded cluster for all of these; wording is stored soon."""
    patch = pytest.MonkeyPatch()
    patch.setattr(deferral, "STATUS_INTERVAL", 0.05)
    async with LocalCluster() as cluster:
        for kind in KINDS:
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(kind))
        settings = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "here"},
            "data": {"other": "1"},
        }
        await cluster.client.create(CONFIG_MAPS, settings, "default")
        stop, ready = asyncio.Event(), asyncio.Event()
        options = OperatorOptions(leader_elect=False)
        operator = asyncio.create_task(
            run_operator(cluster.client.config, options, stop, on_ready=ready.set)
        )
        await ready.wait()
        for unfit in UNFIT:
            for manifest in (plain_one(unfit), distributed_one(unfit)):
                await cluster.client.create(CHAINER_JOBS, manifest, "default")
            for manifest in (local_mxjob(unfit), distributed_mxjob(unfit)):
                await cluster.client.create(MX_JOBS, manifest, "default")
        yield Here(cluster)
        stop.set()
        await operator
    patch.undo()


def changed(template: dict[str, Any], unfit: Unfit) -> None:
    """Make a template unfit."""
    template["spec"] |= copy.deepcopy(unfit.pod)
    template["spec"]["containers"][0] |= copy.deepcopy(unfit.container)


def plain_one(unfit: Unfit) -> dict[str, Any]:
    """A job whose master is unfit."""
    manifest = plain()
    manifest["metadata"]["name"] = unfit.name
    changed(manifest["spec"]["master"]["template"], unfit)
    return manifest


def distributed_one(unfit: Unfit) -> dict[str, Any]:
    """A job whose workers are unfit."""
    manifest = distributed()
    manifest["metadata"]["name"] = f"{unfit.name}-mn"
    changed(manifest["spec"]["workerSets"]["ws0"]["template"], unfit)
    return manifest


def local_mxjob(unfit: Unfit) -> dict[str, Any]:
    """An MxJob whose only worker is unfit."""
    manifest = mxjobs.local(f"{unfit.name}-mx"[:46].rstrip("-"))
    changed(manifest["spec"]["replicaSpecs"][0]["template"], unfit)
    return manifest


def distributed_mxjob(unfit: Unfit) -> dict[str, Any]:
    """An MxJob whose servers are unfit; the others never get beyond waiting."""
    manifest = mxjobs.distributed(f"{unfit.name}-ps"[:46].rstrip("-"), workers=1)
    scheduler, server, worker = manifest["spec"]["replicaSpecs"]
    changed(server["template"], unfit)
    for other in (scheduler, worker):
        other["template"]["spec"]["schedulingGates"] = [{"name": "example.com/waits"}]
    return manifest


@pytest.mark.parametrize("unfit", UNFIT, ids=lambda unfit: unfit.title)
async def test_a_master_that_cannot_run(here: Here, unfit: Unfit) -> None:
    job = await here.job_says(unfit.name, unfit.says)

    assert job["status"]["phase"] in {"Created", "Restarting", "Failed"}


@pytest.mark.parametrize("unfit", UNFIT, ids=lambda unfit: unfit.title)
async def test_workers_that_cannot_run(here: Here, unfit: Unfit) -> None:
    name = f"{unfit.name}-mn"
    says = ("0/2 workers ready", f"{name}-workerset-ws0-0: ", *unfit.says)
    job = await here.job_says(name, says)

    assert job["status"]["phase"] == "Created"
    assert job["status"]["reason"] == "WaitingForWorkers"


@pytest.mark.parametrize("unfit", UNFIT, ids=lambda unfit: unfit.title)
async def test_a_worker_of_an_mxjob_that_cannot_run(here: Here, unfit: Unfit) -> None:
    name = local_mxjob(unfit)["metadata"]["name"]
    job = await here.job_says(name, ("worker 0", *unfit.says), MX_JOBS)

    assert job["status"]["phase"] in {"Creating", "Done"}


@pytest.mark.parametrize("unfit", UNFIT, ids=lambda unfit: unfit.title)
async def test_a_server_of_an_mxjob_that_cannot_run(here: Here, unfit: Unfit) -> None:
    name = distributed_mxjob(unfit)["metadata"]["name"]
    job = await here.job_says(name, ("server 0", *unfit.says), MX_JOBS)

    assert job["status"]["phase"] in {"Creating", "Done"}
