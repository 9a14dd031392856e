"""The same MXJobs, by training-operator 1.8 and by ours, on a real cluster."""

from __future__ import annotations

from functools import partial

import pytest
from suites.operators import beside, test_mxjobs, trainingoperator
from suites.operators.mxjobs import CASES, REFUSED

from .same_jobs import Project, SameJobs, in_turn

pytestmark = pytest.mark.timeout(1200)


PROJECT = Project(
    kinds=("MXJob",),
    plural=trainingoperator.plural("MXJob"),
    install=partial(trainingoperator.install, program="training-operator-1.8"),
    operators=(("kubeflow", "training-operator"),),
    manifest=partial(trainingoperator.manifest, "MXJob"),
    cases=in_turn(CASES),
    settled=test_mxjobs.settled,
    assert_same=partial(
        beside.assert_same, known=test_mxjobs.KNOWN, sometimes=test_mxjobs.SOMETIMES
    ),
    broken=REFUSED,
    at_once=4,
)


class TestMXJobs(SameJobs):
    """All cases."""

    project = PROJECT
