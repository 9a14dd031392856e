"""MPIClusters with `transport: exec` on the embedded cluster, from an image that has no ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from suites import git_servers, shell
from suites.openmpi_user import (
    HOSTFILE,
    UPDATE_SECONDS,
    example,
    lines,
    one_shot,
    with_code,
    without_ssh,
)

from .conftest import pull
from .mpiclusters import User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IMAGE = "traincrew/chainermn:0.1.0"
MPIEXEC = f"mpiexec --allow-run-as-root --hostfile {HOSTFILE} -n 3 --map-by ppr:1:node"


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[User]:
    """A user with a running cluster."""
    pull(cache, IMAGE)
    with shell.running(User(tmp_path_factory.mktemp("user"), cache)) as user:
        yield user


def test_an_interactive_cluster_is_scaled(user: User) -> None:
    user.create(without_ssh(example("interactive.yaml", "play"), IMAGE))
    user.until_condition("play", "Running")
    user.until_hosts("play", 2, UPDATE_SECONDS)
    user.runs_everywhere("play", 2)
    for count in (3, 1):
        user.kubectl("scale", "mpicluster", "play", f"--replicas={count}")
        user.until_workers("play", count)
        user.until_hosts("play", count, UPDATE_SECONDS)
        user.runs_everywhere("play", count)
    train = ("python3", "/examples/train_digits.py", "--epochs=20", "--require-accuracy=0.9")
    assert "2 process(es), 719 images each" in user.mpiexec("play", 2, *train)
    assert "play-ssh-key" not in user.kubectl("get", "secrets")
    assert "sshKeySecretName" not in user.mpi_cluster("play")["status"]
    user.gone("play")


def test_the_cluster_ends_with_its_command(user: User) -> None:
    command = f"{MPIEXEC} sh -c 'echo $(hostname):hello'"
    user.create(without_ssh(one_shot("succeeds", command), IMAGE))
    user.until_condition("succeeds", "Succeeded")
    assert user.mpi_cluster("succeeds")["status"]["exitCode"] == 0
    log = lines(user.kubectl("logs", "succeeds-master"))
    assert log == [f"succeeds-{host}:hello" for host in ("master", "worker-0", "worker-1")]
    user.until("the workers are gone", lambda: list(user.pods("succeeds")) == ["succeeds-master"])
    user.gone("succeeds")


def test_a_rank_that_fails(user: User) -> None:
    """Its exit code is that of the cluster, also if it ran on a worker."""
    command = f"{MPIEXEC} sh -c 'test $OMPI_COMM_WORLD_RANK != 2 || exit 3'"
    user.create(without_ssh(one_shot("fails", command, backoffLimit=0), IMAGE))
    condition = user.until_condition("fails", "Failed")
    assert condition["reason"] == "BackoffLimitExceeded"
    assert "exited with code 3" in condition["message"]
    assert user.mpi_cluster("fails")["status"]["exitCode"] == 3
    user.gone("fails")


def test_a_process_that_cannot_be_started_is_explained(user: User) -> None:
    command = "mpiexec --allow-run-as-root --host lost-worker-7.lost -n 1 hostname"
    user.create(without_ssh(one_shot("lost", command, backoffLimit=0), IMAGE))
    condition = user.until_condition("lost", "Failed")
    # The Role of a master names its workers.
    why = (
        'Error from server (Forbidden): pods "lost-worker-7" is forbidden: User '
        '"system:serviceaccount:default:lost-master" cannot get resource "pods/exec" in API group '
        '"" in the namespace "default"'
    )
    assert condition["message"].endswith(f"exited with code 1: {why}"), condition
    user.gone("lost")


def test_another_user_and_a_read_only_file_system(user: User) -> None:
    """As where the Pod Security level is `restricted`."""
    command = f"{MPIEXEC} sh -c 'echo $(hostname) $(id -u)'"
    document = without_ssh(example("one-shot-non-root.yaml", "own"), IMAGE)
    document["spec"]["master"]["oneShot"]["command"] = command
    user.create(document)
    user.until_condition("own", "Succeeded")
    log = lines(user.kubectl("logs", "own-master"))
    assert log == ["own-master 1000", "own-worker-0 1000", "own-worker-1 1000"]
    user.gone("own")


def test_code_is_fetched_without_the_token_of_the_master(
    user: User, tmp_path_factory: pytest.TempPathFactory
) -> None:
    repository = git_servers.Repository(tmp_path_factory.mktemp("repository"))
    with git_servers.public(repository) as address:
        document = without_ssh(with_code("code", address, workers=1), IMAGE)
        document["spec"]["codeSync"][0]["updateSeconds"] = 3600
        user.create(document)
        user.until_condition("code", "Succeeded")
    log = lines(user.kubectl("logs", "code-master", "-c", "mpi-master"))
    assert log == ["code-master says hello", "code-worker-0 says hello"]
    pod = user.get("pod", "code-master")["spec"]
    tokens = [each["name"] for each in pod["volumes"] if "projected" in each]
    (token,) = (name for name in tokens if name.startswith("kube-api-access-"))
    containers = (*pod["initContainers"], *pod["containers"])
    mounts = {
        each["name"]: {mount["name"] for mount in each["volumeMounts"]} for each in containers
    }
    has_token = {name for name, volumes in mounts.items() if token in volumes}
    assert has_token == {"kube-openmpi-kubectl", "mpi-master"}
    assert mounts.keys() - has_token == {"mine-fetch", "mine-update"}
    user.gone("code")
