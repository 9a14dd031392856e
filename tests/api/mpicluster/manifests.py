"""MPIClusters for tests."""

from __future__ import annotations

from typing import Any

IMAGE = "traincrew/openmpi:0.1.0"


def template(container: str, **more: Any) -> dict[str, Any]:
    """Return a pod template with one container."""
    return {"spec": {"containers": [{"name": container, "image": IMAGE, **more}]}}


def interactive(name: str = "mine", **spec: Any) -> dict[str, Any]:
    """Return a cluster whose master waits for commands."""
    return {
        "apiVersion": "traincrew.dev/v1alpha1",
        "kind": "MPICluster",
        "metadata": {"name": name},
        "spec": {
            "master": {"template": template("mpi-master")},
            "workers": {"replicas": 2, "template": template("mpi-worker")},
            **spec,
        },
    }


def one_shot(name: str = "mine", command: str = "mpiexec hostname") -> dict[str, Any]:
    """Return a cluster whose master runs a command."""
    manifest = interactive(name)
    manifest["spec"]["master"]["oneShot"] = {"command": command}
    return manifest


def with_code() -> dict[str, Any]:
    """Return a cluster with code of two repositories."""
    return interactive(
        codeSync=[
            {
                "name": "chainermn",
                "repository": "https://github.com/chainer/chainermn.git",
                "branch": "master",
                "mountPath": "/chainermn",
                "subPath": "chainermn/examples",
            },
            {
                "name": "private",
                "repository": "git@github.com:our/private.git",
                "mountPath": "/private",
                "secretName": "git-sync-creds",
                "timeoutSeconds": 120,
            },
        ]
    )
