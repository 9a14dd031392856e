"""MxJobs for tests."""

from __future__ import annotations

from typing import Any

GROUP, OLDER_GROUP = "mxnet.mlkube.io", "mlkube.io"


def template(**container: Any) -> dict[str, Any]:
    """Return a pod template with a container mxnet."""
    return {
        "spec": {
            "containers": [{"name": "mxnet", "image": "traincrew/mxnet", **container}],
            "restartPolicy": "OnFailure",
        }
    }


def replica(kind: str, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    """Return an entry of ``replicaSpecs``."""
    return {"replicas": replicas, "mxReplicaType": kind, "template": template(), **fields}


def distributed(
    name: str = "digits",
    *,
    servers: int = 1,
    workers: int = 2,
    port: int = 9091,
    group: str = GROUP,
    **spec: Any,
) -> dict[str, Any]:
    """Return a job with a parameter server."""
    return {
        "apiVersion": f"{group}/v1beta1",
        "kind": "MxJob",
        "metadata": {"name": name},
        "spec": {
            "jobMode": "dist",
            "replicaSpecs": [
                replica("SCHEDULER", PsRootPort=port),
                replica("SERVER", servers),
                replica("WORKER", workers),
            ],
            **spec,
        },
    }


def local(name: str = "digits-local", *, group: str = GROUP, **spec: Any) -> dict[str, Any]:
    """Return a job that trains in one pod."""
    return {
        "apiVersion": f"{group}/v1beta1",
        "kind": "MxJob",
        "metadata": {"name": name},
        "spec": {"jobMode": "local", "replicaSpecs": [replica("WORKER")], **spec},
    }


GPU = {"limits": {"alpha.kubernetes.io/nvidia-gpu": 1}}
_TRAIN = ["train_cifar10.py", "--num-epochs=10", "--num-layers=2", "--kv-store=dist_device_sync"]


def training(*args: str, image: str, **pod: Any) -> dict[str, Any]:
    """Return a pod template as in the examples of mxnet-operator."""
    container: dict[str, Any] = {
        "image": image,
        "name": "mxnet",
        "command": ["python"],
        "args": list(args),
        "workingDir": "/mxnet/example/image-classification",
    }
    if "gpu" in image:
        container["resources"] = GPU
    return {"spec": {"containers": [container], "restartPolicy": "OnFailure", **pod}}


def upstream() -> list[dict[str, Any]]:
    """Return jobs with the fields of mxnet-operator's examples, of all its versions."""
    toleration = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    cpu, gpu = "example.com/tensorflow/wd-mxnet-cpu", "example.com/library/mxnet-gpu"
    jobs = [
        _upstream("example-dist-job", f"{gpu}-dist:0.12.0"),
        _upstream("rel", f"{gpu}-dist:0.12.0", tolerations=[toleration]),
        _upstream("older-dist-job", f"{cpu}-dist", group=OLDER_GROUP),
    ]
    for name, image, group in (
        ("example-local-job", f"{gpu}-local:0.12.0", GROUP),
        ("older-local-job", f"{cpu}-local", OLDER_GROUP),
    ):
        job = local(name, group=group)
        job["spec"]["replicaSpecs"][0]["template"] = training(*_TRAIN[:-1], image=image)
        jobs.append(job)
    return jobs


def _upstream(name: str, image: str, *, group: str = GROUP, **worker: Any) -> dict[str, Any]:
    job = distributed(name, servers=2, workers=3, group=group)
    script = training("train_cifar10.py", image=image)
    script["spec"]["containers"][0].pop("resources", None)
    scheduler, server, workers = job["spec"]["replicaSpecs"]
    scheduler["template"] = server["template"] = script
    workers["template"] = training(*_TRAIN, image=image, **worker)
    return job


def older_readme() -> dict[str, Any]:
    """Return a job like the sample in a comment of mxnet-operator's README, which never ran.

    Its words are those of the operator for TensorFlow that mxnet-operator was made from.
    """
    container = {
        "image": "example.com/tf_sample_gpu:latest",
        "name": "tensorflow",
        "resources": {"limits": {"alpha.kubernetes.io/nvidia-gpu": 1}},
    }
    entry = {
        "replicas": 1,
        "PsRootPort": 9091,
        "mxReplicaType": "MASTER",
        "template": {"spec": {"containers": [container], "restartPolicy": "OnFailure"}},
    }
    return {
        "apiVersion": f"{OLDER_GROUP}/v1beta1",
        "kind": "MxJob",
        "metadata": {"name": "tf-smoke-gpu"},
        "spec": {"replica_specs": [entry]},
    }
