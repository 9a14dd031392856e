"""A cluster on which training-operator is scaled to zero, and up again: its jobs go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from suites.operators.modules import TRAINING, sources
from suites.operators.pytorchjobs import job, replicas
from suites.operators.test_operators import installed
from suites.operators.trainingoperator import LABEL, manifest

if TYPE_CHECKING:
    from suites.shell import User

pytestmark = pytest.mark.timeout(900)
NAME = "training-operator"
UNTIL_TOLD = "until test -e /tmp/end; do sleep 0.2; done"
ANNOTATION = "traincrew.dev/status"


def pods(user: User, name: str) -> dict[str, str]:
    """The UIDs of a job's pods, by name."""
    items = user.get("pods", "-l", f"{LABEL}={name}")["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in items}


def running(user: User, name: str) -> dict[str, str]:
    """Wait until a job runs; return its pods."""
    user.kubectl("wait", f"pytorchjob/{name}", "--for=condition=Running", "--timeout=120s")
    user.kubectl("wait", "pods", "-l", f"{LABEL}={name}", "--for=condition=Ready")
    return pods(user, name)


def end(user: User, name: str) -> None:
    """Let the programs of a job end, and wait until it has succeeded."""
    for pod in sorted(pods(user, name), reverse=True):
        user.kubectl("exec", pod, "--", "touch", "/tmp/end")
    user.kubectl("wait", f"pytorchjob/{name}", "--for=condition=Succeeded", "--timeout=120s")


def create(user: User, name: str) -> None:
    """Create a job that runs until `end` is called."""
    spec = job(replicas(script=UNTIL_TOLD), replicas(script=UNTIL_TOLD))
    user.create(manifest("PyTorchJob", name, spec))


def scale(user: User, count: int) -> None:
    """Scale the Deployment of training-operator, and wait until it is so."""
    deployment = f"deployment/{NAME}"
    user.kubectl("scale", deployment, "--namespace=kubeflow", f"--replicas={count}")
    done = "condition=Available" if count else "delete"
    target = deployment if count else "pods"
    selected = () if count else ("-l", "control-plane=kubeflow-training-operator")
    user.kubectl(
        "wait", target, *selected, "--namespace=kubeflow", f"--for={done}", "--timeout=180s"
    )


def test_jobs_go_on_with_either_operator(cluster: User) -> None:
    """Pods stay, conditions go on, and what the definition drops is in an annotation."""
    overlay = sources(TRAINING) / "manifests/overlays/standalone"
    installed(cluster, f"--kustomize={overlay}", namespace="kubeflow", deployment=NAME)
    webhooks = "validatingwebhookconfiguration/validator.training-operator.kubeflow.org"
    configuration: dict[str, Any] = json.loads(cluster.kubectl("get", webhooks, "-o", "json"))
    for name in ("ours-ends", "theirs-ends"):
        create(cluster, name)
    before = {name: running(cluster, name) for name in ("ours-ends", "theirs-ends")}

    scale(cluster, 0)
    cluster.kubectl("delete", webhooks)
    create(cluster, "ours-begins")
    running(cluster, "ours-begins")
    end(cluster, "ours-ends")

    ours = cluster.get("pytorchjob", "ours-ends")
    assert pods(cluster, "ours-ends") == before["ours-ends"]
    assert ours["status"]["replicaStatuses"]["Worker"]["succeeded"] == 1
    kept = json.loads(ours["metadata"]["annotations"][ANNOTATION])["status"]
    assert (kept["phase"], ours["status"].get("phase")) == ("Succeeded", None)
    listed = cluster.traincrew("list", f"--kubeconfig={cluster.kubeconfig}")
    assert "Succeeded" in next(line for line in listed.splitlines() if "ours-ends" in line)

    del configuration["metadata"]["resourceVersion"], configuration["metadata"]["uid"]
    cluster.create(configuration)
    scale(cluster, 1)
    between = pods(cluster, "ours-begins")
    for name in ("theirs-ends", "ours-begins"):
        end(cluster, name)
    assert pods(cluster, "theirs-ends") == before["theirs-ends"]
    assert pods(cluster, "ours-begins") == between
    listed = cluster.traincrew("list", f"--kubeconfig={cluster.kubeconfig}")
    assert "Succeeded" in next(line for line in listed.splitlines() if "ours-begins" in line)
