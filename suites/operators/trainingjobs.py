"""Jobs of training-operator's kinds: what a user sees of them, there and here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites.operators import beside
from suites.operators.modules import TRAINING, sources
from suites.operators.test_operators import installed

if TYPE_CHECKING:
    from suites.operators.beside import Document
    from suites.shell import User

LABEL = "training.kubeflow.org/job-name"


def install(user: User, program: str = "") -> None:
    """Install training-operator.

    Args:
        user: Whose cluster.
        program: Its directory of `hack/cluster/modules`, if it is not the newest release.
    """
    overlay = sources(TRAINING, program) / "manifests/overlays/standalone"
    name = "training-operator"
    installed(user, f"--kustomize={overlay}", namespace="kubeflow", deployment=name)


def manifest(kind: str, name: str, spec: Document) -> Document:
    """A job."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": metadata, "spec": spec}


def observed(user: User, kind: str, name: str) -> Document:
    """What a user sees of a job that has come to rest."""
    selected = ("-l", f"{LABEL}={name}")
    # With the group: other kinds have the same plural.
    job = user.get(f"{kind.lower()}s.kubeflow.org", name)
    return {
        "pods": {beside.name(each): _pod(each) for each in user.get("pod", *selected)["items"]},
        "services": {
            beside.name(each): _service(each) for each in user.get("service", *selected)["items"]
        },
        "autoscalers": {
            beside.name(each): each["spec"]
            for each in user.get("hpa")["items"]
            if each["spec"]["scaleTargetRef"]["name"] == name
        },
        **beside.status(job.get("status", {})),
        **beside.events(user, kind, name),
    }


def _pod(found: Document) -> Document:
    spec = found["spec"]
    notes = found["metadata"].get("annotations", {})
    return {
        **beside.head(found),
        "annotations": {key: notes[key] for key in notes if key.startswith("example.com/")},
        "restartPolicy": spec["restartPolicy"],
        "containers": [beside.container(each) for each in spec["containers"]],
        "initContainers": [beside.container(each) for each in spec.get("initContainers", [])],
    }


def _service(found: Document) -> Document:
    spec = found["spec"]
    ports = sorted((each.get("name", ""), each["port"]) for each in spec["ports"])
    return {**beside.head(found), "selector": spec["selector"], "ports": ports,
            "clusterIP": spec["clusterIP"]}  # fmt: skip
