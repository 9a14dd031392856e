"""The same TrainJobs, by Trainer and by ours, on a real cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from suites.operators import beside, test_trainjobs
from suites.operators.trainjobs import BROKEN, CASES, GROUP, RUNTIMES, manifest

from traincrew.api.kinds.trainjob import shipped

from .same_jobs import Both, Project, compare, in_turn

if TYPE_CHECKING:
    from hack.cluster import RealCluster
    from suites.shell import User

pytestmark = pytest.mark.timeout(1200)


_OF_TRAINER = [each for each in shipped.RUNTIMES if "torchtune" in each["metadata"]["name"]]
_FINALIZERS = json.dumps({"metadata": {"finalizers": None}})


def prepare(user: User) -> None:
    """Create the runtimes."""
    for runtime in (*RUNTIMES.values(), *_OF_TRAINER):
        user.apply(runtime)


def hand_over(user: User) -> None:
    """Remove what nobody would remove any more, as the guide says."""
    for kind in ("trainingruntimes", "clustertrainingruntimes"):
        for found in user.get(f"{kind}.{GROUP}")["items"]:
            name = found["metadata"]["name"]
            user.kubectl("patch", f"{kind}.{GROUP}", name, "--type=merge", "-p", _FINALIZERS)


PROJECT = Project(
    kinds=("TrainJob", "JobSet"),
    plural="trainjobs.trainer.kubeflow.org",
    install=test_trainjobs.install,
    operators=(
        ("kubeflow-system", "kubeflow-trainer-controller-manager"),
        ("jobset-system", "jobset-controller-manager"),
    ),
    manifest=manifest,
    cases=in_turn(CASES),
    settled=test_trainjobs.settled,
    broken=BROKEN,
    prepare=prepare,
    hand_over=hand_over,
)


@pytest.fixture(scope="module")
def both(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """What a user sees of Trainer, and of ours."""
    return compare(PROJECT, cluster, tmp_path_factory.mktemp("both"))


@pytest.mark.parametrize("case", PROJECT.cases)
def test_users_see_the_same(both: Both, case: str) -> None:
    theirs, ours = both.theirs.jobs[case], both.ours.jobs[case]
    beside.assert_same(ours, theirs, case, test_trainjobs.KNOWN)


@pytest.mark.parametrize("case", BROKEN)
def test_both_name_the_same_field(both: Both, case: str) -> None:
    _, word = BROKEN[case]
    assert word in both.theirs.said[case]
    assert word in both.ours.said[case]
