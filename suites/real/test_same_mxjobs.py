"""The same MXJobs, by training-operator 1.8 and by ours, on a real cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from suites.operators import beside, test_mxjobs, trainingoperator
from suites.operators.mxjobs import CASES, REFUSED

from .same_jobs import Both, Project, compare, in_turn

if TYPE_CHECKING:
    from hack.cluster import RealCluster

pytestmark = pytest.mark.timeout(1200)


PROJECT = Project(
    kinds=("MXJob",),
    plural=trainingoperator.plural("MXJob"),
    install=partial(trainingoperator.install, program="training-operator-1.8"),
    operators=(("kubeflow", "training-operator"),),
    manifest=partial(trainingoperator.manifest, "MXJob"),
    cases=in_turn(CASES),
    settled=test_mxjobs.settled,
    broken=REFUSED,
    at_once=4,
)


@pytest.fixture(scope="module")
def both(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """What a user sees of training-operator, and of ours."""
    return compare(PROJECT, cluster, tmp_path_factory.mktemp("both"))


@pytest.mark.parametrize("case", PROJECT.cases)
def test_users_see_the_same(both: Both, case: str) -> None:
    theirs, ours = both.theirs.jobs[case], both.ours.jobs[case]
    beside.assert_same(ours, theirs, case, test_mxjobs.KNOWN, test_mxjobs.SOMETIMES)


@pytest.mark.parametrize("case", REFUSED)
def test_both_name_the_same_field(both: Both, case: str) -> None:
    _, word = REFUSED[case]
    assert word in both.theirs.said[case]
    assert word in both.ours.said[case]
