"""The ClusterTrainingRuntimes that Trainer installs, as far as their jobs can run here.

Names, images and policies are those of Trainer 2.2.0 (``manifests/base/runtimes``, with the tags of
``manifests/overlays/runtimes``). One with a cache is not there: it needs LeaderWorkerSet.
"""

from __future__ import annotations

from typing import Any

from traincrew.api.kinds.trainjob.runtime import ANCESTOR, DATASET, FRAMEWORK, MODEL, TRAINER
from traincrew.api.kinds.trainjob.types import CLUSTER_RUNTIME, GROUP, NODE, VERSION

Document = dict[str, Any]

_TAG = "v2.2.0"


_IMAGES = "ghcr.io/kubeflow/trainer"
_SHARED = "initializer"
_WORKSPACE = "/workspace"


def _runtime(
    framework: str,
    policy: Document,
    jobs: list[Document],
    *,
    name: str = "distributed",
    **template: Any,
) -> Document:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": CLUSTER_RUNTIME,
        "metadata": {
            "name": f"{framework}-{name}",
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
    image = f"{_IMAGES}/{framework}-runtime:{_TAG}"
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


def _initializer(step: str, uri: str) -> Document:
    container = {
        "name": step,
        "image": f"{_IMAGES}/{step}:{_TAG}",
        "env": [{"name": "STORAGE_URI", "value": f"hf://{uri}"}],
        "volumeMounts": [{"name": _SHARED, "mountPath": _WORKSPACE}],
    }
    return _job(step, container, step)


def _tuned(model: str, weights: str, config: str, *tokenizer: str) -> Document:
    """Return the runtime that downloads a dataset and a model, and tunes it with torchtune."""
    command = [
        *("tune", "run", "--rdzv_endpoint=localhost:29500", "full_finetune_distributed"),
        *("--config", f"{config}_full"),
        "dataset=torchtune.datasets.instruct_dataset",
        "dataset.source=parquet",
        f"dataset.data_dir={_WORKSPACE}/dataset/data",
        f"output_dir={_WORKSPACE}/output",
        *tokenizer,
        f"checkpointer.checkpoint_dir={_WORKSPACE}/model",
    ]
    container = {
        "name": NODE,
        "image": f"{_IMAGES}/torchtune-trainer:{_TAG}",
        "command": command,
        "resources": {"limits": {"nvidia.com/gpu": 2}},
        "volumeMounts": [{"name": _SHARED, "mountPath": _WORKSPACE}],
    }
    claim = {
        "metadata": {"name": _SHARED},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "20Gi"}},
        },
    }
    after = [{"name": step, "status": "Complete"} for step in (DATASET, MODEL)]
    return _runtime(
        "torchtune",
        {"torch": {}},
        [
            _initializer(DATASET, "tatsu-lab/alpaca"),
            _initializer(MODEL, weights),
            {**_job(NODE, container, TRAINER), "dependsOn": after},
        ],
        name=model,
        volumeClaimPolicies=[{"templates": [claim]}],
    )


def _llama(size: str) -> Document:
    tokenizer = f"tokenizer.path={_WORKSPACE}/model/original/tokenizer.model"
    weights, config = f"meta-llama/Llama-3.2-{size}-Instruct", f"llama3_2/{size}"
    return _tuned(f"llama3.2-{size.lower()}", weights, config, tokenizer)


RUNTIMES = (
    _plain("torch", "pytorch/pytorch:2.10.0-cuda12.8-cudnn9-runtime"),
    _plain("jax", "nvcr.io/nvidia/jax:25.10-py3"),
    _plain("xgboost", f"{_IMAGES}/xgboost-runtime:{_TAG}"),
    _mpi("deepspeed"),
    _mpi("mlx"),
    _llama("1B"),
    _llama("3B"),
    _tuned(
        "qwen2.5-1.5b",
        "Qwen/Qwen2.5-1.5B-Instruct",
        "qwen2_5/1.5B",
        f"tokenizer.path={_WORKSPACE}/model/vocab.json",
        f"tokenizer.merges_file={_WORKSPACE}/model/merges.txt",
    ),
)
"""The runtimes, as manifests."""
