"""Jobs of training-operator's kinds: how they are run by it, and what is seen of each."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from suites.operators import beside
from suites.operators.beside import Case, Document, head, name
from suites.operators.modules import sources
from suites.operators.test_operators import installed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from suites.shell import User

LABEL = "training.kubeflow.org/job-name"


def manifest(kind: str, job: str, spec: Document) -> Document:
    """A job."""
    metadata = {"name": job, "namespace": "default"}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": metadata, "spec": spec}


def install(user: User, program: str) -> None:
    """Install a release of training-operator: a directory of `hack/cluster/modules`."""
    source = sources("github.com/kubeflow/training-operator", program)
    overlay = f"--kustomize={source}/manifests/overlays/standalone"
    installed(user, overlay, namespace="kubeflow", deployment="training-operator")


@contextlib.contextmanager
def both(
    kind: str, cases: Mapping[str, Case], *, program: str, catalog: Path, directory: Path
) -> Iterator[tuple[User, User]]:
    """Someone with training-operator on a cluster, and someone with ours, after all cases.

    Args:
        kind: The kind of the jobs.
        cases: The jobs.
        program: The release of training-operator: a directory of `hack/cluster/modules`.
        catalog: The catalog of images.
        directory: An empty one.
    """

    jobs = {case: (manifest(kind, case, each.spec), each.ends) for case, each in cases.items()}
    with beside.both(
        directory, catalog, partial(install, program=program), plural(kind), jobs
    ) as users:
        yield users


def plural(kind: str) -> str:
    """A kind, for kubectl."""
    return f"{kind.lower()}s.kubeflow.org"


def observed(user: User, kind: str, job: str) -> Document:
    """What a user sees of a job that has come to rest."""
    selected = ("-l", f"{LABEL}={job}")
    return {
        "pods": {name(each): _pod(each) for each in user.get("pod", *selected)["items"]},
        "services": {
            name(each): _service(each) for each in user.get("service", *selected)["items"]
        },
        "autoscalers": {
            name(each): each["spec"]
            for each in user.get("hpa")["items"]
            if each["spec"]["scaleTargetRef"]["name"] == job
        },
        **beside.status(user.get(plural(kind), job).get("status", {})),
        **beside.events(user, kind, job),
    }


def _pod(found: Document) -> Document:
    spec = found["spec"]
    notes = found["metadata"].get("annotations", {})
    return {
        **head(found),
        "annotations": {key: notes[key] for key in notes if key.startswith("example.com/")},
        "restartPolicy": spec["restartPolicy"],
        "containers": [beside.container(each) for each in spec["containers"]],
        "initContainers": [beside.container(each) for each in spec.get("initContainers", [])],
    }


def _service(found: Document) -> Document:
    spec = found["spec"]
    ports = sorted((each.get("name", ""), each["port"]) for each in spec["ports"])
    return {**head(found), "selector": spec["selector"], "ports": ports,
            "clusterIP": spec["clusterIP"]}  # fmt: skip
