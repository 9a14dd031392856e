"""MPIClusters with an image of the user's own: a newer Debian, Open MPI 5 and OpenSSH 10."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hack.images import catalog
from suites.openmpi5 import AGAIN, one_shot_that_ends, with_image
from suites.openmpi_user import UPDATE_SECONDS, example

from .openmpi_support import User, installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.cluster import RealCluster

pytestmark = pytest.mark.timeout(600)
NAME = "openmpi-own"
IMAGE = catalog.image(NAME).tagged


@pytest.fixture(scope="module")
def user(real_cluster: RealCluster) -> Iterator[User]:
    """A user with a namespace; the operator is installed."""
    with installed(real_cluster, "openmpi-own", NAME) as user:
        user.before_mpiexec = AGAIN
        yield user


def test_interactive(user: User) -> None:
    user.create(with_image(example("interactive.yaml", "own"), IMAGE))
    user.until_condition("own", "Running")

    def version(*command: str) -> str:
        return user.kubectl("exec", "own-master", "--", "sh", "-c", f"{' '.join(command)} 2>&1")

    assert version("mpiexec", "--version").startswith("mpiexec (Open MPI) 5.")
    assert version("ssh", "-V").startswith("OpenSSH_10.")
    user.runs_everywhere("own", 2)
    user.kubectl("scale", "mpicluster/own", "--replicas=1")
    user.until_workers("own", 1)
    user.until_hosts("own", 1, UPDATE_SECONDS)
    user.runs_everywhere("own", 1)
    user.rotate_keys("own", 1, overlap=5)
    user.gone("own")


def test_a_command(user: User) -> None:
    found = user.says(one_shot_that_ends("says", IMAGE, "hostname"))
    assert found == ["says-master", "says-worker-0", "says-worker-1"]


def test_a_rank_that_fails(user: User) -> None:
    command = ("sh", "-c", "'exit 7'")
    user.create(one_shot_that_ends("fails", IMAGE, *command, backoffLimit=0))
    user.until_condition("fails", "Failed")
    assert user.mpi_cluster("fails")["status"]["exitCode"] == 7
    user.gone("fails")
