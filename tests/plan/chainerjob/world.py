"""The simulated cluster with a ChainerJob: what must hold when its launcher begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from plan.cluster import owner, ready
from plan.world import World
from traincrew.plan.shared.model import ChildKey

EXAMPLES = Path(__file__).parent / "examples"


def example(name: str) -> dict[str, Any]:
    """A manifest of the examples next to this file."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return document


def distributed(**spec: Any) -> dict[str, Any]:
    """A manifest with one set of two workers; further fields of the spec as given."""
    document = example("distributed")
    document["spec"].update(spec)
    return document


def plain(**spec: Any) -> dict[str, Any]:
    """A manifest without workers."""
    document = example("plain")
    document["spec"].update(spec)
    return document


class ChainerWorld(World):
    """One ChainerJob and everything around it. Pods that are deleted are gone at once."""

    def _create(self, key: ChildKey, document: dict[str, Any]) -> None:
        super()._create(key, document)
        if key.kind == "Job":
            self.children[key]["spec"].setdefault("backoffLimit", 6)
            self._assert_may_start()

    def _change(self, key: ChildKey, uid: str, values: dict[tuple[str, ...], Any]) -> None:
        super()._change(key, uid, values)
        if key.kind == "Job" and values.get(("spec", "suspend")) is False:
            self._assert_may_start()

    def _assert_may_start(self) -> None:
        """Assert that a master that begins now may start processes in all workers.

        In more as well, if the number of workers was lowered and the operator has not seen it.
        """
        wanted = self.job["spec"].get("workerSets", {}).items()
        of_job = f"{self.job['metadata']['name']}-workerset"
        assert set(self.readable).issuperset(f"{of_job}-{name}" for name, _ in wanted)
        assert set(self.granted).issuperset(
            f"{of_job}-{name}-{index}"
            for name, workers in wanted
            for index in range(workers["replicas"])
        )

    def assert_launcher(self) -> None:
        """Assert that a launcher whose Job tries it again may use the hosts that it finds."""
        for name in self.readable:
            found = self.children.get(ChildKey("StatefulSet", name))
            if found is None:
                continue
            hosts = [f"{name}-{index}" for index in range(found["spec"]["replicas"])]
            if all(host in self.pods and ready(self.pods[host]) for host in hosts):
                assert set(self.granted).issuperset(hosts)

    def leave(self, pod: dict[str, Any]) -> None:
        """A pod ends; its Job counts how, and only then it is gone."""
        if pod["status"]["phase"] in {"Failed", "Succeeded"}:
            del self.pods[pod["metadata"]["name"]]
            return
        pod["metadata"]["deletionTimestamp"] = self.stamp()
        self.end(pod, self.exits_with, finishedAt=self.stamp())

    def nodes_let_go(self) -> None:
        """The Job controller does, when it has counted how a pod ended."""

    @property
    def master_pod(self) -> dict[str, Any]:
        """The newest pod of the master."""
        job = self.children[ChildKey("Job", f"{self.job['metadata']['name']}-master")]
        mine = [pod for pod in self.pods.values() if owner(pod) == job["metadata"]["uid"]]
        return max(mine, key=lambda pod: pod["metadata"]["uid"].rjust(10))
