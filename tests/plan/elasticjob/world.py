"""The simulated cluster of `plan.chainerjob.world` for a kind that creates its pods itself."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec
import yaml

from plan.chainerjob.world import OPTIONS, PLACED, World
from traincrew.plan.elasticjob.planner import plan
from traincrew.plan.shared import podrecords
from traincrew.plan.shared.model import ChildKey, ChildView, Observed, Plan, Refusal

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
    """One ElasticJob and everything around it.

    Pods that are deleted stay until the node has let go of them (`controllers`).
    """

    def __init__(self, manifest: dict[str, Any]) -> None:
        super().__init__(manifest)
        self._plan = partial(plan, options=OPTIONS)
        self.name: str = manifest["metadata"]["name"]

    def observed(
        self, refusals: dict[ChildKey, Refusal] | None = None, *, confirmed: bool = False
    ) -> Observed:
        """What the operator observes."""
        seen = super().observed(refusals, confirmed=confirmed)
        pods: dict[ChildKey, ChildView] = {
            ChildKey("Pod", pod.metadata.name): pod for pod in seen.pods
        }
        return msgspec.structs.replace(seen, children={**seen.children, **pods})

    def _obey(self, plan: Plan) -> dict[ChildKey, Refusal]:
        refusals = super()._obey(plan)
        for key, refusal in super()._obey(Plan(stages=[plan.later])).items():
            refusals[key] = msgspec.structs.replace(refusal, permanent=False)
        return refusals

    def _create(self, key: ChildKey, document: dict[str, Any]) -> None:
        if key.kind != "Pod":
            super()._create(key, document)
            return
        assert key.name not in self.pods, f"{key} exists"
        created = copy.deepcopy(document)
        created["metadata"] |= {
            "uid": f"{next(self._uids):08d}",
            "creationTimestamp": self.stamp(),
        }
        created["status"] = {"phase": "Pending", "conditions": [PLACED], "containerStatuses": []}
        self.pods[key.name] = created
        self.made[key.name] = self.made.get(key.name, 0) + 1

    def _delete(self, key: ChildKey, uid: str) -> None:
        if key.kind != "Pod":
            super()._delete(key, uid)
            return
        pod = self.pods[key.name]
        assert pod["metadata"]["uid"] == uid
        if pod["status"]["phase"] in {"Succeeded", "Failed"}:
            self._assert_known(key.name)
        self.delete(key.name)

    def _assert_known(self, name: str) -> None:
        """Assert that the state of an ended pod was stored before the pod is deleted."""
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
        self.pods[name]["metadata"].setdefault("deletionTimestamp", self.stamp())

    def vanish(self, name: str) -> None:
        """A pod is gone, whatever it was doing."""
        del self.pods[name]

    def controllers(self) -> bool:
        """The nodes let go of pods that are being deleted."""
        leaving = [
            name for name, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"]
        ]
        for name in leaving:
            del self.pods[name]
        return bool(leaving)

    def settle_or_delete(self) -> None:
        """Like `settle`, for a job that may outlive its time to live meanwhile."""
        for _ in range(50):
            changed = self.step()
            if self.deleted:
                return
            changed |= self.controllers()
            if not changed:
                return
        raise AssertionError("the world does not come to rest")

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
