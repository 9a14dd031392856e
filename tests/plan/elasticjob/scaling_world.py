"""A simulated cluster whose nodes have capacity for a given number of pods."""

from __future__ import annotations

from typing import Any

from plan.cluster import PLACED
from plan.elasticjob.world import ElasticWorld, elastic
from traincrew.plan.shared import indexes

AFTER = 60
RETRY = 300
MOST = 4


def fitting(replicas: int = 3, **fields: Any) -> dict[str, Any]:
    """A manifest of a job that fits itself to the available capacity."""
    policy = {"afterSeconds": AFTER, "retrySeconds": RETRY}
    return elastic(replicas, **{"fitAvailable": policy, "maxReplicas": MOST, **fields})


class ScalingWorld(ElasticWorld):
    """One ElasticJob, and a scheduler with capacity for some pods."""

    def __init__(self, manifest: dict[str, Any], room: int) -> None:
        super().__init__(manifest)
        self.room = room

    def step(self) -> bool:
        """One reconcile, after which enough workers are asked for, whatever happens next."""
        changed = super().step()
        spec, ended = self.job["spec"], "completionTime" in self.status
        given = indexes.parse(self.given_up, MOST)
        if (
            given
            and not ended
            and self.status["observedGeneration"] == self.job["metadata"]["generation"]
        ):
            replicas = spec["replicaSpecs"]["Worker"]["replicas"]
            assert replicas - len(given) >= spec["minReplicas"]
        return changed

    def controllers(self) -> bool:
        """The nodes let go of pods, and the scheduler finds places for others."""
        changed = super().controllers()
        for _, pod in sorted(self.pods.items()):
            status = pod["status"]
            if status["phase"] != "Pending" or pod["spec"].get("nodeName"):
                continue
            if len(self.bound) < self.room:
                pod["spec"]["nodeName"] = "node"
                self.run(pod["metadata"]["name"])
                changed = True
            elif status["conditions"] == [PLACED]:
                no_room = {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient cpu.",
                    "lastTransitionTime": self.stamp(),
                }
                status["conditions"] = [no_room]
                changed = True
        return changed

    @property
    def bound(self) -> list[str]:
        """Pods that hold room."""
        return [
            name
            for name, pod in self.pods.items()
            if pod["spec"].get("nodeName") and pod["status"]["phase"] in {"Pending", "Running"}
        ]

    def later(self, seconds: float) -> ScalingWorld:
        """The world comes to rest, time passes, and it comes to rest again."""
        self.settle()
        self.pass_time(seconds)
        self.settle()
        return self

    @property
    def given_up(self) -> str:
        """Indices of the workers that are given up."""
        text: str = self.status.get("fit", {}).get("givenUpIndexes", "")
        return text
