"""Manifests written for mxnet-operator run as they are, with the commands of its README.

More of them can be tested: TRAINCREW_SUITE_MXNET_MANIFESTS names directories.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from suites import mxnet_manifests, processes, shell
from suites.mxnet_manifests import WITH_GPUS, WITHOUT_GPUS, job_of

from traincrew.local.node import count_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from traincrew.local.images import Environment


@pytest.fixture(scope="module")
def plain(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, mxnet: Environment
) -> Iterator[shell.User]:
    """A user with a cluster without GPUs."""
    with cluster(tmp_path_factory.mktemp("plain"), cache, "--gpus=0") as (user, _):
        yield user


@pytest.fixture(scope="module")
def with_gpus(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, mxnet: Environment
) -> Iterator[shell.User]:
    """A user with a cluster that pretends to have GPUs."""
    with cluster(tmp_path_factory.mktemp("gpus"), cache, "--gpus=3") as (user, said):
        if count_gpus() < 3:
            assert "warning: --gpus 3 is pretended" in said
        yield user


@contextmanager
def cluster(home: Path, cache: Path, *options: str) -> Iterator[tuple[shell.User, str]]:
    """Yield a user with a cluster, and what was said when it was started."""
    user = shell.User(home, cache, "mxj,job,pod,event")
    yield user, user.traincrew("up", *options, "--kubeconfig", str(user.kubeconfig))
    log = user.log()
    user.traincrew("down")
    assert "Traceback" not in log, log
    shutil.rmtree(home)


def runs_by_its_readme(user: shell.User, path: Path) -> None:
    """Create the job, look at it, wait for its end, read its logs and delete it."""
    mxnet_manifests.create(user, path)
    mxnet_manifests.ends_well(user, path)
    mxnet_manifests.delete(user, path)
    no_process_is_left(user, path, 15)


def no_process_is_left(user: shell.User, path: Path, seconds: float) -> None:
    """Wait until no process of a job runs."""
    _, name = job_of(path)
    user.until("no process is left", lambda: not processes.of_pods(f"{name}-.*"), seconds)


@pytest.mark.parametrize("path", WITHOUT_GPUS, ids=lambda path: path.stem)
def test_a_manifest_without_gpus(plain: shell.User, path: Path) -> None:
    runs_by_its_readme(plain, path)


@pytest.mark.parametrize("path", WITH_GPUS, ids=lambda path: path.stem)
def test_a_job_without_its_gpus_says_so(plain: shell.User, path: Path) -> None:
    mxnet_manifests.create(plain, path)
    mxnet_manifests.waits_for_gpus(plain, path, 1)
    mxnet_manifests.delete(plain, path)
    # Scheduler and servers have started, and ignore the signal that asks them to end.
    no_process_is_left(plain, path, 45)


@pytest.mark.parametrize("path", WITH_GPUS, ids=lambda path: path.stem)
def test_a_manifest_on_pretended_gpus(with_gpus: shell.User, path: Path) -> None:
    runs_by_its_readme(with_gpus, path)
