"""ssh of MPIClusters on the embedded cluster: keys are rotated while commands run."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from suites.openmpi_user import HOSTFILE, UPDATE_SECONDS, example, one_shot

from . import mpiclusters
from .conftest import pull

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = mpiclusters.NEEDS_SSHD
OVERLAP = 15
"""Seconds for which both pairs are accepted."""
LOOP = """
import os, time
from mpi4py import MPI
world, rounds = MPI.COMM_WORLD, 0
while not world.allreduce(int(os.path.exists("/tmp/stop")), MPI.MAX):
    rounds += 1
    if world.rank == 0 and rounds == 1:
        print("begun", flush=True)
    time.sleep(0.05)
print(f"rank {world.rank} ended", flush=True)
"""
KEYS = ("id_ed25519", "id_previous", "authorized_keys")


class User(mpiclusters.User):
    """A user with MPIClusters."""

    def ssh(self, cluster: str, other: str) -> str:
        """Run a command on the master of another cluster."""
        words = ("ssh", f"{other}-master.{other}", "hostname")
        return self.kubectl("exec", f"{cluster}-master", "--", *words)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[User]:
    """A user with a running cluster; no private key is in its log."""
    pull(cache, mpiclusters.IMAGE)
    with mpiclusters.keeping_secrets(User(tmp_path_factory.mktemp("user"), cache)) as user:
        yield user


@pytest.fixture
def ranks(user: User) -> Iterator[subprocess.Popen[str]]:
    """Ranks in all pods of a cluster, which exchange messages until there is a file."""
    document = example("interactive.yaml", "play")
    user.create(document)
    user.until_condition("play", "Running")
    user.until_hosts("play", 2, UPDATE_SECONDS)
    mpiexec = ("mpiexec", "--allow-run-as-root", "--hostfile", HOSTFILE, "-n", "3")
    with subprocess.Popen(
        [
            "kubectl",
            "exec",
            "play-master",
            "--",
            *mpiexec,
            "--map-by",
            "ppr:1:node",
            "python3",
            "-c",
            LOOP,
        ],
        env=user.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any(line == "begun\n" for line in process.stdout)
        yield process
        process.kill()
    user.gone("play")


def test_keys_are_rotated_while_ranks_run(user: User, ranks: subprocess.Popen[str]) -> None:
    """Before, meanwhile and afterwards mpiexec works at once, also in pods that are new."""
    pods = {name: pod["metadata"]["uid"] for name, pod in user.pods("play").items()}
    user.runs_everywhere("play", 2)
    user.rotate_keys("play", 2, OVERLAP)
    user.kubectl("scale", "mpicluster", "play", "--replicas=3")
    user.until_hosts("play", 3, UPDATE_SECONDS)
    user.runs_everywhere("play", 3)
    assert ranks.poll() is None, "the ranks still run"
    user.kubectl("exec", "play-worker-1", "--", "touch", "/tmp/stop")
    assert ranks.wait(timeout=60) == 0
    assert ranks.stdout is not None
    # Lines of two ranks may be joined: print writes a line and its end one after the other.
    said = sorted(re.findall(r"rank \d ended", ranks.stdout.read()))
    assert said == [f"rank {number} ended" for number in range(3)]
    now = {name: pod["metadata"]["uid"] for name, pod in user.pods("play").items()}
    assert pods.items() <= now.items(), "no pod is replaced"
    status = user.mpi_cluster("play")["status"]
    assert (status["phase"], status["restarts"]) == ("Running", 0)
    events = user.kubectl("get", "events", "--field-selector", "involvedObject.name=play")
    assert "KeysRotating" in events
    assert "KeysRotated" in events


def test_pods_reach_each_other_whichever_keys_their_nodes_have_given_them(
    user: User, tmp_path: Path
) -> None:
    """One cluster for each state of the Secret that a pod may see during a rotation."""
    for key in ("old", "new"):
        user.does("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / key))
    old, new = ((tmp_path / f"{key}.pub").read_text() for key in ("old", "new"))
    (tmp_path / "both.pub").write_text(new + old)
    states = {
        "before": ("old", None, "old.pub"),
        "during": ("new", "old", "both.pub"),
        "after": ("new", None, "new.pub"),
    }
    for name, files in states.items():
        given = [(key, file) for key, file in zip(KEYS, files, strict=True) if file is not None]
        words = [f"--from-file={key}={tmp_path / file}" for key, file in given]
        user.kubectl("create", "secret", "generic", name, *words)
        document = example("interactive.yaml", name)
        document["spec"]["workers"]["replicas"] = 0
        document["spec"]["ssh"] = {"keySecretName": name}
        user.create(document)
    for name in states:
        user.until_condition(name, "Running")
    for one, other in (("before", "during"), ("during", "after")):
        assert user.ssh(one, other) == f"{other}-master\n"
        assert user.ssh(other, one) == f"{one}-master\n"
    refused = user.kubectl(
        "exec", "before-master", "--", "ssh", "after-master.after", "hostname", code=255
    )
    assert "Permission denied (publickey)" in refused
    for name in states:
        user.gone(name)


def test_a_worker_without_sshd_is_named_in_the_status(user: User) -> None:
    """As with an image whose command is not `/init.sh`."""
    document = example("interactive.yaml", "silent")
    container = document["spec"]["workers"]["template"]["spec"]["containers"][0]
    container["command"] = ["sleep", "600"]
    user.create(document)
    said = "sshd does not answer on port 2022: the image's command has to be /init.sh"

    def message() -> str:
        return str(user.mpi_cluster("silent").get("status", {}).get("message", ""))

    user.until(
        "both workers are named",
        lambda: all(f"silent-worker-{index}: {said}" in message() for index in range(2)),
    )
    assert message().startswith("0/2 workers ready; ")
    user.gone("silent")


def test_a_host_that_does_not_exist_is_explained(user: User) -> None:
    """With ssh's own words, and what to do."""
    command = "mpiexec --allow-run-as-root --host lost-worker-7.lost -n 1 hostname"
    user.create(one_shot("lost", command, backoffLimit=0))
    message = user.until_condition("lost", "Failed")["message"]
    assert "Could not resolve hostname lost-worker-7.lost" in message
    assert message.endswith("; there is no such pod: compare the hostfile with kubectl get pods")
    user.gone("lost")
