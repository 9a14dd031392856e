"""The same jobs, by another project's operator and by ours, on one real cluster.

It goes as the guide for the installation says: the project's operator runs all jobs, is scaled to
zero, and its webhooks are removed; then ours is installed by the chart, and runs jobs of the same
manifests. The definition stays the project's.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pytest

from variation import has_turn

from . import shell_image
from .administrator import Administrator
from .faults.jobs import IMAGE
from .install_support import SECONDS, install_chart, uninstall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hack.cluster import RealCluster
    from suites.operators.beside import Case
    from suites.shell import User

Document = dict[str, Any]
SHELLS = ("docker.io/library/busybox:1", "docker.io/library/busybox:2")
"""Images of the jobs: anything with a shell."""
CHILDREN = "pods,jobs,services,configmaps,secrets,horizontalpodautoscalers,persistentvolumeclaims"
STATUS = "traincrew.dev/status"
TOLD_SECONDS = 10.0


class Project(NamedTuple):
    """Another project, and jobs of its kind.

    Attributes:
        kinds: The kinds that ours serves in its place; the first one is that of the jobs.
        plural: The kind of the jobs, for kubectl.
        install: Installs its operator.
        operators: Namespace and name of each of its Deployments.
        manifest: Returns a job with a name and a spec.
        cases: The jobs; all come to rest.
        settled: Returns what a user sees of a job that has come to rest.
        assert_same: Compares what is seen of a case here with what is seen of it there.
        broken: Specs that are not allowed, each with a word that says which field is wrong.
        words: What ours says instead, of what the project refuses by its webhook only.
        prepare: Creates what the jobs need, before each operator has them.
        tidy: Removes it.
        at_once: How many of them run at a time: few, where all pods have to run before one ends.
    """

    kinds: tuple[str, ...]
    plural: str
    install: Callable[[User], None]
    operators: tuple[tuple[str, str], ...]
    manifest: Callable[[str, Document], Document]
    cases: Mapping[str, Case]
    settled: Callable[[User, str], Document]
    assert_same: Callable[[Document, Document, str], None]
    broken: Mapping[str, tuple[Document, str]]
    words: Mapping[str, str] = {}
    prepare: Callable[[User], None] = lambda _: None
    tidy: Callable[[User], None] = lambda _: None
    at_once: int = 8


def in_turn(cases: Mapping[str, Case]) -> dict[str, Case]:
    """The jobs that this run has: a third of those that come to rest."""
    found = [name for name, case in cases.items() if case.ends]
    return {name: cases[name] for place, name in enumerate(found) if has_turn(place)}


class Seen(NamedTuple):
    """What a user sees of one operator.

    Attributes:
        jobs: Of each case, when it has come to rest.
        said: Of each broken spec: the refusal, or else what the job and its events say.
    """

    jobs: dict[str, Document]
    said: dict[str, str]


class Both(NamedTuple):
    """What a user sees of both operators."""

    theirs: Seen
    ours: Seen


def compare(project: Project, cluster: RealCluster, home: Path) -> Both:
    """Run all jobs by another project's operator, hand over, and run them by ours.

    Args:
        project: The project.
        cluster: The cluster.
        home: An empty directory.
    """
    user = Administrator(cluster, home)
    user.timeout = 600
    cluster.name_image(IMAGE, SHELLS)
    cluster.load_images([shell_image.build(home)])
    with contextlib.ExitStack() as stack:
        uninstall(cluster)
        stack.callback(uninstall, cluster)
        stack.callback(user.remove_published)
        project.install(user)
        theirs = _see(user, project)

        for namespace, name in project.operators:
            user.kubectl("scale", "deployment", name, "-n", namespace, "--replicas=0")
        webhooks = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
        user.kubectl("delete", webhooks, "--all")
        stack.enter_context(install_chart(cluster, *project.kinds))
        stack.callback(project.tidy, user)
        ours = _see(user, project._replace(broken=_broken_here(project)))
        log = user.log()
    assert "Traceback" not in log, log
    return Both(theirs, ours)


def _broken_here(project: Project) -> dict[str, tuple[Document, str]]:
    """Broken specs, with the words of ours."""
    return {
        name: (spec, project.words.get(name, word)) for name, (spec, word) in project.broken.items()
    }


def _see(user: Administrator, project: Project) -> Seen:
    project.prepare(user)
    jobs: dict[str, Document] = {}
    names = list(project.cases)
    for first in range(0, len(names), project.at_once):
        some = names[first : first + project.at_once]
        for name in some:
            _create(user, project.manifest(name, project.cases[name].spec))
        for name in some:
            ends = f"--for=condition={project.cases[name].ends}"
            user.kubectl("wait", f"{project.plural}/{name}", ends, "--timeout=180s")
        jobs |= {name: project.settled(user, name) for name in some}
        _delete(user, project)
    said = {name: _said(user, project, name) for name in project.broken}
    _delete(user, project)
    # Not one by one: there are hundreds.
    user.kubectl("delete", "--raw=/api/v1/namespaces/default/events")
    return Seen(jobs, said)


def _create(user: User, document: Document) -> None:
    """Create a job as soon as the project's webhooks answer."""

    def created() -> bool:
        said = user.kubectl("create", "-f", "-", given=json.dumps(document), code=None)
        assert "created" in said or "failed calling webhook" in said, said
        return "created" in said

    user.until("the webhooks answer", created, 60)


def _delete(user: User, project: Project) -> None:
    """Delete all jobs, and wait until nothing is left of them."""
    user.kubectl("delete", project.plural, "--all", f"--timeout={SECONDS:g}s")
    user.kubectl("delete", "persistentvolumeclaims", "--all", "--wait=false")

    def gone() -> bool:
        # They end at once, whatever their programs do.
        user.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        found = user.get(CHILDREN)["items"]
        return not any("ownerReferences" in each["metadata"] for each in found)

    user.until("nothing is left of the jobs", gone, 90)


def _said(user: User, project: Project, name: str) -> str:
    """What a user reads who creates a job of a broken spec."""
    spec, word = project.broken[name]
    given = json.dumps(project.manifest(name, spec))
    said = user.kubectl("create", "-f", "-", given=given, code=None)
    if "created" not in said:
        return said
    deadline = time.monotonic() + TOLD_SECONDS
    while word not in said and time.monotonic() < deadline:
        job = user.get(project.plural, name)
        events = user.get("event", "--field-selector", f"involvedObject.name={name}")["items"]
        told = job["metadata"].get("annotations", {}).get(STATUS, "")
        messages = [each["message"] for each in events]
        said = " ".join([json.dumps(job.get("status", {})), told, *messages])
        time.sleep(0.5)
    return said


class SameJobs:
    """What users see of a project's operator, and of ours."""

    project: ClassVar[Project]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test with the project's jobs."""
        for name in {"case", "broken"}.intersection(metafunc.fixturenames):
            cases = self.project.cases if name == "case" else self.project.broken
            metafunc.parametrize(name, cases)

    @pytest.fixture(scope="class")
    @classmethod
    def both(cls, cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Both:
        """What a user sees of both operators."""
        return compare(cls.project, cluster, tmp_path_factory.mktemp("both"))

    def test_users_see_the_same(self, both: Both, case: str) -> None:
        self.project.assert_same(both.ours.jobs[case], both.theirs.jobs[case], case)

    def test_both_name_the_same_field(self, both: Both, broken: str) -> None:
        _, word = self.project.broken[broken]
        assert word in both.theirs.said[broken]
        assert self.project.words.get(broken, word) in both.ours.said[broken]
