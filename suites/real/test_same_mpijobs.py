"""The same MPIJobs, by mpi-operator and by ours, on a real cluster."""

from __future__ import annotations

from functools import partial

import pytest
from suites.operators import beside, test_mpijobs
from suites.operators.mpijobs import BROKEN, CASES, manifest

from .same_jobs import Project, SameJobs, in_turn

pytestmark = pytest.mark.timeout(1200)


PROJECT = Project(
    kinds=("MPIJob",),
    plural="mpijobs.kubeflow.org",
    install=test_mpijobs.install,
    operators=(("mpi-operator", "mpi-operator"),),
    manifest=manifest,
    cases=in_turn(CASES),
    settled=test_mpijobs.settled,
    assert_same=partial(beside.assert_same, known=test_mpijobs.KNOWN),
    broken=BROKEN,
    at_once=12,
)


class TestMPIJobs(SameJobs):
    """All cases."""

    project = PROJECT
