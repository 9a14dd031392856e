"""The same PyTorchJobs, by training-operator and by ours, on a real cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from suites.operators import beside, test_pytorchjobs, trainingoperator
from suites.operators.pytorchjobs import BROKEN, CASES

from .same_jobs import Both, Project, compare, in_turn

if TYPE_CHECKING:
    from hack.cluster import RealCluster

pytestmark = pytest.mark.timeout(1200)


OF_NOBODY = "manager"
"""Is refused by a webhook, which is removed; ours leaves it to that manager."""
PROJECT = Project(
    kinds=("PyTorchJob",),
    plural=trainingoperator.plural("PyTorchJob"),
    install=partial(trainingoperator.install, program="training-operator"),
    operators=(("kubeflow", "training-operator"),),
    manifest=partial(trainingoperator.manifest, "PyTorchJob"),
    cases=in_turn(CASES),
    settled=test_pytorchjobs.settled,
    broken={name: each for name, each in BROKEN.items() if name != OF_NOBODY},
    at_once=4,
)


@pytest.fixture(scope="module")
def both(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """What a user sees of training-operator, and of ours."""
    return compare(PROJECT, cluster, tmp_path_factory.mktemp("both"))


@pytest.mark.parametrize("case", PROJECT.cases)
def test_users_see_the_same(both: Both, case: str) -> None:
    theirs, ours = both.theirs.jobs[case], both.ours.jobs[case]
    beside.assert_same(ours, theirs, case, test_pytorchjobs.KNOWN, test_pytorchjobs.SOMETIMES)


@pytest.mark.parametrize("case", PROJECT.broken)
def test_both_name_the_same_field(both: Both, case: str) -> None:
    _, word = BROKEN[case]
    assert word in both.theirs.said[case]
    assert word in both.ours.said[case]
