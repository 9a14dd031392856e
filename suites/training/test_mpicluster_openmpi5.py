"""MPIClusters with Open MPI 5, in an environment of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from suites import shell
from suites.openmpi5 import AGAIN, one_shot_that_ends, with_image
from suites.openmpi_user import HOSTFILE, UPDATE_SECONDS, example, lines

from . import mpiclusters
from .conftest import pull

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = mpiclusters.NEEDS_SSHD
NAME = "registry.example.com/me/openmpi"
IMAGE = f"{NAME}:1"
VERSION = "5.0.11"
# As in docs/guides/environments.md.
CATALOG = {
    "environments": [
        {
            "name": "openmpi-5",
            "from": "openmpi",
            "images": [NAME],
            "requirements": [f"openmpi=={VERSION}"],
        }
    ]
}


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[mpiclusters.User]:
    """A user with a running cluster."""
    home = tmp_path_factory.mktemp("user")
    catalog = home / "environments.yaml"
    catalog.write_text(yaml.safe_dump(CATALOG))
    pull(cache, IMAGE, [catalog])
    with shell.running(mpiclusters.User(home, cache), "--images", str(catalog)) as user:
        user.before_mpiexec = AGAIN
        yield user


@pytest.fixture(scope="module")
def playground(user: mpiclusters.User) -> str:
    """An interactive cluster with two workers, each with one slot."""
    document = with_image(example("interactive.yaml", "play"), IMAGE)
    document["spec"]["slots"] = 1
    user.create(document)
    user.until_condition("play", "Running")
    return "play"


def test_processes_start_in_other_pods(user: mpiclusters.User, playground: str) -> None:
    version = user.kubectl("exec", f"{playground}-master", "--", "mpiexec", "--version")
    assert version.startswith(f"mpiexec (Open MPI) {VERSION}\n")
    user.runs_everywhere(playground, 2)
    train = ("python3", "/examples/train_digits.py", "--epochs=20", "--require-accuracy=0.9")
    assert "3 process(es), 479 images each" in user.mpiexec(playground, 3, *train)


def test_the_slots_of_the_hostfile_count(user: mpiclusters.User, playground: str) -> None:
    def mpiexec(ranks: int, code: int) -> str:
        words = ("mpiexec", "--allow-run-as-root", "--hostfile", HOSTFILE, "-n", str(ranks))
        return user.kubectl(
            "exec", f"{playground}-master", "--", *AGAIN, *words, "hostname", code=code
        )

    hosts = [f"{playground}-{host}" for host in ("master", "worker-0", "worker-1")]
    assert lines(mpiexec(3, 0)) == hosts
    assert "There are not enough slots available" in mpiexec(4, 1)


def test_the_hostfile_follows_the_workers(user: mpiclusters.User, playground: str) -> None:
    for count in (3, 1):
        user.kubectl("scale", f"mpicluster/{playground}", f"--replicas={count}")
        user.until_workers(playground, count)
        names = ["master", *(f"worker-{index}" for index in range(count))]
        wanted = [f"{playground}-{name}.{playground} slots=1" for name in names]
        user.until_lines(playground, wanted, UPDATE_SECONDS)
        user.runs_everywhere(playground, count)


def test_a_command_trains(user: mpiclusters.User) -> None:
    user.create(one_shot_that_ends("trains", IMAGE, "python3", "/examples/train_digits.py"))
    user.until_condition("trains", "Succeeded")
    log = user.kubectl("logs", "trains-master")
    assert float(log.rpartition("validation accuracy: ")[2].split()[0]) >= 0.95, log
    user.gone("trains")


def test_a_rank_that_fails_fails_the_command(user: mpiclusters.User) -> None:
    user.create(one_shot_that_ends("fails", IMAGE, "sh", "-c", "'exit 7'", backoffLimit=0))
    user.until_condition("fails", "Failed")
    assert user.mpi_cluster("fails")["status"]["exitCode"] == 7
    user.gone("fails")
