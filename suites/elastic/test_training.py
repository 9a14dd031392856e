"""ElasticJobs train for real on the embedded cluster, while workers join and leave."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from suites.elastic.jobs import Job, User

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(1500)
Document = dict[str, Any]
ETCD: list[Document] = [
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "etcd-service"},
        "spec": {"ports": [{"name": "client", "port": 2379}], "selector": {"app": "etcd"}},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "etcd", "labels": {"app": "etcd"}},
        "spec": {
            "nodeName": "local-0",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "etcd",
                    "image": "quay.io/coreos/etcd:latest",
                    "command": [
                        "/usr/local/bin/etcd",
                        "--enable-v2",
                        "--log-level=error",
                        "--data-dir=/var/lib/etcd",
                        "--listen-client-urls=http://0.0.0.0:2379",
                        "--advertise-client-urls=http://0.0.0.0:2379",
                    ],
                    "readinessProbe": {"tcpSocket": {"port": 2379}, "periodSeconds": 1},
                }
            ],
        },
    },
]
"""As in TorchElastic's samples."""


def rendezvous(user: User, kind: str) -> Document:
    """Set up where workers meet, if there is anything to set up; what the job has to say of it."""
    if kind == "c10d":
        return {}
    for document in ETCD:
        user.apply(document)
    user.kubectl("wait", "pod/etcd", "--for=condition=Ready", "--timeout=60s")
    return {"rdzvEndpoint": "etcd-service:2379"}


def lose_node(job: Job, index: int) -> None:
    """What a lost node comes to in the end: its pods are gone, and it takes no others.

    The nodes of the embedded cluster are names over one machine; they are not lost by themselves.
    """
    (node,) = {
        pod["spec"]["nodeName"] for pod in job.pods() if pod["metadata"]["name"] == job.pod(index)
    }
    user, selector = job.user, f"--field-selector=spec.nodeName={node}"
    user.kubectl("cordon", node)
    gone = user.kubectl(
        "delete", "pods", selector, f"-l=job-name={job.name}", "--force", "--grace-period=0"
    )
    assert job.pod(index) in gone


def assert_reads_like_upstream(user: User, job: Job) -> None:
    """The transcript in the README of TorchElastic's controller."""
    said = job.described()
    event = r"^  Normal +{} +\S+( \(.*\))? +elastic-job-controller +{}: {}$"
    first, second = job.pod(0), job.pod(1)
    services = [("Created 2 services", f"{first}, {second}")]
    if "-c10d" in job.name:  # the other workers' Services follow that of the rendezvous
        services = [("Created service", first), ("Created service", second)]
    for line in (
        rf"^Name: +{job.name}$",
        r"^API Version: +elastic\.pytorch\.org/v1alpha1$",
        r"^Kind: +ElasticJob$",
        rf"^    Message: +ElasticJob {job.name} is running\.$",
        r"^    Reason: +ElasticJobRunning$",
        r"^    Type: +Running$",
        r"^  Replica Statuses:$",
        r"^    Worker:$",
        r"^      Active: +2$",
        event.format("SuccessfulCreatePod", "Created 2 pods", f"{first}, {second}"),
        *(event.format("SuccessfulCreateService", *created) for created in services),
    ):
        assert re.search(line, said, re.MULTILINE), f"{line}\n{said}"


@pytest.mark.parametrize("kind", ["c10d", "etcd"])
def test_workers_join_and_leave(user: User, tmp_path: Path, kind: str) -> None:
    """One job, and everything that happens to jobs; with c10d worker 0 serves the rendezvous."""
    job = Job(user, f"digits-{kind}", tmp_path / "c", **rendezvous(user, kind))
    job.until_training(2)
    assert_reads_like_upstream(user, job)
    job.scale(3)
    epoch = job.until_training(3, after=0)
    assert job.status["phase"] == "Running"

    job.kill_training(2)
    epoch = job.until_training(3, after=epoch)
    assert job.counted == (0, 0)  # the launcher dealt with it

    lost = job.uid(1)
    job.kill_launcher(1)
    job.until_another(1, lost)
    epoch = job.until_training(3, after=epoch)
    assert job.counted == (1, 1)
    assert f"Pod: default.{job.pod(1)} exited with code 137" in user.kubectl("get", "events")

    lost = job.uid(0)
    user.kubectl("delete", "pod", job.pod(0), "--wait=false")
    job.until_another(0, lost)
    epoch = job.until_training(3, after=epoch)

    deleted, lost = job.uid(2), job.uid(1)
    user.kubectl("delete", "pod", job.pod(2), "--wait=false")
    lose_node(job, 1)
    job.until_another(2, deleted)
    job.until_another(1, lost)
    epoch = job.until_training(3, after=epoch)
    user.kubectl("uncordon", "local-0", "local-1")

    job.scale(1)
    epoch = job.until_training(1, after=epoch)
    user.until(
        "only the first worker is left",
        lambda: [pod["metadata"]["name"] for pod in job.pods()] == [job.pod(0)],
    )

    job.suspend(True)
    user.until("no pods", lambda: not job.pods())
    user.until("Suspended", lambda: job.status["phase"] == "Suspended")
    job.suspend(False)
    epoch = job.until_training(1, after=epoch)

    assert job.end() > epoch
    assert job.counted[1] == 1


def test_the_etcd_is_lost_with_its_data(user: User, tmp_path: Path) -> None:
    """The launchers exit with code 1, which is permanent unless the policy restarts them."""
    meet = rendezvous(user, "etcd")
    patient = Job(user, "patient", tmp_path / "c", policy="OnFailure", **meet)
    epoch = patient.until_training(2)
    user.kubectl("delete", "pod", "etcd", "--grace-period=0", "--force")
    workers = {patient.uid(0), patient.uid(1)}

    user.until("the launchers give up", lambda: min(map(restarts, patient.pods())) > 0)
    rendezvous(user, "etcd")
    patient.until_training(2, after=epoch)

    assert {patient.uid(0), patient.uid(1)} == workers, "they begin again in their pods"
    patient.end()


def restarts(pod: Document) -> int:
    """Return the number of restarts of a worker's container."""
    (container,) = pod["status"]["containerStatuses"]
    count: int = container["restartCount"]
    return count


def test_a_job_fits_the_available_capacity(user: User, tmp_path: Path) -> None:
    neighbour = {
        "name": "main",
        "image": "busybox:1",
        "command": ["sleep", "3600"],
        "resources": {"limits": {"nvidia.com/gpu": 2}},
    }
    user.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "neighbour"},
            "spec": {"containers": [neighbour]},
        }
    )
    user.kubectl("wait", "pod/neighbour", "--for=condition=Ready", "--timeout=60s")
    job = Job(
        user,
        "fits",
        tmp_path / "c",
        replicas=3,
        resources={"limits": {"nvidia.com/gpu": 1}},
        fitAvailable={"afterSeconds": 2, "retrySeconds": 3},
    )
    job.until_training(2)
    user.until("one is given up", lambda: job.condition("Fitted").get("status") == "True")
    fitted = job.condition("Fitted")
    assert fitted["reason"] == "WorkersGivenUp"
    assert re.match(
        r"2 of 3 workers are asked for; there is no room for Worker [12]", fitted["message"]
    )
    said = job.described()
    assert re.search(
        r"Warning +WorkersGivenUp .* 1 of 3 workers is given up: fits-worker-[12]: Unschedulable:"
        r" 0/2 nodes are available: 2 Insufficient nvidia\.com/gpu",
        said,
    )

    user.kubectl("delete", "pod", "neighbour", "--force", "--grace-period=0")
    job.until_training(3, after=0)
    user.until("all are asked for", lambda: job.condition("Fitted")["status"] == "False")
    assert "AllWorkersAskedFor" in job.described()
    job.end()
    assert job.counted == (0, 0)


def test_a_program_that_fails_ends_the_job(user: User, tmp_path: Path) -> None:
    checkpoints = tmp_path / "c"
    checkpoints.mkdir()
    (checkpoints / "digits.pt").write_bytes(b"no checkpoint")
    job = Job(user, "broken", checkpoints, restarts=1, minReplicas=2)
    user.until("the end", lambda: job.status.get("completionTime"))

    assert job.status["phase"] == "Failed"
    assert job.status["reason"] == "ElasticJobFailed"
    assert "exited with code 1: " in job.status["message"]
