"""`traincrew list`, `why`, `watch` and `logs` on a real cluster: its refusals, and few rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from authorization import RBAC

from .faults.jobs import chainer_job, work
from .install_support import DEPLOY, User, elastic_job, namespace, uninstall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.cluster import RealCluster

SPACE, RESTRICTED = "viewing", "viewing-restricted"
LEVEL = "pod-security.kubernetes.io/enforce=restricted"
PROGRAM = Path(sys.executable).with_name("traincrew")


@pytest.fixture(scope="module")
def user(real_cluster: RealCluster) -> Iterator[User]:
    """A user of an operator for all namespaces."""
    uninstall(real_cluster)
    with namespace(real_cluster, SPACE) as found:
        real_cluster.kubectl("create", "-f", str(DEPLOY))
        found.rolled_out()
        yield found
    uninstall(real_cluster)


def traincrew(kubeconfig: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command, *rest = words
    result = subprocess.run(
        [PROGRAM, command, "--kubeconfig", kubeconfig, *rest],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result


def until_cause(user: User, job: str, cause: str) -> dict[str, Any]:
    """Return the explanation of a job once it has a cause."""
    found: dict[str, Any] = {}

    def explained() -> bool:
        words = ("why", job, "-n", user.namespace, "-o", "json")
        found.update(json.loads(traincrew(user.cluster.kubeconfig, *words).stdout))
        return bool(found["cause"] == cause)

    user.until(f"{job}: {cause}", explained)
    return found


def test_a_namespace_that_enforces_a_pod_security_standard(user: User) -> None:
    with namespace(user.cluster, RESTRICTED) as there:
        user.cluster.kubectl("label", "namespace", RESTRICTED, LEVEL)
        there.create(chainer_job("secured", work(600), workers=1))
        found = until_cause(there, "secured", "pod-security")
        assert "the namespace enforces the Pod Security Standard restricted." in found["text"]
        assert found["fix"].startswith("correct securityContext")


def test_a_service_account_that_does_not_exist(user: User) -> None:
    job = elastic_job("nobody", work(600), 1)
    template = job["spec"]["replicaSpecs"]["Worker"]["template"]
    template["spec"]["serviceAccountName"] = "absent"
    user.create(job)
    found = until_cause(user, "nobody", "missing-service-account")
    assert "ServiceAccount absent does not exist" in found["text"]
    assert f"create the ServiceAccount absent in namespace {SPACE}" in found["fix"]


@pytest.fixture
def reader(user: User, tmp_path: Path) -> Path:
    """The kubeconfig of a ServiceAccount that may read ChainerJobs in one namespace only."""
    user.kubectl("create", "serviceaccount", "reader")
    rule = {
        "apiGroups": ["kubeflow.org"],
        "resources": ["chainerjobs"],
        "verbs": ["get", "list", "watch"],
    }
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": "reader"},
        "rules": [rule],
    }
    user.create(role)
    user.kubectl(
        "create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={SPACE}:reader"
    )
    config = yaml.safe_load(user.cluster.kubeconfig.read_text())
    token = user.kubectl("create", "token", "reader").strip()
    config["users"][0]["user"] = {"token": token}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_user_with_few_rights_sees_the_rest(user: User, reader: Path) -> None:
    user.create(chainer_job("one", "echo hello"))
    user.until_phase("one", "Succeeded")
    account = f"system:serviceaccount:{SPACE}:reader"
    there = ("-n", SPACE)

    def lacks(verb: str, name: str, where: str = f" in namespace {SPACE}") -> str:
        return f"the right to {verb} {name}{where} is missing for {account}; to check: kubectl auth"

    listed = traincrew(reader, "list", *there, code=1)
    assert ["ChainerJob", "one", "Succeeded"] in [
        line.split()[:3] for line in listed.stdout.splitlines()
    ]
    assert lacks("list", "elasticjobs.elastic.pytorch.org") in listed.stderr
    listed = traincrew(reader, "list", "-A", code=1)
    assert listed.stdout == ""
    assert lacks("list", "chainerjobs.kubeflow.org", " in all namespaces") in listed.stderr

    why = traincrew(reader, "why", "one", *there)
    assert why.stdout.startswith("ChainerJob one has succeeded.")
    for name in ("pods", "events", "jobs.batch", "statefulsets.apps", "resourcequotas"):
        assert lacks("list", name) in why.stderr
    assert lacks("list", "nodes", "") in why.stderr

    watched = traincrew(reader, "watch", "one", *there)
    assert "ChainerJob one: Succeeded after" in watched.stdout
    assert lacks("watch", "pods") in watched.stdout
    logs = traincrew(reader, "logs", "one", *there, code=1)
    assert lacks("list", "pods") in logs.stderr
