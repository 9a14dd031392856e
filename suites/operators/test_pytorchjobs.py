"""The same PyTorchJobs, by training-operator and by ours: what users see of them is equal.

Both run on an embedded cluster. A difference is listed with its reason, and an entry of the list
that is none any more has to go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from suites.operators import beside, trainingoperator
from suites.operators.pytorchjobs import BROKEN, CASES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suites.shell import User

pytestmark = pytest.mark.timeout(900)
KIND = "PyTorchJob"
KNOWN: dict[tuple[str, str], str] = {
    ("scaled", "events"): "ours tells that the autoscaler was created",
    ("suspended", "messages"): "ours says whether pods are left",
    ("suspended", "replicas"): "ours counts the pods of a suspended job, which are none",
    ("permanent", "events"): "theirs tells that the job restarts, which it does not",
    ("clean-all", "replicas"): "theirs counts pods that it has ended as succeeded",
    ("clean-running", "replicas"): "theirs counts pods that it has ended as succeeded",
    ("limit", "replicas"): "theirs counts no more after it has deleted the pods",
}
"""Differences, by case and part, with their reasons: docs/design/todays-manifests.md."""


_ENDED = "theirs tells why a container ended, if it sees it before its pod has ended"
SOMETIMES: dict[tuple[str, str], str] = {
    ("limit", "events"): "theirs tells why a container waits, if it sees it before it deletes it",
    **{(case, "events"): _ENDED for case in ("never", "never-killed")},
}
"""Differences that depend on timing."""
PODS_LEFT = {"clean-all": 0, "clean-running": 1, "suspended": 0, "elsewhere": 0}


def observed(user: User, job: str) -> beside.Document:
    """What a user sees of a job."""
    return trainingoperator.observed(user, KIND, job)


def settled(user: User, case: str) -> beside.Document:
    """What is seen of a job when its pods do not change any more."""
    return beside.settled(user, observed, case, PODS_LEFT.get(case))


@pytest.fixture(scope="module")
def both(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[User, User]]:
    """Someone with training-operator on a cluster, and someone with ours, after all cases."""
    directory = tmp_path_factory.mktemp("both")
    program = "training-operator"
    with trainingoperator.both(
        KIND, CASES, program=program, catalog=catalog, directory=directory
    ) as found:
        yield found


@pytest.mark.parametrize("case", CASES)
def test_users_see_the_same(both: tuple[User, User], case: str) -> None:
    theirs, ours = (settled(user, case) for user in both)
    beside.assert_same(ours, theirs, case, KNOWN, SOMETIMES)


@pytest.mark.parametrize("case", BROKEN)
def test_both_refuse_the_same_field(both: tuple[User, User], case: str) -> None:
    spec, word = BROKEN[case]
    given = json.dumps(trainingoperator.manifest(KIND, case, spec))
    for user in both:
        assert word in user.kubectl("create", "-f", "-", given=given, code=1)
