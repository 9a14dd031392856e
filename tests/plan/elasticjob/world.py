"""The simulated cluster with an ElasticJob: what must hold when its pods are deleted."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Self

import yaml

from plan.world import World
from traincrew.plan.shared import podrecords

EXAMPLES = Path(__file__).parent / "examples"


def example(name: str, **spec: Any) -> dict[str, Any]:
    """A manifest of the examples; further fields of the spec as given, None removes one."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    for field, value in spec.items():
        if value is None:
            del document["spec"][field]
        else:
            document["spec"][field] = value
    return document


def elastic(
    replicas: int = 2, policy: str | None = "ExitCode", *, hosted: bool = False, **spec: Any
) -> dict[str, Any]:
    """A manifest of one to three workers."""
    limits = {"minReplicas": 1, "maxReplicas": 3}
    document = example("hosted" if hosted else "etcd", **{**limits, **spec})
    worker = document["spec"]["replicaSpecs"]["Worker"]
    worker["replicas"] = replicas
    worker.pop("restartPolicy")
    if policy is not None:
        worker["restartPolicy"] = policy
    return document


class ElasticWorld(World):
    """One ElasticJob and everything around it."""

    def assert_may_delete(self, pod: dict[str, Any]) -> None:
        """Assert that the state of an ended pod was stored before the pod is deleted."""
        if pod["status"]["phase"] in {"Succeeded", "Failed"}:
            self._assert_known(pod["metadata"]["name"])

    def _assert_known(self, name: str) -> None:
        spec, status = self.job["spec"], self.status
        index = int(name.rpartition("-")[2])
        wanted = index < spec["replicaSpecs"].get("Worker", {"replicas": 0})["replicas"]
        if "-worker-" not in name or not wanted or spec.get("suspend"):
            return
        record = podrecords.read(status.get("podRecords", {})).get(f"worker-{index}")
        counted = record is not None and (record.failed or record.stalled)
        assert status["phase"] in {"Succeeded", "Failed"} or counted, name

    def delete(self, name: str) -> None:
        """Somebody deletes a pod, which starts to terminate."""
        self.leave(self.pods[name])

    def vanish(self, name: str) -> None:
        """A pod is gone, whatever it was doing."""
        del self.pods[name]

    # -- in short -----------------------------------------------------------------------------

    def pod(self, index: int) -> dict[str, Any]:
        """A worker."""
        return self.pods[f"{self.name}-worker-{index}"]

    def begin(self) -> Self:
        """Until every worker runs."""
        self.settle()
        self.run()
        self.settle()
        self.pass_time(60)
        return self

    def fail(self, index: int, code: int, **details: str) -> None:
        """A worker ends with an exit code."""
        self.end(self.pod(index), code, finishedAt=self.stamp(), **details)

    def disrupt(self, index: int, reason: str = "") -> None:
        """Something other than its own program ends a worker."""
        status = self.pod(index)["status"]
        status["phase"], status["containerStatuses"] = "Failed", []
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
        if reason:
            status["reason"], status["conditions"] = reason, []

    def scale(self, replicas: int) -> None:
        """Set the desired number of workers."""
        specs = copy.deepcopy(self.job["spec"]["replicaSpecs"])
        specs["Worker"]["replicas"] = replicas
        self.edit(replicaSpecs=specs)

    def uid(self, index: int) -> str:
        """Identifies a pod, as opposed to its successor."""
        uid: str = self.pod(index)["metadata"]["uid"]
        return uid

    @property
    def workers(self) -> list[int]:
        """Indices of the workers that are there and to stay."""
        return sorted(
            int(name.rpartition("-")[2])
            for name, pod in self.pods.items()
            if "-worker-" in name and "deletionTimestamp" not in pod["metadata"]
        )

    @property
    def services(self) -> list[str]:
        """Names of the Services."""
        return sorted(key.name for key in self.children if key.kind == "Service")

    def reasons(self) -> list[str]:
        """Of all events."""
        return [event.reason for event in self.events]
