"""Gangs: The coscheduling plugin of scheduler-plugins, as a second scheduler."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from suites import openmpi_values

from hack import images

from . import openmpi_support
from .gang_cases import GangCases, clean
from .gang_support import (
    COSCHEDULING,
    PLURALS,
    PROGRAM,
    SIZE,
    SLOT,
    SPACE,
    UNTIL_TOLD,
    GangUser,
    cluster,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["clean"]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def user() -> Iterator[GangUser]:
    """A user of a cluster with this scheduler."""
    with cluster(COSCHEDULING) as found:
        yield found


class TestGangs(GangCases):
    """All cases."""


def test_a_gang_that_the_scheduler_does_not_know_is_released(user: GangUser) -> None:
    """Its pods do not name the second scheduler, so they are placed one by one."""
    user.create(user.elastic("first", UNTIL_TOLD, 2))
    user.until_running("first", 2)
    job = user.mxnet("second", UNTIL_TOLD)
    for spec in job["spec"]["replicaSpecs"]:
        del spec["template"]["spec"]["schedulerName"]
    user.create(job)
    kind = PLURALS[job["kind"]]

    def released() -> bool:
        conditions = user.get(kind, "second").get("status", {}).get("conditions", ())
        return any(
            each["reason"] == "GangReleased"
            and "Only 2 of 3 pods found room" in each["message"]
            and "schedulerName in the templates must name" in each["message"]
            for each in conditions
        )

    user.until("its pods are released", released, 120)


def test_two_clusters_of_kube_openmpi_take_turns(user: GangUser, tmp_path: Path) -> None:
    """As its values ask for a scheduler of groups: `customScheduling`."""
    user.cluster.load_images([images.build("openmpi")])
    path = openmpi_values.gang(tmp_path, COSCHEDULING.scheduler, SIZE, SLOT)
    names = ("turn-a", "turn-b")
    for name in names:
        (tmp_path / f"{name}.manifest").write_text(
            subprocess.check_output([PROGRAM, "mpi", f"--name={name}", path], text=True)
        )
    words = [f"--filename={tmp_path / name}.manifest" for name in names]
    user.kubectl("create", *words)
    openmpi_values.take_turns(openmpi_support.User(user.cluster, SPACE), names)
