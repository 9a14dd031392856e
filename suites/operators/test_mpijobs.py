"""The same MPIJobs, by mpi-operator and by ours: what users see of them is equal.

Both run on an embedded cluster. A difference is listed with its reason, and an entry of the list
that is none any more has to go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from suites.operators import beside
from suites.operators.modules import MPI, sources
from suites.operators.mpijobs import BROKEN, CASES, OF_NOBODY, manifest, observed
from suites.operators.test_operators import installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suites.shell import User

pytestmark = pytest.mark.timeout(900)
_LATER = "ours creates nothing before the job is resumed"
_COUNTED = [
    case
    for case, found in CASES.items()
    if found.ends in {"Succeeded", "Failed"}
    and "Worker" in found.spec["mpiReplicaSpecs"]
    and not case.startswith("clean-")
]
KNOWN: dict[tuple[str, str], str] = {
    **{(case, "replicas"): "theirs counts no worker of a job that ends" for case in _COUNTED},
    ("suspended", "jobs"): _LATER,
    ("suspended", "services"): _LATER,
    ("suspended", "files"): _LATER,
    ("suspended", "secrets"): _LATER,
    ("suspended", "messages"): "ours says whether pods are left",
    (
        "fails",
        "conditions",
    ): "theirs has a slash and mostly nothing behind the Job's reason",
    ("fails", "events"): "the same",
    ("fails", "messages"): "ours has why the pod failed behind the message of the Job",
}
"""Differences, by case and part, with their reasons: docs/design/mpijob.md."""
PODS_LEFT = {"clean-all": 1, "clean-running": 1, "suspended": 0, "elsewhere": 0}


def install(user: User) -> None:
    """Install mpi-operator."""
    file = sources(MPI) / "deploy/v2beta1/mpi-operator.yaml"
    name = "mpi-operator"
    installed(user, f"--filename={file}", namespace=name, deployment=name)


def settled(user: User, case: str) -> beside.Document:
    """What is seen of a job when its pods do not change any more."""
    return beside.settled(user, observed, case, PODS_LEFT.get(case))


@pytest.fixture(scope="module")
def both(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[User, User]]:
    """Someone with mpi-operator on a cluster, and someone with ours, after all cases."""
    jobs = {case: (manifest(case, found.spec), found.ends) for case, found in CASES.items()}
    directory = tmp_path_factory.mktemp("both")
    with beside.both(directory, catalog, install, "mpijob", jobs) as users:
        yield users


@pytest.mark.parametrize("case", CASES)
def test_users_see_the_same(both: tuple[User, User], case: str) -> None:
    theirs, ours = (settled(user, case) for user in both)
    beside.assert_same(ours, theirs, case, KNOWN)


@pytest.mark.parametrize("case", BROKEN)
def test_both_name_the_same_field(both: tuple[User, User], case: str) -> None:
    """mpi-operator accepts most of them and says in an event why it does nothing; ours refuses."""
    spec, word = BROKEN[case]
    theirs, ours = both
    given = json.dumps(manifest(case, spec))
    assert word in ours.kubectl("create", "-f", "-", given=given, code=1)
    said = theirs.kubectl("create", "-f", "-", given=given, code=None)
    if "mpijob.kubeflow.org" in said and "created" in said:
        selected = ("event", "--field-selector", f"involvedObject.name={case}")

        def event() -> str:
            found = theirs.get(*selected)["items"]
            return " ".join(
                each["message"] for each in found if each["reason"] == "ValidationError"
            )

        said = theirs.until(f"{case} has an event", event)
        assert not theirs.get("pod", "-l", f"training.kubeflow.org/job-name={case}")["items"]
    assert word in said


def test_ours_refuses_a_manager_that_nobody_is(both: tuple[User, User]) -> None:
    theirs, ours = both
    given = json.dumps(manifest("of-nobody", OF_NOBODY))
    assert "managedBy" in ours.kubectl("create", "-f", "-", given=given, code=1)
    theirs.kubectl("create", "-f", "-", given=given)
