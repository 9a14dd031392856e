"""The same JobSets, by JobSet's own controller and by ours: what users see of them is equal.

Both run on an embedded cluster. A difference is listed with its reason, and an entry of the list
that is none any more has to go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from suites.operators import beside, jobsets
from suites.operators.jobsets import (
    CASES,
    claims,
    jobset,
    manifest,
    mounting,
    replicated,
    with_volume,
)
from suites.operators.jobsets_refused import BROKEN, CHANGES
from suites.operators.modules import JOBSET, sources
from suites.operators.test_operators import installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suites.operators.beside import Document
    from suites.shell import User

pytestmark = pytest.mark.timeout(900)
KNOWN: dict[tuple[str, str], str] = {
    ("elsewhere", "restarts"): "their webhook stores a status when it writes defaults",
}
"""Differences, by case and part, with their reasons: docs/design/jobset.md."""


def install(user: User) -> None:
    """Install JobSet."""
    overlay = sources(JOBSET) / "config/default"
    name = "jobset-controller-manager"
    installed(user, f"--kustomize={overlay}", namespace="jobset-system", deployment=name)


@pytest.fixture(scope="module")
def both(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[User, User]]:
    """Someone with JobSet on a cluster, and someone with ours, after all cases."""
    jobs = {case: (manifest(case, found.spec), found.ends) for case, found in CASES.items()}
    directory = tmp_path_factory.mktemp("both")
    with beside.both(directory, catalog, install, "jobset", jobs) as users:
        yield users


def settled(user: User, case: str) -> Document:
    """What is seen of a JobSet when its Jobs do not change any more."""
    if CASES[case].ends in {"Completed", "Failed"}:
        user.until(f"no Job of {case} runs", lambda: not running(user, case), 60)
    return beside.settled(user, jobsets.observed, case)


def running(user: User, case: str) -> bool:
    """Whether Jobs of a JobSet that has ended are still there, and run."""
    found = user.get("job", "-l", f"{jobsets.LABEL}={case}")["items"]
    ended = [
        any(each["type"] in {"Complete", "Failed"} for each in job["status"].get("conditions", []))
        for job in found
    ]
    return not all(ended)


@pytest.mark.parametrize("case", CASES)
def test_users_see_the_same(both: tuple[User, User], case: str) -> None:
    theirs, ours = (settled(user, case) for user in both)
    assert_same(ours, theirs, case)


def assert_same(ours: Document, theirs: Document, case: str) -> None:
    """Assert that users see the same, as `beside.assert_same` does."""
    # Ours has conditions of all kinds beside; why a pod failed comes behind what JobSet says.
    ours["conditions"] = {
        kind: (found[0], found[1], found[2][: len(theirs["conditions"][kind][2])])
        for kind, found in ours["conditions"].items()
        if kind in theirs["conditions"]
    }
    beside.assert_same(ours, theirs, case, KNOWN)


@pytest.mark.parametrize("case", BROKEN)
def test_both_refuse_the_same_field(both: tuple[User, User], case: str) -> None:
    spec, word = BROKEN[case]
    for user in both:
        said = user.kubectl(
            *("create", "-f", "-"), given=json.dumps(manifest(case, spec)),
            code=1,
        )  # fmt: skip
        assert word in said


@pytest.mark.parametrize("change", CHANGES)
def test_both_refuse_the_same_change(both: tuple[User, User], change: str) -> None:
    case, operation = CHANGES[change]
    patch = json.dumps([{"op": "add", **operation}])
    for user in both:
        said = user.kubectl("patch", "jobset", case, "--type=json", "-p", patch, code=1)
        assert "is invalid" in said


# Rules cannot say what pods mount: ours accepts the JobSet, and fails it.
UNMOUNTED = {
    "unmounted": jobset(replicated(), volumeClaimPolicies=claims("a")),
    "own-volume": jobset(
        with_volume(mounting(replicated(), "a"), "a"), volumeClaimPolicies=claims("a")
    ),
}


@pytest.mark.parametrize("case", UNMOUNTED)
def test_theirs_refuses_and_ours_fails_a_claim_without_a_mount(
    both: tuple[User, User], case: str
) -> None:
    theirs, ours = both
    document = manifest(case, UNMOUNTED[case])
    theirs.kubectl("create", "-f", "-", given=json.dumps(document), code=1)
    ours.create(document)

    ours.kubectl("wait", f"jobset/{case}", "--for=condition=Failed", "--timeout=30s")
    (failed,) = [
        each
        for each in ours.get("jobset", case)["status"]["conditions"]
        if each["type"] == "Failed"
    ]
    assert "volumeClaimPolicies" in failed["message"]
    assert not ours.get("pvc", "-l", f"{jobsets.LABEL}={case}")["items"]


def claims_of(user: User, case: str) -> set[str]:
    """The names of the claims with the label of a JobSet."""
    found = user.get("pvc", "-l", f"{jobsets.LABEL}={case}")["items"]
    return {each["metadata"]["name"] for each in found}


def test_claims_go_with_the_jobset_or_stay(both: tuple[User, User]) -> None:
    spec = jobset(
        mounting(replicated(), "gone", "stays"),
        volumeClaimPolicies=[*claims("gone"), *claims("stays", whenDeleted="Retain")],
    )
    for user in both:
        user.create(manifest("temporary", spec))
        user.kubectl("wait", "jobset/temporary", "--for=condition=Completed", "--timeout=120s")
        assert claims_of(user, "temporary") == {"gone-temporary", "stays-temporary"}
        user.kubectl("delete", "jobset/temporary")

        def gone(user: User = user) -> bool:
            return "gone-temporary" not in claims_of(user, "temporary")

        user.until("the claim without a policy is gone", gone, 60)
        assert claims_of(user, "temporary") == {"stays-temporary"}


def test_a_claim_that_stayed_is_used_again(both: tuple[User, User]) -> None:
    """Theirs refuses a template that is not the claim as stored; ours compares what it says."""
    _, ours = both
    policies = claims("model", whenDeleted="Retain")
    writes = mounting(replicated(script="echo 7 > /model/weights"), "model")
    reads = mounting(replicated(script="grep -q 7 /model/weights"), "model")
    for each in (writes, reads):
        ours.create(manifest("again", jobset(each, volumeClaimPolicies=policies)))
        ours.kubectl("wait", "jobset/again", "--for=condition=Completed", "--timeout=120s")
        ours.kubectl("delete", "jobset/again")

    policies[0]["templates"][0]["spec"]["accessModes"] = ["ReadOnlyMany"]
    ours.create(manifest("again", jobset(reads, volumeClaimPolicies=policies)))
    ours.kubectl("wait", "jobset/again", "--for=condition=Failed", "--timeout=30s")


def test_both_resume_with_what_was_changed_meanwhile(both: tuple[User, User]) -> None:
    template = "/spec/replicatedJobs/0/template/spec/template"
    patch = json.dumps(
        [
            {"op": "add", "path": f"{template}/metadata", "value": {"labels": {"a": "b"}}},
            {
                "op": "add",
                "path": f"{template}/spec/nodeSelector",
                "value": {"kubernetes.io/os": "linux"},
            },
            {"op": "add", "path": "/spec/suspend", "value": False},
        ]
    )
    for user in both:
        user.kubectl("patch", "jobset", "suspended", "--type=json", "-p", patch)
        user.kubectl("wait", "jobset/suspended", "--for=condition=Completed", "--timeout=120s")
        job = user.get("job", "suspended-driver-0")["spec"]["template"]
        assert job["metadata"]["labels"]["a"] == "b"
        assert job["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
        found = user.get("jobset", "suspended")["status"]["conditions"]
        (suspended,) = [each for each in found if each["type"] == "Suspended"]
        assert (suspended["status"], suspended["reason"]) == ("False", "ResumeJobs")
