"""Clusters for other people's operators, and what their images stand for."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from suites.conftest import REQUIRE
from suites.operators import modules
from suites.shell import User

from traincrew.local.directories import default_cache
from traincrew.local.images import ImageStore

IMAGES = ("mpioperator/mpi-pi:openmpi", "kubeflowkatib/pytorch-mnist")


def open_mpi() -> Path:
    """Where the Open MPI of the Chainer images is installed."""
    environment = asyncio.run(ImageStore(default_cache()).pull("traincrew/chainer", print))
    assert environment.prefix is not None
    return environment.prefix


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalog of the operators' images; skips, saying everything that is missing."""
    if lacking := "; ".join(modules.missing()):
        text = f"the operators cannot be built here; missing: {lacking}"
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    return modules.prepare(tmp_path_factory.mktemp("operators") / "images", open_mpi())


@pytest.fixture
def cluster(catalog: Path, tmp_path: Path) -> Iterator[User]:
    """Someone with a cluster of two nodes: each has all processors, and the examples want three."""
    user = User(tmp_path, default_cache(), "pod,event")
    images = f"--images={catalog}"
    user.timeout = 600
    user.traincrew("images", "pull", images, *IMAGES)
    user.traincrew("up", "--nodes=2", images, f"--kubeconfig={user.kubeconfig}")
    with contextlib.ExitStack() as stack:
        stack.callback(user.traincrew, "down")
        yield user
        log = user.log()
    assert "Traceback" not in log, log
