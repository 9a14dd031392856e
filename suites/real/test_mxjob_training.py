"""MxJobs run real training on the real cluster, while roles are killed and a node is lost.

The operator runs in its own containers, MXNet in those of `images/mxnet`. More moments at which
roles are killed, and more roles, are in suites/training on the embedded cluster.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
import yaml
from suites import mxnet_manifests
from suites.mxnet_manifests import WITH_GPUS, WITHOUT_GPUS
from suites.scenarios.clusters import FragileNode

from hack import images

from . import node_processes
from .install_support import DEPLOY, User, namespace, uninstall, volume_of
from .mxjob_support import EPOCHS, EXAMPLES, IMAGE, Job, LongJob, gpus, nodes, uids

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.cluster import RealCluster

SPACE = "mxnet"
SILENCE = 120
"""Seconds without a line of output, after which the roles are taken for hanging."""
NOTICED_SECONDS = 10
"""Within which the status tells that a role has been killed."""
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def user(real_cluster: RealCluster) -> Iterator[User]:
    """A user with a namespace; the operator is installed."""
    real_cluster.load_images([images.build("mxnet")])
    uninstall(real_cluster)
    with namespace(real_cluster, SPACE) as found:
        try:
            real_cluster.kubectl("create", "-f", str(DEPLOY))
            found.rolled_out()
            yield found
        finally:
            uninstall(real_cluster)


# -- training ----------------------------------------------------------------------------------


def test_the_examples_as_they_are(user: User, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    counts = {"mxjob-local.yaml": 1, "mxjob-dist.yaml": 6}
    claim, _ = yaml.safe_load_all((EXAMPLES / "mxjob-dist.yaml").read_text())
    volume = volume_of(claim, SPACE, tmp_path)
    user.create(volume)
    jobs = {}
    for file, count in counts.items():
        user.kubectl("create", "-f", str(EXAMPLES / file))
        *_, document = yaml.safe_load_all((EXAMPLES / file).read_text())
        jobs[Job(user, document["metadata"]["name"])] = count
    try:
        for job, count in jobs.items():
            job.assert_trained()
            assert job.row() == [job.name, "Done", "Succeeded", "0"]
            assert len(job.pods()) == count
    finally:
        for file in counts:
            user.kubectl("delete", "-f", str(EXAMPLES / file))
        user.cluster.kubectl("delete", "persistentvolume", volume["metadata"]["name"])


@pytest.mark.parametrize(
    ("role", "words"), [("scheduler-0", "The scheduler"), ("worker-2", "Worker 2")]
)
def test_a_role_that_is_killed(user: User, tmp_path: Path, role: str, words: str) -> None:
    """All are restarted at once, and again if MXNet's roles do not find each other.

    On a busy machine they may wait for each other for ever after a restart, all of them running.
    """
    job = LongJob(user, f"kills-{role}", tmp_path / "checkpoints", progressDeadlineSeconds=SILENCE)
    job.until_saved(EPOCHS // 4)
    before = job.pods()
    assert nodes(before) == {node.name for node in user.cluster.nodes}
    node_processes.kill(before[role]["metadata"]["uid"], "train_digits.py")
    killed = time.monotonic()

    job.until("it is counted", lambda: "lastRestartReason" in job.status)
    assert time.monotonic() - killed < NOTICED_SECONDS
    reason = job.status["lastRestartReason"]
    assert reason.startswith(f"{words} failed: pod {before[role]['metadata']['name']}"), reason
    assert "container mxnet exited with code 137" in reason
    assert reason.endswith("All replicas are restarted (restart 1 of 6).")

    job.assert_trained()
    status, after = job.status, job.pods()
    silent = status["restarts"] - 1
    assert silent in {0, 1}
    assert (status["lastRestartReason"] == reason) != (
        f" {SILENCE} s" in status["lastRestartReason"]
    )
    assert [status[key] for key in ("attempt", "failures", "restarts")] == [1 + silent] * 3
    assert job.row() == [job.name, "Done", "Succeeded", f"{1 + silent}"]
    assert reason in job.restarts()
    assert EPOCHS // 4 <= job.begun() < EPOCHS, "it was killed in mid-training"
    assert len(uids(after) - uids(before)) == len(before) == 6, "all of them were replaced"
    job.assert_nothing_runs(uids(before) | uids(after))
    job.delete()


def test_the_loss_of_a_node(user: User, tmp_path: Path) -> None:
    """The job goes on elsewhere although nobody knows what the lost pods do."""
    node = FragileNode(user.cluster)
    job = LongJob(user, "loses-node", tmp_path / "checkpoints")
    job.until_saved(EPOCHS // 4)
    before = job.pods()
    lost = {role for role, pod in before.items() if pod["spec"]["nodeName"] == node.name}
    assert 0 < len(lost) < 6
    try:
        node.lose()
        job.assert_trained()
        status, after = job.status, job.pods()
    finally:
        node.mend()

    assert "failures" not in status, "the loss of a node is no failure of a job"
    assert [status[key] for key in ("attempt", "restarts")] == [1, 1]
    assert status["lastRestartReason"].endswith("All replicas are restarted (not counted).")
    assert job.row() == [job.name, "Done", "Succeeded", "1"]
    assert EPOCHS // 4 <= job.begun() < EPOCHS, "it was lost in mid-training"
    assert nodes(after) == {user.cluster.nodes[0].name}
    user.until("the lost pods are gone", lambda: uids(before).isdisjoint(all_uids(user)))
    job.assert_nothing_runs(uids(before) | uids(after))
    job.delete()


def all_uids(user: User) -> set[str]:
    """Return the UIDs of all pods there are."""
    return {pod["metadata"]["uid"] for pod in user.items("pods")}


# -- manifests for mxnet-operator --------------------------------------------------------------


@pytest.fixture
def mapped(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A manifest as it is, with our image in the place of one in somebody's registry."""
    source: Path = request.param
    file = tmp_path / source.name
    text, count = re.subn(r"\bimage: \S+", f"image: {IMAGE}", source.read_text())
    assert count
    file.write_text(text)
    return file


def runs_by_its_readme(user: User, path: Path) -> None:
    """Wait for the end of a job, look at it, read its logs and delete it."""
    mxnet_manifests.ends_well(user, path)
    ran = all_uids(user)
    mxnet_manifests.delete(user, path)
    user.until("no process is left", lambda: not any(map(node_processes.of_pod, ran)), 60)


@pytest.mark.parametrize("mapped", WITHOUT_GPUS, ids=lambda path: path.stem, indirect=True)
def test_a_manifest_without_gpus(user: User, mapped: Path) -> None:
    mxnet_manifests.create(user, mapped)
    runs_by_its_readme(user, mapped)


@pytest.mark.parametrize("mapped", WITH_GPUS, ids=lambda path: path.stem, indirect=True)
def test_a_manifest_that_asks_for_gpus(user: User, mapped: Path) -> None:
    """It says what it waits for, and trains when there is that."""
    mxnet_manifests.create(user, mapped)
    mxnet_manifests.waits_for_gpus(user, mapped, len(user.cluster.nodes))
    with gpus(user.cluster, 2):
        runs_by_its_readme(user, mapped)
