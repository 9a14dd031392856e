"""MPIJobs with the operator and the embedded API server; tests set the state of pods."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from api.broken import ABSENT, Broken
from plan.mpijob.world import example, pi
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import CONFIG_MAPS, PODS, SECRETS, Resource

if TYPE_CHECKING:
    from harness import Cluster

MPI_JOBS = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
JOBS = Resource("batch", "v1", "jobs", "Job")
SELECTOR = "training.kubeflow.org/job-name=pi"
_SPECS = "spec/mpiReplicaSpecs"
PI = example("pi")
REFUSED = [
    Broken(PI, "metadata/name", "1pi", ("begin with a letter",)),
    Broken(PI, f"{_SPECS}/Launcher", ABSENT, ("Launcher is required",)),
    Broken(PI, f"{_SPECS}/Launcher/replicas", 2, ("Launcher.replicas must be 1",)),
    Broken(PI, f"{_SPECS}/Worker/replicas", ABSENT, ("Worker.replicas is required",)),
    Broken(PI, f"{_SPECS}/Worker/restartPolicy", "Always", ("Worker.restartPolicy",)),
    Broken(PI, f"{_SPECS}/PS", PI["spec"]["mpiReplicaSpecs"]["Worker"], ("Launcher or Worker",)),
    Broken(PI, "spec/mpiImplementation", "LAM", ("spec.mpiImplementation",)),
    Broken(PI, "spec/runPolicy", {"managedBy": "me"}, ("runPolicy.managedBy must be",)),
]

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPERATOR_KINDS = ("MPIJob",)


async def pods(cluster: Cluster) -> list[dict[str, Any]]:
    """The pods of the job, by name."""
    items = (await cluster.client.list(PODS, "default", label_selector=SELECTOR))["items"]
    return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))


async def test_a_job_from_creation_to_success(served: Cluster) -> None:
    await served.create(pi(cleanPodPolicy="All", ttlSecondsAfterFinished=1))

    async def there() -> Any:
        found = await pods(served)
        return found if len(found) == 3 else None

    launcher, *workers = await served.until(there)
    secret = await served.client.get(SECRETS, "pi-ssh", "default")
    files = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    assert files["ssh-privatekey"].startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert files["ssh-publickey"].startswith(b"ecdsa-sha2-nistp521 ")
    for pod in (*workers, launcher):
        await served.run_pod(pod)
    await served.until_phase("pi", "Running", workersReady="2/2")

    async def discovered() -> bool:
        files = (await served.client.get(CONFIG_MAPS, "pi-config", "default"))["data"]
        return "echo pi-worker-1.pi.default.svc\n" in files["discover_hosts.sh"]

    await served.until(discovered)
    again = await served.client.get(SECRETS, "pi-ssh", "default")
    assert again["data"] == secret["data"]
    await served.end_pod(launcher, 0)
    job = await served.until_phase("pi", "Succeeded")
    assert job["status"]["conditions"][-1]["type"] == "Succeeded"
    assert job["spec"]["sshAuthMountPath"] == "/root/.ssh"

    async def cleaned() -> bool:  # the launcher by its time to live
        return not await pods(served) + await served.all(JOBS)

    await served.until(cleaned)
    assert (await served.client.get(MPI_JOBS, "pi", "default"))["status"]["phase"] == "Succeeded"
    await served.client.delete(MPI_JOBS, "pi", "default")


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.title)
async def test_refused_at_create(served: Cluster, broken: Broken) -> None:
    with pytest.raises(ApiError) as refused:
        await served.create_strictly(broken.manifest())

    broken.check_refusal(refused.value)
