"""The simulated cluster with an MPIJob."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
import yaml

from plan.cluster import owner
from plan.world import World
from traincrew.plan.shared import podrecords
from traincrew.plan.shared.model import ChildKey, Plan, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

EXAMPLES = Path(__file__).parent / "examples"
JOB = ChildKey("Job", "pi-launcher")
CONFIG = ChildKey("ConfigMap", "pi-config")


def example(name: str, **spec: Any) -> dict[str, Any]:
    """A manifest of the examples, with further fields of the spec."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    document["spec"].update(spec)
    return document


def pi(workers: int | None = 2, **run: Any) -> dict[str, Any]:
    """A launcher and workers; `run` are fields of the run policy."""
    document = example("pi", runPolicy=run)
    if workers is None:
        del document["spec"]["mpiReplicaSpecs"]["Worker"]
    else:
        document["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    return document


class MPIJobWorld(World):
    """One MPIJob and everything around it; the operator does not watch Secrets."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        super().__init__(manifest)
        self.secrets: set[str] = set()
        self._lost_keys = False

    def _obey(self, plan: Plan) -> dict[ChildKey, Refusal]:
        stages = []
        for stage in plan.stages:
            kept = []
            for write in stage:
                if write.create is None or write.create["kind"] != "Secret":
                    kept.append(write)
                    continue
                assert write.key_pair
                self.secrets.add(write.create["metadata"]["name"])
            stages.append(kept)
        return super()._obey(msgspec.structs.replace(plan, stages=stages))

    def delete_keys(self) -> None:
        """Somebody deletes the Secret, and nobody is told."""
        self.secrets.clear()
        self._lost_keys = True

    def _create(self, key: ChildKey, document: dict[str, Any]) -> None:
        if key.kind in {"Pod", "Job"}:
            assert self.secrets or self._lost_keys, "pods have their keys"
            assert CONFIG in self.children, "the launcher has its hosts"
        super()._create(key, document)
        if key.kind == "Job":
            self.children[key]["spec"].setdefault("backoffLimit", 6)

    def assert_may_delete(self, pod: dict[str, Any]) -> None:
        """Assert that it was stored that the operator ends a worker."""
        key = pod["metadata"]["name"].removeprefix(f"{self.name}-")
        record = podrecords.read(self.status.get("podRecords", {})).get(key)
        ended = self.status["phase"] in {"Succeeded", "Failed"}
        assert ended or (record is not None and record.released) or key.startswith("launcher")

    @property
    def job_of_launcher(self) -> dict[str, Any]:
        """The Job of the launcher."""
        return self.children[JOB]

    @property
    def launcher(self) -> dict[str, Any]:
        """The newest pod of the launcher."""
        uid = self.job_of_launcher["metadata"]["uid"]
        mine = [pod for pod in self.pods.values() if owner(pod) == uid]
        return max(mine, key=lambda pod: pod["metadata"]["name"])

    @property
    def workers(self) -> list[str]:
        """The workers that are there and to stay."""
        return sorted(
            name
            for name, pod in self.pods.items()
            if "-worker-" in name and "deletionTimestamp" not in pod["metadata"]
        )

    @property
    def config(self) -> dict[str, str]:
        """The files of the launcher."""
        found: dict[str, str] = self.children[CONFIG]["data"]
        return found

    def begin(self) -> Self:
        """Until every pod runs."""
        for _ in range(2):
            self.settle()
            self.run()
        self.settle()
        self.pass_time(60)
        return self

    def launcher_exits(self, code: int) -> None:
        """The program of the launcher ends with an exit code."""
        self.end(self.launcher, code, finishedAt=self.stamp())

    def worker_ends(self, index: int, code: int = 1, reason: str = "") -> None:
        """A worker ends, or is evicted."""
        pod = self.pods[f"{self.name}-worker-{index}"]
        self.end(pod, code, finishedAt=self.stamp())
        pod["status"]["reason"] = reason

    def scale(self, workers: int) -> None:
        """Set the desired number of workers."""
        specs = copy.deepcopy(self.job["spec"]["mpiReplicaSpecs"])
        specs["Worker"]["replicas"] = workers
        self.edit(mpiReplicaSpecs=specs)

    def hosts(self) -> list[str]:
        """The hosts of the hostfile, without the rest of their names."""
        return _hosts(line.split() for line in self.config["hostfile"].splitlines())

    def discovered(self) -> list[str]:
        """The hosts of the script, likewise."""
        _, *lines = self.config["discover_hosts.sh"].splitlines()
        return _hosts(line.split()[1:] for line in lines)

    def reasons(self) -> list[str]:
        """Of all events."""
        return [event.reason for event in self.events]


def _hosts(lines: Iterable[list[str]]) -> list[str]:
    return [line[0].partition(".")[0] for line in lines]
