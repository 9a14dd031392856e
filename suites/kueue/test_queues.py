"""Jobs of every kind in queues of the real Kueue."""

from __future__ import annotations

from typing import Any

import pytest
from suites.kueue.conftest import LABEL, Queues

Document = dict[str, Any]
KINDS = ("ElasticJob", "MxJob", "ChainerJob", "MPICluster")


def template(container: str, script: str, **spec: Any) -> Document:
    """Pods that run a shell script and ask for a tenth of a processor."""
    resources = {"requests": {"cpu": "100m"}}
    main: Document = {"name": container, "image": "shell:1", "resources": resources}
    if script:
        main["command"] = ["sh", "-c", script]
    return {"spec": {"containers": [main], **spec}}


def job(kind: str, name: str, queue: str, script: str = "sleep 1", **more: Any) -> Document:
    """A job that asks for two tenths of a processor, or one if it has a single pod.

    Args:
        kind: Its kind.
        name: Its name.
        queue: Its queue; empty for none.
        script: What its program does.
        more: Further fields of the pods.
    """
    metadata = {"name": name, "labels": {LABEL: queue} if queue else {}}
    api, spec = _specs(script, more)[kind]
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def _specs(script: str, more: Document) -> dict[str, tuple[str, Document]]:
    """Version and ``spec`` of a job of each kind."""
    workers = {"replicas": 2, "template": template("worker", script, **more)}
    single = {"mxReplicaType": "WORKER", "template": template("mxnet", script, **more)}
    alone = {"template": template("chainer", script, **more)}
    command = {"oneShot": {"command": script}, "template": template("mpi-master", "", **more)}
    hosts = {"replicas": 1, "template": template("mpi-worker", "", **more)}
    return {
        "ElasticJob": (
            "elastic.pytorch.org/v1alpha1",
            {
                "rdzvEndpoint": "nowhere:1",
                "cleanPodPolicy": "Running",
                "replicaSpecs": {"Worker": workers},
            },
        ),
        "MxJob": ("mxnet.mlkube.io/v1beta1", {"jobMode": "local", "replicaSpecs": [single]}),
        "ChainerJob": ("kubeflow.org/v1alpha1", {"master": alone}),
        "MPICluster": (
            "traincrew.dev/v1alpha1",
            {"transport": "exec", "master": command, "workers": hosts},
        ),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_for_one_job_runs_three_one_after_the_other(queues: Queues, kind: str) -> None:
    name = kind.lower()
    queues.cluster_queue(name, "200m" if kind in {"ElasticJob", "MPICluster"} else "100m")
    names = [f"{name}-{number}" for number in range(3)]
    for each in names:
        queues.create(job(kind, each, name, "sleep 2"))
    seen: set[str] = set()

    def ended() -> bool:
        active = {
            each
            for each in names
            if any(
                pod["status"].get("phase") in {"Pending", "Running"} for pod in queues.pods(each)
            )
        }
        assert len(active) <= 1, queues.state()
        seen.update(active)
        return all(queues.phase(kind, each) == "Succeeded" for each in names)

    queues.until("all have succeeded", ended, 120)
    assert seen == set(names)
    for each in names:
        queues.until("the quota is given back", lambda: queues.says(each, "Finished") == "True", 20)  # noqa: B023
        queues.kubectl("delete", kind.lower(), each, "--timeout=30s")
    queues.until("nothing is left", lambda: not any(map(queues.workload, names)), 30)
