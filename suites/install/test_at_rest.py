"""Manifests and charts that are applied again change nothing, with the real kubectl and Helm.

The same comparisons as in `tests/operator/test_rest.py`, which runs without these programs.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites.helm import BOTH, built
from suites.shell import User

from terse import terse
from traincrew.local.directories import default_cache

from .support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

Document = dict[str, Any]
MX_JOB = str(ROOT / "charts" / "mx_job")
OPENMPI = str(ROOT / "charts" / "kube-openmpi")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Someone with a cluster and an operator."""
    found = User(tmp_path_factory.mktemp("user"), default_cache())
    found.traincrew("up", f"--kubeconfig={found.kubeconfig}")
    with contextlib.ExitStack() as stack:
        stack.callback(found.traincrew, "down")
        yield found
        log = found.log()
    assert "Traceback" not in log, log


@pytest.fixture(params=BOTH)
def helm(request: pytest.FixtureRequest) -> str:
    return str(built(request.param))


class Job:
    """One job, whose manifest is in a file."""

    def __init__(self, user: User, manifest: Document) -> None:
        self._user = user
        group = manifest["apiVersion"].partition("/")[0]
        self.name = manifest["metadata"]["name"]
        self.resource = f"{manifest['kind'].lower()}.{group}"
        self.file = user.home / f"{self.name}.yaml"
        self.file.write_text(yaml.safe_dump(manifest))

    def settled(self) -> Document:
        """Wait until the operator has acted on the newest spec; return the job."""

        def acted() -> Document:
            found = self._user.get(self.resource, self.name)
            seen = found.get("status", {}).get("observedGeneration")
            return found if seen == found["metadata"]["generation"] else {}

        return self._user.until(f"{self.name} is seen", acted)

    def generation(self) -> int:
        found: int = self.settled()["metadata"]["generation"]
        return found

    def kubectl(self, *words: str) -> str:
        return self._user.kubectl(*words, "-f", str(self.file))


def by_kind(manifests: list[Document]) -> pytest.MarkDecorator:
    names = [f"{each['kind']}.{each['apiVersion'].partition('/')[0]}" for each in manifests]
    return pytest.mark.parametrize("manifest", manifests, ids=names)


@by_kind(terse("client"))
def test_kubectl_client_side(user: User, manifest: Document) -> None:
    job = Job(user, manifest)
    job.kubectl("apply")
    generation = job.generation()

    assert "unchanged" in job.kubectl("apply")
    assert job.kubectl("diff") == ""
    assert job.generation() == generation
    job.kubectl("delete")


@by_kind(terse("server"))
def test_kubectl_server_side_with_two_managers(user: User, manifest: Document) -> None:
    job = Job(user, manifest)
    job.kubectl("apply", "--server-side")
    generation = job.generation()

    for manager in ("kubectl", "other", "kubectl"):
        job.kubectl("apply", "--server-side", f"--field-manager={manager}")
        assert job.kubectl("diff", "--server-side", f"--field-manager={manager}") == ""
    assert job.generation() == generation
    job.kubectl("delete")


@pytest.mark.parametrize(
    ("chart", "resource"), [(MX_JOB, "mxjob.mxnet.mlkube.io"), (OPENMPI, "mpicluster")]
)
def test_helm_upgrade(user: User, helm: str, chart: str, resource: str) -> None:
    user.does(helm, "install", "rest", chart)
    job = Job(user, {"apiVersion": "v1", "kind": "", "metadata": {"name": "rest"}})
    job.resource = resource
    generation = job.generation()

    for _ in range(2):
        user.does(helm, "upgrade", "rest", chart)
        assert job.generation() == generation
    user.does(helm, "uninstall", "rest", "--wait")


def test_helm_upgrade_after_scaling(user: User) -> None:
    """Helm 3 keeps the number. Helm 4 says who has set it; the guide says what to do then."""
    helm3, helm4 = (str(built(name)) for name in BOTH)

    def workers() -> int:
        found: int = user.get("mpicluster", "scaled")["spec"]["workers"]["replicas"]
        return found

    user.does(helm3, "install", "scaled", OPENMPI, "--set=mpiWorkers.num=2")
    user.kubectl("scale", "mpicluster/scaled", "--replicas=3")
    user.does(helm3, "upgrade", "scaled", OPENMPI, "--set=mpiWorkers.num=2")
    assert workers() == 3
    user.does(helm3, "uninstall", "scaled", "--wait")

    user.does(helm4, "install", "scaled", OPENMPI, "--set=mpiWorkers.num=2")
    user.kubectl("scale", "mpicluster/scaled", "--replicas=3")
    said = user.does(helm4, "upgrade", "scaled", OPENMPI, "--set=mpiWorkers.num=2", code=1)
    assert 'conflict with "kubectl" with subresource "scale"' in said
    user.does(helm4, "upgrade", "scaled", OPENMPI, "--set=mpiWorkers.num=3")
    assert workers() == 3
    forced = ("--set=mpiWorkers.num=2", "--force-conflicts")
    user.does(helm4, "upgrade", "scaled", OPENMPI, *forced)
    assert workers() == 2
    user.does(helm4, "uninstall", "scaled", "--wait")


@by_kind(terse("listed"))
def test_a_list_of_one_kind(user: User, manifest: Document) -> None:
    """Its items need no kind of their own, to kubectl as to `traincrew run`."""
    item = {"metadata": manifest["metadata"], "spec": manifest["spec"]}
    kind = f"{manifest['kind']}List"
    text = json.dumps({"apiVersion": manifest["apiVersion"], "kind": kind, "items": [item]})

    name = manifest["metadata"]["name"]
    assert f"/{name} created" in user.kubectl("create", "-f", "-", given=text)
    user.kubectl("delete", "-f", "-", given=text)
