"""Values files for kube-openmpi run: by the chart, by `traincrew mpi`, and as a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from suites import openmpi_values, shell
from suites.helm import built
from suites.openmpi_user import UPDATE_SECONDS
from suites.openmpi_values import CHART, FILES, GPU, GPUS, SCHEDULER, name_of

from . import mpiclusters
from .conftest import pull
from .mpiclusters import User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = mpiclusters.NEEDS_SSHD
# What somebody does whose files name images of a registry of their own.
CATALOG = {
    "environments": [
        {"name": "mine", "from": "openmpi", "images": ["registry.example.com/chainermn"]}
    ]
}


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[User]:
    """A user with a cluster that has, or pretends to have, the GPUs the files ask for."""
    home = tmp_path_factory.mktemp("user")
    catalog = home / "environments.yaml"
    catalog.write_text(yaml.safe_dump(CATALOG))
    pull(cache, mpiclusters.IMAGE)
    options = (f"--gpus={GPUS}", f"--scheduler-name={SCHEDULER}", f"--images={catalog}")
    with shell.running(User(home, cache), *options) as user:
        yield user


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a repository with ChainerMN's examples."""
    with openmpi_values.serving(tmp_path_factory.mktemp("repository")) as address:
        yield address


@pytest.fixture(scope="module")
def helm() -> str:
    """The program."""
    return str(built())


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_by_the_chart(user: User, helm: str, tmp_path: Path, repository: str, path: Path) -> None:
    used = openmpi_values.files(path, tmp_path, repository, None)
    name = name_of(path)
    words = [f"--values={each}" for each in used.paths]
    user.does(helm, "install", name, str(CHART), *words)
    openmpi_values.does_what_it_is_for(user, name, used)
    user.does(helm, "uninstall", name, "--wait")
    user.until_nothing_is_left(name)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_by_the_command(user: User, tmp_path: Path, repository: str, path: Path) -> None:
    used = openmpi_values.files(path, tmp_path, repository, None)
    name = name_of(path)
    manifest = user.traincrew("mpi", f"--name={name}", *map(str, used.paths))
    user.kubectl("create", "-f", "-", given=manifest)
    openmpi_values.does_what_it_is_for(user, name, used)
    user.gone(name)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_by_a_manifest(user: User, helm: str, tmp_path: Path, repository: str, path: Path) -> None:
    """As in kube-openmpi's README: what `helm template` prints is created by kubectl."""
    used = openmpi_values.files(path, tmp_path, repository, None)
    name = name_of(path)
    manifest = tmp_path / "manifest.yaml"
    words = [f"--values={each}" for each in used.paths]
    manifest.write_text(user.does(helm, "template", name, str(CHART), *words))
    user.kubectl("create", "-f", str(manifest))
    openmpi_values.does_what_it_is_for(user, name, used)
    user.kubectl("delete", "-f", str(manifest))
    user.until_nothing_is_left(name)


def is_scheduled(user: User, group: str) -> bool:
    status = user.get("podgroups.scheduling.k8s.io", group).get("status", {})
    return {each["type"]: each["status"] for each in status.get("conditions", [])} == {
        "PodGroupScheduled": "True"
    }


def test_a_scheduler_that_the_cluster_stands_in_for(user: User, tmp_path: Path) -> None:
    path = openmpi_values.with_scheduler(tmp_path, SCHEDULER)
    user.kubectl("create", "-f", "-", given=user.traincrew("mpi", "--name=gang", str(path)))
    user.until_condition("gang", "Running")
    assert openmpi_values.schedulers(user, "gang") == {SCHEDULER}
    assert user.get("pdb", "gang-worker-pdb")["spec"]["minAvailable"] == 2
    group = user.get("podgroups.scheduling.k8s.io", "gang-mpicluster")
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    user.until("the group is scheduled", lambda: is_scheduled(user, "gang-mpicluster"), 60)
    events = user.kubectl("get", "events", "-o", "custom-columns=:.message")
    assert "not together with its group" not in events
    user.until_hosts("gang", 2, UPDATE_SECONDS)
    user.runs_everywhere("gang", 2)
    user.gone("gang")


def test_two_groups_that_fit_one_at_a_time_take_turns(user: User, tmp_path: Path) -> None:
    """There are three GPUs, and each cluster needs two: one each would block both."""
    path = openmpi_values.gang(tmp_path, SCHEDULER, 2, GPU)
    names = ("turn-a", "turn-b")
    manifests = [user.traincrew("mpi", f"--name={name}", str(path)) for name in names]
    user.kubectl("create", "-f", "-", given="\n---\n".join(manifests))
    openmpi_values.take_turns(user, names)


def test_a_scheduler_that_there_is_not(user: User, tmp_path: Path) -> None:
    path = openmpi_values.with_scheduler(tmp_path, "volcano")
    user.kubectl("create", "-f", "-", given=user.traincrew("mpi", "--name=waits", str(path)))
    said = 'NoScheduler: spec.schedulerName: no scheduler "volcano" looks after this pod'
    user.until(
        "the status names it",
        lambda: said in user.mpi_cluster("waits").get("status", {}).get("message", ""),
        60,
    )
    user.gone("waits")
