"""The same TrainJobs, by Trainer and by ours, on a real cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from suites.operators import beside, test_trainjobs
from suites.operators.trainjobs import BROKEN, CASES, GROUP, RUNTIMES, manifest

from traincrew.api.kinds.trainjob import shipped

from .same_jobs import Project, SameJobs, in_turn

if TYPE_CHECKING:
    from suites.shell import User

pytestmark = pytest.mark.timeout(1200)


_OF_TRAINER = [each for each in shipped.RUNTIMES if "torchtune" in each["metadata"]["name"]]


def prepare(user: User) -> None:
    """Create the runtimes."""
    for runtime in (*RUNTIMES.values(), *_OF_TRAINER):
        user.apply(runtime)


def tidy(user: User) -> None:
    """Remove them, which needs an operator: Trainer and ours hold those that jobs have used."""
    for kind in ("trainjobs", "trainingruntimes", "clustertrainingruntimes"):
        user.kubectl("delete", f"{kind}.{GROUP}", "--all", "--timeout=60s")


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
    assert_same=partial(beside.assert_same, known=test_trainjobs.KNOWN),
    broken=BROKEN,
    prepare=prepare,
    tidy=tidy,
)


class TestTrainJobs(SameJobs):
    """All cases."""

    project = PROJECT
