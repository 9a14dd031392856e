"""The same MPIJobs, by mpi-operator and by ours, on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from suites.operators import beside, test_mpijobs
from suites.operators.mpijobs import BROKEN, CASES, manifest

from .same_jobs import Both, Project, compare, in_turn

if TYPE_CHECKING:
    from hack.cluster import RealCluster

pytestmark = pytest.mark.timeout(1200)


PROJECT = Project(
    kinds=("MPIJob",),
    plural="mpijobs.kubeflow.org",
    install=test_mpijobs.install,
    operators=(("mpi-operator", "mpi-operator"),),
    manifest=manifest,
    cases=in_turn(CASES),
    settled=test_mpijobs.settled,
    broken=BROKEN,
    at_once=12,
)


@pytest.fixture(scope="module")
def both(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """What a user sees of mpi-operator, and of ours."""
    return compare(PROJECT, cluster, tmp_path_factory.mktemp("both"))


@pytest.mark.parametrize("case", PROJECT.cases)
def test_users_see_the_same(both: Both, case: str) -> None:
    beside.assert_same(both.ours.jobs[case], both.theirs.jobs[case], case, test_mpijobs.KNOWN)


@pytest.mark.parametrize("case", BROKEN)
def test_both_name_the_same_field(both: Both, case: str) -> None:
    _, word = BROKEN[case]
    assert word in both.theirs.said[case]
    assert word in both.ours.said[case]
