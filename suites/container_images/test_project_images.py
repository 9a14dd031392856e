"""Every image of the project runs its program: as root, and as nobody.

Those that jobs are made of train in `test_kinds`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from suites.container_images.pods import Cluster
from suites.container_images.test_kinds import IMAGES
from suites.container_images.users import user_named

from hack import images

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"
PROGRAMS = {
    "operator": (["/opt/traincrew/bin/traincrew", "version"], "traincrew "),
    "git": (["git", "--version"], "git version "),
    "chainer": (
        ["python3", "-c", "import chainer; print('chainer', chainer.__version__)"],
        "chainer ",
    ),
    "busybox": (["busybox", "id", "-u"], "65532"),
    "etcd": (["/usr/local/bin/etcd", "--version"], "etcd Version: "),
    "openmpi": (["mpiexec", "--version"], "mpiexec (OpenRTE) "),
}
"""A command of each, and how what it prints begins."""


@pytest.fixture(scope="module", params=["root", "nobody"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    lacking = images.missing()
    if os.geteuid() != 0:
        lacking.append("root, who may become nobody")
    if lacking:
        text = "images cannot be built here; missing: " + "; ".join(lacking)
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    with user_named(request.param, "project") as user:
        cluster = Cluster(user)
        try:
            yield cluster
        finally:
            cluster.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_an_image_runs(cluster: Cluster, name: str) -> None:
    command, begin = PROGRAMS[name]
    archive = images.build(name)
    cluster.user.has(archive)
    lines = cluster.lines(name, images.image(name).tagged, command=command)
    assert lines[0].startswith(begin), lines
    cluster.kubectl("delete", "pod", name, "--wait")
    cluster.user.removes(archive, images.image(name).tagged)


def test_no_image_is_left_out() -> None:
    assert {*PROGRAMS, *(name for needed in IMAGES.values() for name in needed)} == {
        *images.names()
    }
