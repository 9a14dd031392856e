"""Values files for kube-openmpi run on the real cluster, by Helm, and by another scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hack.cluster import binaries
from suites import openmpi_values
from suites.openmpi_user import UPDATE_SECONDS
from suites.openmpi_values import CHART, FILES, GPU, IMAGE, SCHEDULER, name_of

from .install_support import SECONDS, run
from .mxjob_support import gpus
from .openmpi_support import User, installed, place, scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.cluster import RealCluster

SPACE = "openmpi-values"
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def user(real_cluster: RealCluster) -> Iterator[User]:
    """A user with a namespace; the operator is installed."""
    with installed(real_cluster, SPACE, "openmpi-chainermn", "git") as user:
        yield user


@pytest.fixture(scope="module")
def repository(user: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a repository with ChainerMN's examples."""
    directory = tmp_path_factory.mktemp("repository")
    with openmpi_values.serving(directory, place(user.cluster)) as address:
        yield address


def helm(user: User, *words: str) -> None:
    """Run Helm in the user's namespace."""
    run(binaries.build("helm"), user.cluster, *words, f"--namespace={SPACE}")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_by_the_chart(user: User, repository: str, tmp_path: Path, path: Path) -> None:
    """With GPUs that the nodes only say they have, where a file asks for some."""
    used = openmpi_values.files(path, tmp_path, repository, IMAGE)
    name = name_of(path)
    with gpus(user.cluster, 2, GPU):
        helm(user, "install", name, str(CHART), *(f"--values={each}" for each in used.paths))
        openmpi_values.does_what_it_is_for(user, name, used)
        helm(user, "uninstall", name, "--wait", f"--timeout={SECONDS:g}s")
        user.until_nothing_is_left(name)


def test_another_scheduler(user: User, tmp_path: Path) -> None:
    """Nobody else places the pods, and the budget is as large as the group."""
    path = openmpi_values.with_scheduler(tmp_path, SCHEDULER)
    helm(user, "install", "gang", str(CHART), f"--values={path}")
    user.until("the workers are there", lambda: len(user.pods("gang")) >= 2)
    with scheduler(user.cluster, SCHEDULER, tmp_path):
        user.until_condition("gang", "Running")
    assert openmpi_values.schedulers(user, "gang") == {SCHEDULER}
    events = user.items("events", "--field-selector=reason=Scheduled")
    by = {each["involvedObject"]["name"]: each["reportingComponent"] for each in events}
    assert {by[pod] for pod in user.pods("gang")} == {SCHEDULER}
    assert user.get("pdb", "gang-worker-pdb")["spec"]["minAvailable"] == 2
    user.until_hosts("gang", 2, UPDATE_SECONDS)
    user.runs_everywhere("gang", 2)
    helm(user, "uninstall", "gang", "--wait", f"--timeout={SECONDS:g}s")
    user.until_nothing_is_left("gang")
