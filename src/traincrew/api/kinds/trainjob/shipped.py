"""The ClusterTrainingRuntimes that Trainer installs, as far as their jobs can run here.

Names, images and policies are those of Trainer 2.2.0 (``manifests/base/runtimes``, with the tags of
``manifests/overlays/runtimes``). Those of torchtune need claims of volumes in a JobSet, and one
with a cache needs LeaderWorkerSet.
"""

from __future__ import annotations

from typing import Any

from traincrew.api.kinds.trainjob.runtime import ANCESTOR, FRAMEWORK, TRAINER
from traincrew.api.kinds.trainjob.types import CLUSTER_RUNTIME, GROUP, NODE, VERSION

Document = dict[str, Any]

_TAG = "v2.2.0"


def _runtime(framework: str, policy: Document, jobs: list[Document], **template: Any) -> Document:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": CLUSTER_RUNTIME,
        "metadata": {
            "name": f"{framework}-distributed",
            "labels": {FRAMEWORK: framework},
        },
        "spec": {
            "mlPolicy": {"numNodes": 1, **policy},
            "template": {"spec": {**template, "replicatedJobs": jobs}},
        },
    }


def _job(name: str, container: Document, step: str = "") -> Document:
    template: Document = {"spec": {"template": {"spec": {"containers": [container]}}}}
    if step:
        template = {"metadata": {"labels": {ANCESTOR: step}}, **template}
    return {"name": name, "template": template}


def _plain(framework: str, image: str) -> Document:
    """Return the runtime of a framework whose nodes are all alike."""
    container = {"name": NODE, "image": image}
    return _runtime(framework, {framework: {}}, [_job(NODE, container, TRAINER)])


def _mpi(framework: str) -> Document:
    """Return the runtime of a framework whose ranks mpirun starts by ssh."""
    image = f"ghcr.io/kubeflow/trainer/{framework}-runtime:{_TAG}"
    container = {"name": NODE, "image": image, "securityContext": {"runAsUser": 1000}}
    server = {
        **container,
        "command": ["/usr/sbin/sshd"],
        "args": ["-De", "-f", "/home/mpiuser/.sshd_config"],
        "readinessProbe": {"tcpSocket": {"port": 2222}, "initialDelaySeconds": 5},
    }
    policy = {
        "mpi": {
            "numProcPerNode": 1,
            "mpiImplementation": "OpenMPI",
            "sshAuthMountPath": "/home/mpiuser/.ssh",
            "runLauncherAsNode": True,
        }
    }
    return _runtime(
        framework,
        policy,
        [_job("launcher", container, TRAINER), _job(NODE, server)],
        network={"publishNotReadyAddresses": True},
        successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
    )


RUNTIMES = (
    _plain("torch", "pytorch/pytorch:2.10.0-cuda12.8-cudnn9-runtime"),
    _plain("jax", "nvcr.io/nvidia/jax:25.10-py3"),
    _plain("xgboost", f"ghcr.io/kubeflow/trainer/xgboost-runtime:{_TAG}"),
    _mpi("deepspeed"),
    _mpi("mlx"),
)
"""The runtimes, as manifests."""
