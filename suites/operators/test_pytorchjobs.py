"""The same PyTorchJobs, by training-operator and by ours: what users see of them is equal.

Both run on an embedded cluster. A difference is listed with its reason, and an entry of the list
that is none any more has to go.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from suites.operators import pytorchjobs
from suites.operators.modules import TRAINING, sources
from suites.operators.pytorchjobs import BROKEN, CASES, Document, manifest
from suites.operators.test_operators import installed
from suites.shell import User

from traincrew.local.directories import default_cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(900)
KNOWN: dict[tuple[str, str], str] = {
    ("scaled", "events"): "ours tells that the autoscaler was created",
    ("suspended", "messages"): "ours says whether pods are left",
    ("suspended", "replicas"): "ours counts the pods of a suspended job, which are none",
    ("permanent", "events"): "theirs tells that the job restarts, which it does not",
    ("limit", "events"): "theirs tells why a container waits, which our message says",
    ("clean-all", "replicas"): "theirs counts pods that it has ended as succeeded",
    ("clean-running", "replicas"): "theirs counts pods that it has ended as succeeded",
    ("limit", "replicas"): "theirs counts no more after it has deleted the pods",
}
"""Differences, by case and part, with their reasons: docs/design/todays-manifests.md."""


def started(directory: Path, catalog: Path, stack: contextlib.ExitStack) -> User:
    """Start a cluster of several nodes, which the requests of all cases fit."""
    directory.mkdir()
    user = User(directory, default_cache(), "pod,event")
    user.timeout = 600
    images = f"--images={catalog}"
    user.traincrew("up", "--nodes=4", images, f"--kubeconfig={user.kubeconfig}")
    stack.callback(user.traincrew, "down")
    return user


@pytest.fixture(scope="module")
def both(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[User, User]]:
    """Someone with training-operator on a cluster, and someone with ours, after all cases."""
    directory = tmp_path_factory.mktemp("both")
    with contextlib.ExitStack() as stack:
        theirs = started(directory / "theirs", catalog, stack)
        overlay = sources(TRAINING) / "manifests/overlays/standalone"
        name = "training-operator"
        installed(theirs, f"--kustomize={overlay}", namespace="kubeflow", deployment=name)
        ours = started(directory / "ours", catalog, stack)
        for user in (theirs, ours):
            for case, found in CASES.items():
                user.create(manifest(case, found.spec))
        for user in (theirs, ours):
            for case, found in CASES.items():
                if found.ends:
                    condition = f"--for=condition={found.ends}"
                    user.kubectl("wait", f"pytorchjob/{case}", condition, "--timeout=120s")
        yield theirs, ours
        for user in (theirs, ours):
            assert "Traceback" not in user.log()


def settled(user: User, case: str, cleaned: int | None) -> Document:
    """What is seen of a job when its pods do not change any more."""

    def still() -> Document:
        found = pytorchjobs.observed(user, case)
        if cleaned is not None and len(found["pods"]) != cleaned:
            return {}
        again = pytorchjobs.observed(user, case)
        return found if found == again else {}

    return user.until(f"{case} does not change any more", still, 60)


PODS_LEFT = {"clean-all": 0, "clean-running": 1, "suspended": 0, "elsewhere": 0}


@pytest.mark.parametrize("case", CASES)
def test_users_see_the_same(both: tuple[User, User], case: str) -> None:
    left = PODS_LEFT.get(case)
    theirs, ours = (settled(user, case, left) for user in both)
    # Why a pod failed comes behind what training-operator says.
    said = zip(ours["messages"], theirs["messages"], strict=False)
    ours["messages"] = [one[: len(other)] for one, other in said] or ours["messages"]
    ours["selectors"] = {kind: ours["selectors"].get(kind) for kind in theirs["selectors"]}
    found = {part: (ours[part], theirs[part]) for part in theirs if ours[part] != theirs[part]}
    known = {part for name, part in KNOWN if name == case}
    new = {part: pair for part, pair in found.items() if part not in known}
    assert not new, "ours, and theirs"
    assert known == found.keys(), "these differences are none any more: remove them from KNOWN"


@pytest.mark.parametrize("case", BROKEN)
def test_both_refuse_the_same_field(both: tuple[User, User], case: str) -> None:
    spec, word = BROKEN[case]
    for user in both:
        said = user.kubectl(
            *("create", "-f", "-"), given=json.dumps(manifest(case, spec)),
            code=1,
        )  # fmt: skip
        assert word in said
