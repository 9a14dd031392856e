"""A manifest for each kind and group with as little as possible written.

What is left out is what a schema, an operator or a pod's defaults could add to it.
"""

from __future__ import annotations

import copy
from typing import Any

from traincrew.operator.kinds import RESOURCES

Document = dict[str, Any]

POD = {"spec": {"containers": [{"image": "example/any:1", "ports": [{"containerPort": 80}]}]}}
"""Without what the API would add to a pod: names, protocols, policies."""
_SPECS: dict[str, Document] = {
    "ChainerJob": {"master": {"template": POD}, "workerSets": {"ws": {"template": POD}}},
    "ElasticJob": {"replicaSpecs": {"Worker": {"replicas": 2, "template": POD}}},
    "JobSet": {"replicatedJobs": [{"name": "workers", "template": {"spec": {"template": POD}}}]},
    "MPICluster": {
        "master": {"template": POD},
        "workers": {"template": POD},
        "codeSync": [
            {"name": "code", "repository": "https://example.org/code.git", "mountPath": "/code"}
        ],
    },
    "MXJob": {"jobMode": "MXTune", "mxReplicaSpecs": {"Tuner": {"template": POD}}},
    "MxJob": {
        "jobMode": "dist",
        "replicaSpecs": [
            {"template": POD},
            {"mxReplicaType": "SERVER", "template": POD},
            {"mxReplicaType": "SCHEDULER", "template": POD},
        ],
    },
    "MPIJob": {"mpiReplicaSpecs": {"Launcher": {"template": POD}}},
    "TrainJob": {"runtimeRef": {"name": "torch-distributed"}},
    "PyTorchJob": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": POD}}},
}


def terse(name: str) -> list[Document]:
    """One manifest for each kind and group, with as little as possible written."""
    return [
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": f"{name}-{resource.group.count('.')}", "namespace": "default"},
            "spec": _spec(resource.kind),
        }
        for resource in RESOURCES
    ]


def _spec(kind: str) -> Document:
    return copy.deepcopy(_SPECS[kind])
