"""The same TrainJobs, by Trainer and by ours: what users see of them is equal.

Both run on an embedded cluster; the JobSets are those of JobSet's own controller there, and of ours
here. A difference is listed with its reason, and an entry of the list that is none any more has to
go.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hack.cluster.changes import copy_sources
from suites.operators import beside, trainjobs
from suites.operators.modules import TRAINER, sources
from suites.operators.test_jobsets import install as install_jobset
from suites.operators.test_operators import installed
from suites.operators.trainjobs import (
    BROKEN,
    BROKEN_RUNTIMES,
    CASES,
    CHANGES,
    RUNTIMES,
    manifest,
)

from traincrew.api.kinds.trainjob import shipped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suites.operators.beside import Document
    from suites.shell import User

pytestmark = pytest.mark.timeout(900)
SELECTOR = {"kubernetes.io/os": "linux"}
KNOWN: dict[tuple[str, str], str] = {}
"""Differences, by case and part, with their reasons: docs/design/trainjob.md."""


def install(user: User) -> None:
    """Install JobSet, and Trainer without the JobSet that its overlay downloads."""
    install_jobset(user)
    copied = user.home / "manifests"
    copy_sources(sources(TRAINER, "trainer") / "manifests", copied)
    overlay = copied / "overlays/manager"
    lines = (overlay / "kustomization.yaml").read_text().splitlines(keepends=True)
    kept = [line for line in lines if "third-party/jobset" not in line]
    (overlay / "kustomization.yaml").write_text("".join(kept))
    name = "kubeflow-trainer-controller-manager"
    installed(user, f"--kustomize={overlay}", namespace="kubeflow-system", deployment=name)
    plain = json.dumps(RUNTIMES["plain"])
    user.until(
        "the webhooks answer",
        lambda: "created" in user.kubectl("create", "-f", "-", given=plain, code=None),
    )
    user.kubectl("delete", trainjobs.CLUSTER.lower(), "plain")


@pytest.fixture(scope="module")
def both(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[User, User]]:
    """Someone with Trainer on a cluster, and someone with ours, after all cases."""
    jobs = {f"runtime/{name}": (each, "") for name, each in RUNTIMES.items()}
    jobs |= {case: (manifest(case, found.spec), found.ends) for case, found in CASES.items()}
    directory = tmp_path_factory.mktemp("both")
    with beside.both(directory, catalog, install, "trainjob", jobs) as users:
        yield users


def settled(user: User, case: str) -> Document:
    """What is seen of a TrainJob when its Jobs do not change any more."""
    if CASES[case].ends in {"Complete", "Failed"}:
        user.until(f"no pod of {case} runs", lambda: not running(user, case), 60)
    return beside.settled(user, trainjobs.observed, case)


def running(user: User, case: str) -> bool:
    """Whether pods of a TrainJob that has ended still run."""
    found = user.get("pod", "-l", f"{trainjobs.LABEL}={case}")["items"]
    return any(pod["status"]["phase"] not in {"Succeeded", "Failed"} for pod in found)


@pytest.mark.parametrize("case", [case for case, found in CASES.items() if found.ends])
def test_users_see_the_same(both: tuple[User, User], case: str) -> None:
    theirs, ours = (settled(user, case) for user in both)
    beside.assert_same(ours, theirs, case, KNOWN)


def test_only_ours_leaves_a_job_of_another_manager_alone(both: tuple[User, User]) -> None:
    theirs, ours = (trainjobs.observed(user, "elsewhere")["jobset"] for user in both)

    assert (len(theirs), ours) == (1, [])


@pytest.mark.parametrize("case", BROKEN)
def test_both_refuse_the_same_field(both: tuple[User, User], case: str) -> None:
    spec, word = BROKEN[case]
    theirs, ours = both
    given, name = json.dumps(manifest(case, spec)), f"trainjob/{case}"
    assert word in theirs.kubectl("create", "-f", "-", given=given, code=1)
    said = ours.kubectl("create", "-f", "-", given=given, code=None)
    if f"{case} created" in said:  # what needs the runtime is found out by the operator
        ours.until(word, lambda: word in ours.get(name).get("status", {}).get("message", ""), 30)
    else:
        assert word in said


@pytest.mark.parametrize("case", BROKEN_RUNTIMES)
def test_both_refuse_the_same_runtime(both: tuple[User, User], case: str) -> None:
    broken, word = BROKEN_RUNTIMES[case]
    for user in both:
        assert word in user.kubectl("create", "-f", "-", given=json.dumps(broken), code=1)


@pytest.mark.parametrize("change", CHANGES)
def test_both_refuse_the_same_change(both: tuple[User, User], change: str) -> None:
    case, operation = CHANGES[change]
    patch = json.dumps([{"op": "add", **operation}])
    for user in both:
        said = user.kubectl("patch", "trainjob", case, "--type=json", "-p", patch, code=1)
        assert "is invalid" in said or "denied the request" in said


def test_both_resume_with_what_was_changed_meanwhile(both: tuple[User, User]) -> None:
    for user in both:
        patches = trainjobs.patched(trainjobs.pods(nodeSelector=SELECTOR))
        change(user, runtimePatches=patches)
        user.until("the JobSet has it", partial(is_selected, user), 60)
        change(user, suspend=False)
        user.kubectl("wait", "trainjob/suspended", "--for=condition=Complete", "--timeout=120s")
        found = user.get("trainjob", "suspended")["status"]["conditions"]
        (suspended,) = [each for each in found if each["type"] == "Suspended"]
        assert (suspended["status"], suspended["reason"]) == ("False", "Resumed")


def change(user: User, **spec: Any) -> None:
    """Change the suspended job."""
    patch = json.dumps({"spec": spec})
    user.kubectl("patch", "trainjob", "suspended", "--type=merge", "-p", patch)


def is_selected(user: User) -> bool:
    """Whether the JobSet has the node selector."""
    (job,) = user.get("jobset", "suspended")["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    return bool(pod.get("nodeSelector") == SELECTOR)


def test_the_runtimes_here_are_those_of_trainer() -> None:
    base = sources(TRAINER, "trainer") / "manifests"
    overlay = yaml.safe_load((base / "overlays/runtimes/kustomization.yaml").read_text())
    tags = {each["name"]: each["newTag"] for each in overlay["images"]}
    found = {}
    for file in (base / "base/runtimes").rglob("*.yaml"):
        theirs = yaml.safe_load(file.read_text())
        if theirs["kind"] != trainjobs.CLUSTER or file.parent.name == "data-cache":
            continue  # that needs LeaderWorkerSet
        for job in theirs["spec"]["template"]["spec"]["replicatedJobs"]:
            (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
            if container["image"].partition(":")[0] in tags:
                image = container["image"].partition(":")[0]
                container["image"] = f"{image}:{tags[image]}"
        found[theirs["metadata"]["name"]] = theirs
    assert {each["metadata"]["name"]: each for each in shipped.RUNTIMES} == found
