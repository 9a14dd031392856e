"""The same PyTorchJobs, by training-operator and by ours, on a real cluster."""

from __future__ import annotations

from functools import partial

import pytest
from suites.operators import beside, test_pytorchjobs, trainingoperator
from suites.operators.pytorchjobs import BROKEN, CASES

from .same_jobs import Project, SameJobs, in_turn

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
    assert_same=partial(
        beside.assert_same, known=test_pytorchjobs.KNOWN, sometimes=test_pytorchjobs.SOMETIMES
    ),
    broken={name: each for name, each in BROKEN.items() if name != OF_NOBODY},
    at_once=4,
)


class TestPyTorchJobs(SameJobs):
    """All cases."""

    project = PROJECT
