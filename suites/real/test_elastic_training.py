"""ElasticJobs run real training on the real cluster, while workers, pods and a node are lost.

The operator runs in its own containers, PyTorch in those of `images/torch`. The first worker serves
the rendezvous (c10d), or an etcd does: workers come and go with one of them in each run, with the
other one after a change of the code. (On the embedded cluster they do so with both in each run.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites.elastic_training import SCRIPT
from suites.scenarios.clusters import FragileNode

import variation
from hack import images

from .elastic_support import ETCD, SCRIPTS, Job, followed
from .install_support import DEPLOY, ROOT, User, namespace, uninstall, volume_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.cluster import RealCluster

SPACE = "elastic"
EXAMPLE = ROOT / "examples" / "elastic" / "elasticjob.yaml"
ETCD_PORT = 2379
pytestmark = pytest.mark.timeout(1500)
BACKENDS: dict[str, dict[str, Any]] = {"c10d": {}, "etcd": {"rdzvEndpoint": f"etcd:{ETCD_PORT}"}}
CHOSEN = sorted(BACKENDS)[variation.NUMBER % len(BACKENDS)]


@pytest.fixture(scope="module")
def user(real_cluster: RealCluster) -> Iterator[User]:
    """A user with a namespace, the training script in it, and an etcd on the first node."""
    real_cluster.load_images([images.build(name) for name in ("torch", "etcd")])
    uninstall(real_cluster)
    with namespace(real_cluster, SPACE) as found:
        try:
            real_cluster.kubectl("create", "-f", str(DEPLOY))
            found.kubectl("create", "configmap", SCRIPTS, f"--from-file={SCRIPT}")
            found.create(etcd(real_cluster.nodes[0].name))
            found.create({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "etcd"},
                "spec": {"selector": {"run": "etcd"}, "ports": [{"port": ETCD_PORT}]},
            })  # fmt: skip
            found.rolled_out()
            found.kubectl("wait", "pod/etcd", "--for=condition=Ready", "--timeout=60s")
            yield found
        finally:
            uninstall(real_cluster)


def etcd(node: str) -> dict[str, Any]:
    """Return a pod with an etcd for PyTorch."""
    container = {
        "name": "etcd",
        "image": ETCD,
        "args": [
            "--enable-v2",
            "--log-level=error",
            "--data-dir=/tmp/etcd",
            f"--listen-client-urls=http://0.0.0.0:{ETCD_PORT}",
            f"--advertise-client-urls=http://etcd:{ETCD_PORT}",
        ],
        "readinessProbe": {"tcpSocket": {"port": ETCD_PORT}, "periodSeconds": 1},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "etcd", "labels": {"run": "etcd"}},
        "spec": {"nodeName": node, "containers": [container]},
    }


@pytest.fixture(scope="module")
def example(user: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The example, as it is, training while other tests run; the name of the job."""
    claim, job = yaml.safe_load_all(EXAMPLE.read_text())
    directory = tmp_path_factory.mktemp("volume")
    directory.chmod(0o777)
    volume = volume_of(claim, SPACE, directory)
    user.create(volume)
    user.kubectl("create", "-f", str(EXAMPLE))
    yield job["metadata"]["name"]
    user.kubectl("delete", "-f", str(EXAMPLE))
    user.cluster.kubectl("delete", "persistentvolume", volume["metadata"]["name"])


@pytest.mark.parametrize("backend", [CHOSEN])
def test_workers_come_and_go(user: User, example: str, backend: str, tmp_path: Path) -> None:
    job = Job(user, f"digits-{backend}", tmp_path / "checkpoints", **BACKENDS[backend])
    job.until_training(2)
    assert job.row() | {"AGE": ""} == {
        "NAME": job.name, "PHASE": "Running", "MIN": "1", "MAX": "3", "DESIRED": "2", "READY": "2",
        "AGE": "",
    }  # fmt: skip
    assert {job.node_of(0), job.node_of(1)} == {node.name for node in user.cluster.nodes}

    printed = tmp_path / "printed"
    with followed(user, job.pod(0), printed) as following:
        job.scale(3)
        epoch = job.until_training(3)
        job.kill_training(1)
        epoch = job.until_training(3, after=epoch)
        before = job.uids()
        assert job.status["restarts"] == 0, "the launchers deal with it by themselves"

        killed = job.uid(2)
        job.kill_launcher(2)
        job.until_another(2, killed)
        epoch = job.until_training(3, after=epoch)
        assert job.counted == (1, 1)
        assert job.events("ExitedWithCode") == [f"Pod: {SPACE}.{job.pod(2)} exited with code 137"]
        (restarting,) = job.events("ElasticJobRestarting")
        assert restarting.startswith(
            f"ElasticJob {job.name} is restarting because 1 Worker replica(s) failed."
        )

        deleted = job.uid(1)
        user.kubectl("delete", "pod", job.pod(1), "--wait=false")
        job.until_another(1, deleted)
        epoch = job.until_training(3, after=epoch)
        # A deletion is not a failure.
        assert job.counted == (2, 1)
        assert job.uid(0) in before, "the others were left alone"
        assert following.poll() is None

        host, others = job.uid(0), {job.uid(1), job.uid(2)}
        user.kubectl("delete", "pod", job.pod(0), "--wait=false")
        job.until_another(0, host)
        epoch = job.until_training(3, after=epoch)
        assert following.wait(60) == 0, "kubectl logs -f ends with its pod"
    assert "begin: rank" in printed.read_text()
    if backend == "c10d":
        assert not others & job.uids(), "without their rendezvous the others begin again, too"
    else:
        assert others < job.uids(), "the rendezvous was not lost"
    assert job.status["failures"] == 1
    assert job.condition("Running")["status"] == "True"

    job.scale(1)
    job.until_training(1, after=epoch)
    user.until("only the first worker is left", lambda: job.uid(1) == job.uid(2) == "")
    job.end()
    ended_well(job)


def ended_well(job: Job) -> None:
    """Check what a user reads about a job that has succeeded."""
    ended = f"ElasticJob {job.name} is successfully completed."
    # Events are written after the status.
    job.user.until("the event", lambda: ended in job.events("ElasticJobSucceeded"))
    said = re.sub(" +", " ", job.described())
    for line in (
        f"Message: {ended}",
        "Reason: ElasticJobSucceeded",
        "Phase: Succeeded",
        "Normal SuccessfulCreateService",
        f"elastic-job-controller Created pod: {job.pod(2)}",
        f"elastic-job-controller Deleted 2 pods: {job.pod(1)}, {job.pod(2)}",
        f"elastic-job-controller {ended}",
    ):
        assert line in said, f"{line!r} is not in:\n{said}"
    assert job.condition("Running")["status"] == "False"
    assert job.status["replicaStatuses"]["Worker"]["succeeded"] == 1


def test_the_example_as_it_is(user: User, example: str) -> None:
    user.until(f"{example} ends", lambda: phase(user, example) in {"Succeeded", "Failed"})
    said = user.kubectl("logs", f"{example}-worker-0").splitlines()

    assert phase(user, example) == "Succeeded", "\n".join(said)
    assert said[-1].startswith("validation accuracy: 0.9")
    assert float(said[-1].rpartition(" ")[2]) >= 0.95


def test_the_loss_of_a_node(user: User, tmp_path: Path) -> None:
    """The node has the rendezvous of one job, and a worker of another one."""
    cluster = user.cluster
    node = FragileNode(cluster)
    other = cluster.nodes[0].name
    cluster.kubectl("cordon", other)
    hosted = Job(user, "loses-host", tmp_path / "hosted", replicas=1)
    user.until("the host is there", lambda: hosted.status.get("workersReady") == "1/1")
    cluster.kubectl("uncordon", other)
    hosted.scale(3)
    kept = Job(user, "loses-worker", tmp_path / "kept", replicas=3, **BACKENDS["etcd"])
    first = {job.name: job.until_training(3) for job in (hosted, kept)}
    assert hosted.node_of(0) == node.name
    lost = [index for index in range(3) if kept.node_of(index) == node.name]
    assert len(lost) in {1, 2}
    before = kept.uids()

    try:
        node.lose()
        left = 3 - len(lost)
        epoch = kept.until_training(left, after=first[kept.name])
        assert len(before & kept.uids()) == 3, "nobody has noticed but those that train"
        user.until(
            "the pods are given up",
            lambda: "Terminating" in user.kubectl("get", "pods", "-l", f"job-name={kept.name}"),
        )
        node.give_up()
        # All of them on the remaining node.
        kept.until_training(3, after=epoch)
        hosted.until_training(3, after=first[hosted.name])
        for job in (hosted, kept):
            assert job.status.get("failures", 0) == 0, "the loss of a node is no failure of a job"
            assert job.status["restarts"] >= len(lost)
            assert {job.node_of(index) for index in range(3)} == {other}
            job.end()
    finally:
        node.mend()


def phase(user: User, job: str) -> str:
    """Return the phase of a job."""
    return str(user.get("elasticjob", job).get("status", {}).get("phase"))
