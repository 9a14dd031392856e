"""The operator under the names of mxnet-operator, on a real cluster with RBAC."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hack.cluster import binaries

from .install_support import ROOT, SECONDS, User, denied, namespace, run, uninstall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.cluster import RealCluster

NAME = "mx-job-operator"
SPACE = "mxnet-install"
CHART = str(ROOT / "charts" / "mx-job-operator-chart")
IMAGE = "docker.io/traincrew/busybox:0.1.0"
WAIT = ("--wait", f"--timeout={SECONDS:g}s")


@pytest.fixture
def user(cluster: RealCluster) -> Iterator[User]:
    """A user with a namespace; nothing is installed, and everything is removed after."""
    uninstall(cluster)
    with namespace(cluster, SPACE) as found:
        yield found
    uninstall(cluster)


def sees_an_mxjob_through(user: User, group: str) -> None:
    """Create a job of one pod with a resource of the accelerators' name, and wait for its end."""
    container = {"name": "mxnet", "image": IMAGE, "command": ["echo", "hello"]}
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}
    user.create(
        {
            "apiVersion": f"{group}/v1beta1",
            "kind": "MxJob",
            "metadata": {"name": "trains"},
            "spec": {"jobMode": "local", "replicaSpecs": [{"template": template}]},
        }
    )
    job = f"mxjobs.{group}/trains"
    wait = f"--timeout={SECONDS}s"
    user.kubectl("wait", job, "--for=jsonpath={.status.phase}=Done", wait)
    assert user.get(job)["status"]["state"] == "Succeeded"
    user.kubectl("delete", job, wait)


@pytest.mark.parametrize("program", ["helm", "helm4"])
def test_helm_from_install_to_uninstall(cluster: RealCluster, user: User, program: str) -> None:
    """Installed in the namespace of the jobs, as mxnet-operator was."""
    helm, there = binaries.build(program), f"--namespace={SPACE}"
    run(helm, cluster, "install", "mx-job", CHART, there, *WAIT)
    said = run(helm, cluster, "test", "mx-job", there, "--logs", f"--timeout={SECONDS:g}s")
    assert "phase Done, state Succeeded" in said
    assert "the operator works" in said
    for group in ("mxnet.mlkube.io", "mlkube.io"):
        sees_an_mxjob_through(user, group)
    settings = ("--set", f"test_image={IMAGE}")
    run(helm, cluster, "upgrade", "mx-job", CHART, there, *settings, *WAIT)
    again = run(helm, cluster, "test", "mx-job", there, "--logs", f"--timeout={SECONDS:g}s")
    assert f"with image {IMAGE}" in again

    account = f"--as=system:serviceaccount:{SPACE}:mx-job-mxjob-test"
    assert not denied(cluster, "create", "mxjobs.mxnet.mlkube.io", there, account)
    for verb, resource in (("list", "mxjobs.mxnet.mlkube.io"), ("create", "pods")):
        assert denied(cluster, verb, resource, there, account)
    assert denied(cluster, "create", "mxjobs.mxnet.mlkube.io", "--namespace=default", account)

    kept = run(helm, cluster, "uninstall", "mx-job", there, "--wait")
    assert "mxjobs.mxnet.mlkube.io" in kept
    left = cluster.kubectl(
        "get", "deployment,configmap,role,rolebinding,clusterrole,clusterrolebinding",
        "--all-namespaces", "-o", "name",
    )  # fmt: skip
    assert "mx-job" not in left


def test_kubectl_apply_k(cluster: RealCluster, user: User) -> None:
    """In the namespace `default`, which stays as it is."""
    config = str(ROOT / "config" / "mx-job-operator")
    before = cluster.kubectl("get", "namespace", "default", "-o", "jsonpath={.metadata.labels}")
    try:
        cluster.kubectl("apply", "-k", config)
        cluster.kubectl("rollout", "status", f"deployment/{NAME}", f"--timeout={SECONDS}s")
        assert json.loads(before) == json.loads(
            cluster.kubectl("get", "namespace", "default", "-o", "jsonpath={.metadata.labels}")
        )
        sees_an_mxjob_through(user, "mlkube.io")
        log = cluster.kubectl("logs", "-l", f"name={NAME}", "--tail=-1")
        assert "accelerators are configured" in log
        assert "forbidden" not in log
        holder = cluster.kubectl(
            "get", "lease", "chainer-operator", "-o", "jsonpath={.spec.holderIdentity}"
        )
        assert holder.startswith(f"{NAME}-")
    finally:
        cluster.kubectl("delete", "-k", config, "--ignore-not-found", f"--timeout={SECONDS}s")
    assert cluster.kubectl("get", "namespace", "default", "-o", "name") == "namespace/default\n"
