"""The same MXJobs, by training-operator 1.8 and by ours: what users see of them is equal.

Both run on an embedded cluster. A difference is listed with its reason, and an entry of the list
that is none any more has to go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from suites.operators import comparing
from suites.operators.comparing import assert_known
from suites.operators.mxjobs import CASES, REFUSED, UNSERVED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suites.operators.comparing import Both

pytestmark = pytest.mark.timeout(900)
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
    # client-go drops events past 25 of one object, and theirs repeats ExitedWithCode of every pod.
    ("train", "events"): "theirs loses the event of the success among those of five pods",
}
"""Differences that depend on timing."""
PODS_LEFT = {"clean-all": 0, "clean-running": 1, "suspended": 0}


@pytest.fixture(scope="module")
def both(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Someone with training-operator 1.8 on a cluster, and someone with ours, after all cases."""
    directory = tmp_path_factory.mktemp("both")
    program = "training-operator-1.8"
    with comparing.both(
        "MXJob", CASES, program=program, catalog=catalog, directory=directory
    ) as found:
        yield found


@pytest.mark.parametrize("case", CASES)
def test_users_see_the_same(both: Both, case: str) -> None:
    known, sometimes = (
        {part for name, part in differences if name == case} for differences in (KNOWN, SOMETIMES)
    )
    assert_known(both.differences(case, PODS_LEFT.get(case)), known, sometimes)


@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse_the_same_field(both: Both, case: str) -> None:
    spec, word = REFUSED[case]
    for said in both.said_of(case, spec):
        assert word in said


@pytest.mark.parametrize("case", UNSERVED)
def test_ours_refuses_what_theirs_reports_in_an_event(both: Both, case: str) -> None:
    spec, word = UNSERVED[case]
    manifest = both.manifest(case, spec)
    said = both.ours.kubectl("create", "-f", "-", given=json.dumps(manifest), code=1)
    assert word in said

    both.theirs.create(manifest)
    about = ("--field-selector", f"involvedObject.name={case}")

    def reported() -> bool:
        events = both.theirs.get("event", *about)["items"]
        return any(event["reason"].endswith("FailedValidation") for event in events)

    both.theirs.until("theirs reports it", reported, 60)
    both.theirs.kubectl("delete", f"mxjobs.kubeflow.org/{case}")
