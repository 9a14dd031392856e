"""The same MXJobs, by training-operator 1.8 and by ours: what users see of them is equal.

Both run on an embedded cluster. A difference is listed with its reason, and an entry of the list
that is none any more has to go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from suites.operators import beside, trainingoperator
from suites.operators.mxjobs import CASES, REFUSED, UNSERVED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suites.shell import User

pytestmark = pytest.mark.timeout(900)
KIND = "MXJob"
KNOWN: dict[tuple[str, str], str] = {
    ("tune", "conditions"): "theirs never runs nor ends without a scheduler",
    ("tune", "messages"): "theirs never runs nor ends without a scheduler",
    ("tune", "events"): "theirs never runs nor ends without a scheduler",
    ("suspended", "messages"): "ours says whether pods are left",
    ("suspended", "replicas"): "ours counts the pods of a suspended job, which are none",
    ("permanent", "events"): "theirs tells that the job restarts, which it does not",
    ("clean-all", "replicas"): "theirs counts pods that it has ended as succeeded",
    ("clean-running", "replicas"): "theirs counts pods that it has ended as succeeded",
    ("limit", "replicas"): "theirs counts no more after it has deleted the pods",
}
"""Differences, by case and part, with their reasons: docs/design/mxjob-v1.md."""
SOMETIMES: dict[tuple[str, str], str] = {
    ("limit", "events"): "theirs tells why a container waits, if it sees it before it deletes it",
    ("never", "events"): "theirs tells why a container ended, if it sees it before its pod has",
    # client-go drops events past 25 of one object, and theirs repeats ExitedWithCode of every pod.
    ("train", "events"): "theirs loses the event of the success among those of five pods",
}
"""Differences that depend on timing."""
PODS_LEFT = {"clean-all": 0, "clean-running": 1, "suspended": 0}


def observed(user: User, job: str) -> beside.Document:
    """What a user sees of a job."""
    return trainingoperator.observed(user, KIND, job)


def settled(user: User, case: str) -> beside.Document:
    """What is seen of a job when its pods do not change any more."""
    return beside.settled(user, observed, case, PODS_LEFT.get(case))


@pytest.fixture(scope="module")
def both(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[User, User]]:
    """Someone with training-operator 1.8 on a cluster, and someone with ours, after all cases."""
    directory = tmp_path_factory.mktemp("both")
    program = "training-operator-1.8"
    with trainingoperator.both(
        KIND, CASES, program=program, catalog=catalog, directory=directory
    ) as found:
        yield found


@pytest.mark.parametrize("case", CASES)
def test_users_see_the_same(both: tuple[User, User], case: str) -> None:
    theirs, ours = (settled(user, case) for user in both)
    beside.assert_same(ours, theirs, case, KNOWN, SOMETIMES)


@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse_the_same_field(both: tuple[User, User], case: str) -> None:
    spec, word = REFUSED[case]
    given = json.dumps(trainingoperator.manifest(KIND, case, spec))
    for user in both:
        assert word in user.kubectl("create", "-f", "-", given=given, code=1)


@pytest.mark.parametrize("case", UNSERVED)
def test_ours_refuses_what_theirs_reports_in_an_event(both: tuple[User, User], case: str) -> None:
    spec, word = UNSERVED[case]
    theirs, ours = both
    manifest = trainingoperator.manifest(KIND, case, spec)
    said = ours.kubectl("create", "-f", "-", given=json.dumps(manifest), code=1)
    assert word in said

    theirs.create(manifest)
    about = ("--field-selector", f"involvedObject.name={case}")

    def reported() -> bool:
        events = theirs.get("event", *about)["items"]
        return any(event["reason"].endswith("FailedValidation") for event in events)

    theirs.until("theirs reports it", reported, 60)
    theirs.kubectl("delete", f"mxjobs.kubeflow.org/{case}")
