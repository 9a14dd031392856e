"""MPIClusters on the embedded cluster: processes start in other pods by ssh, as users start them.

The steps are those of examples/openmpi/README.md: create, `kubectl exec`, `kubectl scale`, logs.
"""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest
from suites import openmpi_loop, processes, shell
from suites.openmpi_user import (
    EXAMPLES,
    HOSTFILE,
    UPDATE_SECONDS,
    example,
    lines,
    one_shot,
    restarts,
)

from . import mpiclusters
from .conftest import pull
from .mpiclusters import User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from traincrew.local.images import Environment

pytestmark = mpiclusters.NEEDS_SSHD


@pytest.fixture(scope="module")
def openmpi(cache: Path) -> Environment:
    """The environment of the pods."""
    return pull(cache, mpiclusters.IMAGE)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path, openmpi: object) -> Iterator[User]:
    """A user with a running cluster."""
    with shell.running(User(tmp_path_factory.mktemp("user"), cache)) as user:
        yield user


# -- interactive -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def playground(user: User) -> str:
    """An interactive cluster with two workers."""
    user.create(example("interactive.yaml", "play"))
    user.until_condition("play", "Running")
    return "play"


def test_an_interactive_cluster_runs_what_it_is_told(user: User, playground: str) -> None:
    user.until_hosts(playground, 2, UPDATE_SECONDS)
    user.runs_everywhere(playground, 2)
    train = ("python3", "/examples/train_digits.py", "--epochs=20", "--require-accuracy=0.9")
    assert "3 process(es), 479 images each" in user.mpiexec(playground, 3, *train)
    # Without mpiexec, and between workers as well.
    words = ("ssh", f"{playground}-worker-0.{playground}", "ssh", f"{playground}-worker-1.play")
    found = user.kubectl("exec", f"{playground}-master", "--", *words, "hostname")
    assert found == f"{playground}-worker-1\n"
    # No pod needs the Kubernetes API.
    for host in ("master", "worker-0"):
        token = "/var/run/secrets/kubernetes.io"
        user.kubectl("exec", f"{playground}-{host}", "--", "test", "!", "-e", token)
    # What sshd says of people, and not of probes.
    log = user.kubectl("exec", f"{playground}-worker-0", "--", "cat", "/tmp/sshd.log")
    assert "Accepted publickey for " in log
    assert "kex_exchange_identification" not in log


@pytest.mark.parametrize("what", ["mpicluster/play", "statefulset/play-worker"])
def test_scaling_by(user: User, playground: str, what: str) -> None:
    """The hostfile follows the workers, down to none, and mpiexec goes on with those it lists."""
    openmpi_loop.scale(user, what, playground, openmpi_loop.SCALED)
    status = user.get("statefulset", f"{playground}-worker")
    assert status["spec"]["replicas"] == openmpi_loop.SCALED[-1]


def test_a_lost_worker_and_a_lost_master_come_back(user: User, playground: str) -> None:
    before = user.pods(playground)
    for lost in (f"{playground}-worker-0", f"{playground}-master"):
        user.kubectl("delete", "pod", lost)
        user.until_replaced(playground, before[lost])
        user.until_hosts(playground, 2, UPDATE_SECONDS)
        user.runs_everywhere(playground, 2)
    worker = f"{playground}-worker-1"
    assert user.pods(playground)[worker]["metadata"]["uid"] == before[worker]["metadata"]["uid"]


def kill(pod: str) -> None:
    """Kill the container of a pod, as the kernel does it that runs out of memory."""
    for process in processes.first_of_pods(re.escape(pod)):
        os.kill(process, signal.SIGKILL)


def test_a_killed_worker_and_a_killed_master_are_started_again(user: User, playground: str) -> None:
    """In their pods, and no other pod is touched."""
    before = user.pods(playground)
    for killed in (f"{playground}-worker-0", f"{playground}-master"):
        kill(killed)
        user.until_restarted(playground, before[killed])
        user.until_hosts(playground, 2, UPDATE_SECONDS)
        user.runs_everywhere(playground, 2)
    after = user.pods(playground)
    uids = {name: pod["metadata"]["uid"] for name, pod in before.items()}
    assert {name: pod["metadata"]["uid"] for name, pod in after.items()} == uids
    assert restarts(after[f"{playground}-worker-1"]) == 0


def test_no_key_is_shown(user: User, playground: str) -> None:
    """The private key is in one Secret, and nowhere else."""
    shown = user.kubectl("get", "mpicluster,configmap,statefulset,pod", "-o", "yaml")
    assert "PRIVATE KEY" not in shown
    assert "PRIVATE KEY" not in user.log()


def test_a_deleted_cluster_ends_at_once(user: User, playground: str) -> None:
    started = time.monotonic()
    user.gone(playground)
    # Less than the grace period: the pods end when they are told to.
    assert time.monotonic() - started < 20


# -- one-shot ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "manifest", ["one-shot.yaml", "one-shot-non-root.yaml", "cluster-reference.yaml"]
)
def test_the_examples_train_with_traincrew_run(user: User, manifest: str) -> None:
    output = user.traincrew("run", "-f", str(EXAMPLES / manifest))
    assert "Succeeded" in output
    assert "Kept for a day" not in output  # not the keys of ssh, for example
    accuracy = output.rpartition("validation accuracy: ")[2].split()[0]
    assert float(accuracy) >= 0.95, output


def test_values_of_kube_openmpi(user: User) -> None:
    """As user 1000, with the command line of kube-openmpi's own example."""
    manifest = user.traincrew("mpi", str(EXAMPLES / "values/one-shot.yaml"), "--name", "mine")
    output = user.traincrew("run", "-", given=manifest)
    assert "Succeeded" in output
    assert re.search(r"Data for node: mine-worker-1\b.*\n.*Process rank: 2\b", output), output
    assert float(output.rpartition("validation accuracy: ")[2].split()[0]) >= 0.95


def test_a_command_that_goes_on_when_the_cluster_was_scaled(user: User) -> None:
    """As `make run-mpi` shows it."""
    manifest = user.traincrew("mpi", str(EXAMPLES / "values/scaled.yaml"), "--name", "hello")
    output = user.traincrew("run", "-", "--scale", "3@4s", given=manifest)
    for rank, host in enumerate(("master", "worker-0", "worker-1")):
        assert f"rank {rank} of 3 is on hello-{host}\n" in output
    assert "the hostfile had 3 hosts, and has 4" in output
    assert "4 process(es), 360 images each" in output
    assert "hello: Succeeded" in output


def test_the_cluster_ends_with_its_command(user: User) -> None:
    run = f"mpiexec --allow-run-as-root --hostfile {HOSTFILE} -n 3 --map-by ppr:1:node"
    user.create(one_shot("succeeds", f"{run} sh -c 'echo $(hostname):hello'"))
    user.until_condition("succeeds", "Succeeded")
    assert user.mpi_cluster("succeeds")["status"]["exitCode"] == 0
    log = lines(user.kubectl("logs", "succeeds-master"))
    hosts = ("master", "worker-0", "worker-1")
    assert log == [f"succeeds-{host}:hello" for host in hosts]
    user.until("the workers are gone", lambda: list(user.pods("succeeds")) == ["succeeds-master"])
    assert user.get("statefulset", "succeeds-worker")["spec"]["replicas"] == 0
    user.gone("succeeds")


def test_a_command_that_fails(user: User) -> None:
    user.create(one_shot("fails", "echo tried; exit 3", backoffLimit=1))
    condition = user.until_condition("fails", "Failed")
    assert condition["reason"] == "BackoffLimitExceeded"
    status = user.mpi_cluster("fails")["status"]
    assert (status["exitCode"], status["failures"]) == (3, 2)
    master = user.pods("fails")["fails-master"]["status"]
    assert "3" in condition["message"], condition
    assert master["containerStatuses"][0]["restartCount"] == 1
    assert "tried" in user.kubectl("logs", "fails-master")
    user.gone("fails")


def test_a_retry_that_succeeds(user: User) -> None:
    """The second attempt is in the same pod, and then the workers go, too."""
    document = one_shot(
        "retries",
        f"mpiexec --allow-run-as-root --hostfile {HOSTFILE} -n 3 --map-by ppr:1:node hostname"
        " && test -e /tried/once || { touch /tried/once; exit 7; }",
        backoffLimit=3,
    )
    template = document["spec"]["master"]["template"]["spec"]
    template["volumes"] = [{"name": "tried", "emptyDir": {}}]
    template["containers"][0]["volumeMounts"] = [{"name": "tried", "mountPath": "/tried"}]
    user.create(document)
    user.until_condition("retries", "Succeeded")
    status = user.mpi_cluster("retries")["status"]
    assert (status["exitCode"], status["failures"]) == (0, 1)
    user.until("the workers are gone", lambda: list(user.pods("retries")) == ["retries-master"])
    user.gone("retries")


def test_a_worker_that_is_killed_while_ranks_run(user: User) -> None:
    """The command fails, is run again when the worker is back, and succeeds."""
    user.create(openmpi_loop.endless_first("loses"))
    openmpi_loop.until_begun(user, "loses")
    kill("loses-worker-1")
    openmpi_loop.succeeds_in_the_second_attempt(user, "loses")


def test_another_user_with_a_key_of_its_own(user: User, tmp_path: Path) -> None:
    """As uid 1000, and with the files that kube-openmpi's gen-ssh-key.sh makes."""
    user.does("ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(tmp_path / "id_rsa"))
    files = {"id_rsa": "id_rsa", "id_rsa.pub": "id_rsa.pub", "authorized_keys": "id_rsa.pub"}
    words = [f"--from-file={key}={tmp_path / file}" for key, file in files.items()]
    user.kubectl("create", "secret", "generic", "own-key", *words)
    run = f"mpiexec --hostfile {HOSTFILE} -n 3 --map-by ppr:1:node"
    document = one_shot("own", f"{run} sh -c 'echo $(hostname) $(id -u)'", backoffLimit=0)
    document["spec"]["ssh"] = {"keySecretName": "own-key"}
    for role in ("master", "workers"):
        template = document["spec"][role]["template"]["spec"]
        template["securityContext"] = {"runAsUser": 1000, "fsGroup": 1000}
    user.create(document)
    user.until_condition("own", "Succeeded")
    log = lines(user.kubectl("logs", "own-master"))
    assert log == ["own-master 1000", "own-worker-0 1000", "own-worker-1 1000"]
    assert user.mpi_cluster("own")["status"]["sshKeySecretName"] == "own-key"
    user.gone("own")
    user.kubectl("get", "secret", "own-key")
