"""Jobs of other projects' kinds: whose they are, and where their status is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import statusschemas
from harness import OPERATOR_AGENT
from plan.elasticjob.world import elastic
from plan.pytorchjob.world import pytorch
from traincrew.api.fullstatus import ANNOTATION
from traincrew.cli.display.objects import Job, decode
from traincrew.engine.resources import (
    DEPLOYMENTS,
    LEASES,
    PODS,
    Resource,
)
from traincrew.local.apiserver.http.faults import Fault

if TYPE_CHECKING:
    from harness import Cluster

PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
DEFINITION = "pytorchjobs.kubeflow.org"
SELECTOR = "training.kubeflow.org/job-name=digits"
LEASE = "1ca428e5.training-operator.kubeflow.org"
STATUS = statusschemas.KUBEFLOW_JOB

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPERATOR_KINDS = ("PyTorchJob",)


async def pods(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The pods of the job."""
    items = (await cluster.client.list(PODS, "default", label_selector=SELECTOR))["items"]
    return {pod["metadata"]["name"]: pod for pod in items}


async def run(cluster: Cluster, count: int = 3) -> dict[str, dict[str, Any]]:
    """Wait for the pods, and let them run."""

    async def there() -> Any:
        found = await pods(cluster)
        return found if len(found) == count else None

    found: dict[str, dict[str, Any]] = await cluster.until(there)
    for pod in found.values():
        await cluster.run_pod(pod)
    return found


async def remove(cluster: Cluster) -> None:
    """Delete the job, and wait until nothing is left of it."""
    await cluster.client.delete(PYTORCH_JOBS, "digits", "default")

    async def gone() -> bool:
        return not await pods(cluster)

    await cluster.until(gone)


async def seen(cluster: Cluster, name: str) -> None:
    """Create a job of another kind, which the operator serves, and wait until it has seen it."""
    job = elastic(1)
    job["metadata"]["name"] = name
    await cluster.create(job)
    await cluster.until_phase(name, "Created")


async def is_left_alone(cluster: Cluster, why: str) -> None:
    """Create the job, and check that the operator does nothing with it."""
    await seen(cluster, f"before-{why}")
    await cluster.create(pytorch())
    await seen(cluster, f"after-{why}")
    job = await cluster.client.get(PYTORCH_JOBS, "digits", "default")
    assert (job.get("status"), await pods(cluster)) == (None, {})


async def is_served(cluster: Cluster) -> None:
    """Wait until the operator runs the job, and remove it."""
    await run(cluster)
    await cluster.until_phase("digits", "Running")
    await remove(cluster)


def deployment() -> dict[str, Any]:
    """The Deployment of training-operator, as its manifests have it."""
    labels = {"control-plane": "kubeflow-training-operator"}
    container = {"name": "training-operator", "image": "kubeflow/training-operator"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "training-operator", "namespace": "default", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def lease(seconds: int) -> dict[str, Any]:
    """The Lease of a training-operator that runs somewhere."""
    spec = {
        "holderIdentity": "theirs-1",
        "leaseDurationSeconds": seconds,
        "renewTime": "2026-11-01T00:00:00.000000Z",
    }
    metadata = {"name": LEASE, "namespace": "default"}
    return {
        "apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec
    }  # fmt: skip


async def test_jobs_are_left_to_a_deployment_that_wants_pods(served: Cluster) -> None:
    await served.client.create(DEPLOYMENTS, deployment())
    await is_left_alone(served, "deployment")
    scaled = {"spec": {"replicas": 0}}
    await served.client.patch(DEPLOYMENTS, "training-operator", "default", patch=scaled)
    await is_served(served)

    wanted = {"spec": {"replicas": 1}}
    await served.client.patch(DEPLOYMENTS, "training-operator", "default", patch=wanted)
    await is_left_alone(served, "replicas")
    await served.client.delete(DEPLOYMENTS, "training-operator", "default")
    await is_served(served)


async def test_jobs_are_left_to_who_renews_the_lease(served: Cluster) -> None:
    await served.client.create(LEASES, lease(3600))
    await is_left_alone(served, "lease")
    await served.client.delete(LEASES, LEASE, "default")
    await is_served(served)

    await served.client.create(LEASES, lease(3600))
    await is_left_alone(served, "another")
    released = {"spec": {"holderIdentity": ""}}
    await served.client.patch(LEASES, LEASE, "default", patch=released)
    await is_served(served)
    await served.client.delete(LEASES, LEASE, "default")


async def test_a_lease_that_nobody_renews_is_over(served: Cluster) -> None:
    await served.client.create(LEASES, lease(1))
    await served.create(pytorch())
    await is_served(served)
    await served.client.delete(LEASES, LEASE, "default")


async def test_an_end_of_which_half_is_stored_counts_no_restart_twice(served: Cluster) -> None:
    ours = await statusschemas.declare(served.client, PYTORCH_JOBS, STATUS)
    await served.create(pytorch())
    members = await run(served)
    await until_running(served, {})
    worker = members["digits-worker-1"]
    await served.run_pod(worker, restarts=1)
    await until_running(served, {"restarts": 1})

    def lose(method: str, path: str, agent: str) -> Fault | None:
        ends = method == "PATCH" and "/pytorchjobs/digits/status" in path
        return Fault(cut="before") if ends and agent.startswith(OPERATOR_AGENT) else None

    served.server.faults = lose
    await served.end_pod(members["digits-worker-0"], 0)
    await served.end_pod(worker, 0, restarts=1)
    await served.end_pod(members["digits-master-0"], 0)

    async def half() -> bool:
        found = await served.client.get(PYTORCH_JOBS, "digits", "default")
        return '"Succeeded"' in found["metadata"]["annotations"][ANNOTATION]

    await served.until(half, deadline=20)
    await served.kill_operator()
    served.server.faults = None
    await served.start_operator()
    job = await until(served, "Succeeded")

    assert shown(job)["restarts"] == 1
    await statusschemas.declare(served.client, PYTORCH_JOBS, ours)
    await remove(served)


async def test_what_a_definition_drops_of_the_status_is_in_an_annotation(served: Cluster) -> None:
    ours = await statusschemas.declare(served.client, PYTORCH_JOBS, STATUS)
    spec = pytorch()
    spec["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    await served.create(spec)
    members = await run(served)
    await until_running(served, {})
    # A failure is counted once, by this operator and by the next.
    await served.end_pod(members["digits-worker-1"], 137)
    await until_running(served, {"failures": 1, "restarts": 1}, replaced=members["digits-worker-1"])
    await served.kill_operator()
    await served.start_operator()
    for _, pod in sorted((await pods(served)).items(), reverse=True):
        await served.end_pod(pod, 0)  # the master last

    job = await until(served, "Succeeded")
    assert shown(job) == {"failures": 1, "restarts": 1}
    stored = job["status"]
    assert stored.keys() <= STATUS["properties"].keys()
    assert stored["conditions"][-1]["type"] == "Succeeded"
    assert stored["replicaStatuses"]["Worker"]["succeeded"] == 2
    assert job["metadata"]["generation"] == 1
    seen_by_users = decode(job, Job)
    assert (seen_by_users.status.phase, seen_by_users.status.restarts) == ("Succeeded", 1)

    # Once the definition stores everything, the annotation goes.
    await statusschemas.declare(served.client, PYTORCH_JOBS, ours)

    async def moved() -> bool:
        found = await served.client.get(PYTORCH_JOBS, "digits", "default")
        there = ANNOTATION in found["metadata"].get("annotations", {})
        return not there and found["status"].get("phase") == "Succeeded"

    await served.until(moved)
    await remove(served)


def shown(job: dict[str, Any]) -> dict[str, int]:
    """What the annotation counts."""
    text = job["metadata"].get("annotations", {}).get(ANNOTATION, "{}")
    status = json.loads(text).get("status", {})
    return {name: status[name] for name in ("failures", "restarts") if status.get(name)}


async def until(cluster: Cluster, condition: str) -> dict[str, Any]:
    """Wait until a condition of the job is true; return the job."""

    async def check() -> Any:
        job = await cluster.client.get(PYTORCH_JOBS, "digits", "default")
        conditions = job.get("status", {}).get("conditions", ())
        met = any(each["type"] == condition and each["status"] == "True" for each in conditions)
        return job if met else None

    found: dict[str, Any] = await cluster.until(check)
    return found


async def until_running(
    cluster: Cluster, counts: dict[str, int], replaced: dict[str, Any] | None = None
) -> None:
    """Wait until all pods run, with these counts."""
    if replaced is not None:

        async def again() -> Any:
            pod = (await pods(cluster)).get(replaced["metadata"]["name"])
            new = pod is not None and pod["metadata"]["uid"] != replaced["metadata"]["uid"]
            return pod if new else None

        await cluster.run_pod(await cluster.until(again))

    async def check() -> bool:
        job = await until(cluster, "Running")
        return shown(job) == counts

    await cluster.until(check)
