"""Manifests of jobs for the fault suites, and the scripts that their pods run."""

from __future__ import annotations

from typing import Any

IMAGE = "docker.io/traincrew/busybox:0.1.0"
HELPER_IMAGE = "docker.io/traincrew/helper:0.1.0"
GONE = "gone"
END_FILE = "/tmp/end"
UNTIL_TOLD = f"until [ -e {END_FILE} ]; do sleep 0.2 & wait $!; done; exit 0"
"""A script that ends when somebody makes the file, however long everything else takes."""


def template(script: str) -> dict[str, Any]:
    """A pod that runs a shell script and ends at once on SIGTERM."""
    container = {
        "name": "chainer",
        "image": IMAGE,
        "command": ["sh", "-c", f"trap 'exit 143' TERM; {script}"],
        "resources": {"requests": {"cpu": "5m", "memory": "8Mi"}},
    }
    return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}


def work(seconds: float, code: int = 0) -> str:
    """A script that takes a while and exits."""
    return f"sleep {seconds} & wait $!; exit {code}"


def chainer_job(
    name: str, script: str, *, retries: int = 0, workers: int | None = None, **policy: Any
) -> dict[str, Any]:
    """A ChainerJob: a master that runs the script, and perhaps workers that wait."""
    spec: dict[str, Any] = {
        "master": {"backoffLimit": retries, "template": template(script)},
        "runPolicy": policy,
    }
    if workers is not None:
        spec["backend"] = "mpi"
        spec["workerSets"] = {"ws0": {"replicas": workers, "template": template(work(3600))}}
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "metadata": {"name": name},
        "spec": spec,
    }
