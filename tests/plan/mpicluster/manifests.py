"""MPIClusters for tests."""

from __future__ import annotations

from typing import Any

IMAGE = "everpeace/kube-openmpi:0.7.0"


def template(container: str, **fields: Any) -> dict[str, Any]:
    """Return a pod template with one container."""
    policy = "OnFailure" if container == "mpi-master" else "Always"
    containers = [{"name": container, "image": IMAGE, **fields}]
    return {"spec": {"containers": containers, "restartPolicy": policy}}


def interactive(name: str = "hello", *, workers: int = 4, **spec: Any) -> dict[str, Any]:
    """Return a cluster whose master waits for mpiexec by hand."""
    return {
        "apiVersion": "traincrew.dev/v1alpha1",
        "kind": "MPICluster",
        "metadata": {"name": name},
        "spec": {
            "master": {"template": template("mpi-master")},
            "workers": {"replicas": workers, "template": template("mpi-worker")},
            **spec,
        },
    }


def one_shot(
    name: str = "hello", command: str = "mpiexec hello", *, workers: int = 2, **spec: Any
) -> dict[str, Any]:
    """Return a cluster that ends with its command."""
    job = interactive(name, workers=workers, **spec)
    job["spec"]["master"]["oneShot"] = {"command": command}
    return job


def without_ssh(name: str = "hello", *, workers: int = 2, **spec: Any) -> dict[str, Any]:
    """Return a cluster with a command, whose processes are started by `kubectl exec`."""
    return one_shot(name, workers=workers, transport="exec", **spec)


def everything() -> dict[str, Any]:
    """Return a cluster with every field that changes its children."""
    job = one_shot(
        "train",
        "mpiexec -n 3 python3 train_mnist.py -g",
        workers=3,
        appName="chainermn",
        slots=2,
        ssh={"keySecretName": "my-key", "gateway": {"enabled": True, "nodePort": 30300}},
        networkPolicy={"enabled": True},
        codeSync=[
            {
                "name": "chainermn",
                "repository": "https://git.example.com/chainermn",
                "branch": "master",
                "timeoutSeconds": 120,
                "mountPath": "/chainermn-examples",
                "subPath": "chainermn/examples",
            },
            {
                "name": "private",
                "repository": "git@git.example.com:team/private.git",
                "mountPath": "/private",
                "secretName": "git-key",
            },
        ],
    )
    resources = {
        "limits": {"nvidia.com/gpu": 1, "memory": "2Gi"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }
    job["metadata"]["labels"] = {"team": "vision"}
    job["spec"]["master"]["template"] = {
        "metadata": {"labels": {"app": "mine", "tier": "front"}, "annotations": {"note": "kept"}},
        "spec": {
            "restartPolicy": "OnFailure",
            "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"disk": "fast"},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [
                {
                    "name": "mpi-master",
                    "image": IMAGE,
                    "env": [{"name": "HOSTFILE", "value": "/mine"}],
                    "ports": [{"containerPort": 2022, "name": "ssh"}],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    "resources": resources,
                },
                {"name": "sidecar", "image": "busybox:1"},
            ],
        },
    }
    workers = job["spec"]["workers"]
    workers["podManagementPolicy"] = "OrderedReady"
    workers["podDisruptionBudget"] = {"enabled": True}
    workers["template"] = {
        "spec": {
            "schedulerName": "kube-batch",
            "containers": [
                {
                    "image": IMAGE,
                    "resources": resources,
                    "readinessProbe": {"exec": {"command": ["true"]}},
                    "terminationMessagePolicy": "File",
                }
            ],
        },
    }
    return job
