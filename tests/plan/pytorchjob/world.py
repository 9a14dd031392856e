"""The simulated cluster with a PyTorchJob."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Self

import yaml

from plan.world import World
from traincrew.plan.shared import podrecords

EXAMPLES = Path(__file__).parent / "examples"


def example(name: str, **spec: Any) -> dict[str, Any]:
    """A manifest of the examples, with further fields of the spec."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    document["spec"].update(spec)
    return document


def pytorch(policy: str | None = "OnFailure", *, workers: int = 2, **run: Any) -> dict[str, Any]:
    """A master and workers with a restart policy; `run` are fields of the run policy."""
    document = example("master", runPolicy=run)
    specs = document["spec"]["pytorchReplicaSpecs"]
    specs["Worker"]["replicas"] = workers
    for each in specs.values():
        del each["restartPolicy"]
        if policy is not None:
            each["restartPolicy"] = policy
    return document


def group(workers: int = 2, policy: str = "ExitCode", **run: Any) -> dict[str, Any]:
    """An elastic group of workers without a master."""
    document = example("elastic", runPolicy=run)
    worker = document["spec"]["pytorchReplicaSpecs"]["Worker"]
    worker |= {"replicas": workers, "restartPolicy": policy}
    return document


class PyTorchWorld(World):
    """One PyTorchJob and everything around it."""

    def assert_may_delete(self, pod: dict[str, Any]) -> None:
        """Assert that the state of a failed pod was stored before the pod is deleted."""
        if pod["status"]["phase"] != "Failed" or self.job["spec"].get("runPolicy", {}).get(
            "suspend"
        ):
            return
        key = pod["metadata"]["name"].removeprefix(f"{self.name}-")
        record = podrecords.read(self.status.get("podRecords", {})).get(key)
        known = record is not None and (record.failed or record.released)
        assert self.status["phase"] in {"Succeeded", "Failed"} or known, key

    def pod(self, key: str) -> dict[str, Any]:
        """A pod by its type and index, such as ``worker-0``."""
        return self.pods[f"{self.name}-{key}"]

    def begin(self) -> Self:
        """Until every pod runs."""
        self.settle()
        self.run()
        self.settle()
        self.pass_time(60)
        return self

    def exit(self, key: str, code: int) -> None:
        """A program ends with an exit code."""
        self.end(self.pod(key), code, finishedAt=self.stamp())

    def evict(self, key: str) -> None:
        """Something other than its own program ends a pod."""
        status = self.pod(key)["status"]
        status["phase"], status["containerStatuses"] = "Failed", []
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]

    def scale(self, workers: int) -> None:
        """Set the desired number of workers."""
        specs = copy.deepcopy(self.job["spec"]["pytorchReplicaSpecs"])
        specs["Worker"]["replicas"] = workers
        self.edit(pytorchReplicaSpecs=specs)

    @property
    def members(self) -> list[str]:
        """The pods that are there and to stay, by type and index."""
        return sorted(
            name.removeprefix(f"{self.name}-")
            for name, pod in self.pods.items()
            if "deletionTimestamp" not in pod["metadata"]
        )

    def names(self, kind: str) -> list[str]:
        """Names of the children of a kind."""
        return sorted(key.name for key in self.children if key.kind == kind)

    def reasons(self) -> list[str]:
        """Of all events."""
        return [event.reason for event in self.events]
