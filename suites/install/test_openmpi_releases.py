"""The chart kube-openmpi on an embedded cluster with our operator, from install to uninstall."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from suites.helm import BOTH, built
from suites.shell import User

from traincrew.local.directories import default_cache

from .support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHART = str(ROOT / "charts" / "kube-openmpi")
# Any image will do: what is asked for here is objects.
VALUES = """\
image:
  repository: busybox
  tag: "1"
mpiMaster:
  nodeSelector:
    nowhere: "true"
mpiWorkers:
  num: 2
"""
KEYS = """\
sshKey:
  id_rsa: |
    -----BEGIN RSA PRIVATE KEY-----
    of nobody
    -----END RSA PRIVATE KEY-----
  id_rsa_pub: ssh-rsa AAAAB3NzaC1yc2E nobody
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Someone with a cluster, an operator, and a values file."""
    home = tmp_path_factory.mktemp("user")
    (home / "values.yaml").write_text(VALUES)
    (home / "ssh-key.yaml").write_text(KEYS)
    found = User(home, default_cache(), "mpicluster,statefulset,pod,event")
    found.traincrew("up", f"--kubeconfig={found.kubeconfig}")
    with contextlib.ExitStack() as stack:
        stack.callback(found.traincrew, "down")
        yield found
        log = found.log()
    assert "Traceback" not in log, log


@pytest.fixture(params=BOTH)
def helm(request: pytest.FixtureRequest) -> str:
    return str(built(request.param))


def file(user: User, name: str) -> str:
    path: Path = user.home / name
    return f"--values={path}"


def owned(user: User, name: str) -> set[str]:
    """The kinds and names of what a cluster owns."""
    kinds = "statefulset,service,configmap,poddisruptionbudget,networkpolicy,secret"
    label = f"mpicluster.traincrew.dev/name={name}"
    found = user.get(kinds, "-l", label)["items"]
    return {f"{each['kind']}/{each['metadata']['name']}" for each in found}


def until_workers(user: User, name: str, number: int) -> None:
    """Wait until the StatefulSet of the workers has a number of replicas."""
    words = ("get", "statefulset", f"{name}-worker", "-o", "jsonpath={.spec.replicas}")
    user.until(f"{number} workers", lambda: user.kubectl(*words, code=None) == str(number))


def test_from_install_to_uninstall(user: User, helm: str) -> None:
    said = user.does(helm, "install", "mine", CHART, file(user, "values.yaml"))
    assert "kubectl --namespace default exec -it mine-master -- mpiexec" in said
    until_workers(user, "mine", 2)
    assert owned(user, "mine") == {
        "ConfigMap/mine-assets",
        "Secret/mine-ssh-key",
        "Service/mine",
        "StatefulSet/mine-worker",
    }

    changes = (
        "mpiWorkers.num=3,networkPolicy.enabled=true,sshGateway.enabled=true,"
        "mpiWorkers.customScheduling.enabled=true,"
        "mpiWorkers.customScheduling.podDisruptionBudget.enabled=true"
    )
    user.does(helm, "upgrade", "mine", CHART, file(user, "values.yaml"), f"--set={changes}")
    until_workers(user, "mine", 3)
    more = {
        "NetworkPolicy/mine-allow-from-external",
        "NetworkPolicy/mine-allow-internal",
        "PodDisruptionBudget/mine-worker-pdb",
        "Service/mine-ssh-gateway",
    }
    user.until("more objects", lambda: more <= owned(user, "mine"))

    refused = user.does(
        helm, "upgrade", "mine", CHART, file(user, "values.yaml"),
        f"--set={changes},nameOverride=other", code=1,
    )  # fmt: skip
    assert "appName cannot be changed" in refused
    user.does(helm, "rollback", "mine", "1")
    until_workers(user, "mine", 2)
    user.until("fewer objects", lambda: not more & owned(user, "mine"))

    user.does(helm, "uninstall", "mine", "--wait")
    user.until("its children are deleted", lambda: not owned(user, "mine"))


def test_keys_of_a_release(user: User, helm: str) -> None:
    files = file(user, "values.yaml"), file(user, "ssh-key.yaml")
    user.does(helm, "install", "keys", CHART, *files)
    until_workers(user, "keys", 2)
    secret = user.get("secret", "keys-ssh-key")

    assert secret["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert set(secret["data"]) == {"id_rsa", "id_rsa.pub", "authorized_keys"}
    assert "ownerReferences" not in secret["metadata"]
    volume = user.get("statefulset", "keys-worker")["spec"]["template"]["spec"]["volumes"][0]
    assert volume["secret"]["secretName"] == "keys-ssh-key"
    user.does(helm, "uninstall", "keys", "--wait")
    user.until("its children are deleted", lambda: not owned(user, "keys"))
    assert "NotFound" in user.kubectl("get", "secret", "keys-ssh-key", code=1)


def test_without_a_release(user: User, helm: str) -> None:
    """As kube-openmpi's README: `helm template | kubectl create`, and the same without Helm."""
    files = file(user, "values.yaml"), file(user, "ssh-key.yaml")
    by_helm = user.does(helm, "template", "plain", CHART, *files)
    by_us = user.traincrew("mpi", *files, "--name=plain")
    for manifest in (by_helm, by_us):
        user.kubectl("create", "-f", "-", given=manifest)
        until_workers(user, "plain", 2)
        user.kubectl("delete", "-f", "-", given=manifest)
        user.until("its children are deleted", lambda: not owned(user, "plain"))
