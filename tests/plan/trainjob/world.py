"""The simulated cluster with a TrainJob, and a controller that makes pods of its JobSet."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Self

import yaml

from plan.world import World
from traincrew.api.kinds.trainjob.runtime import definitions
from traincrew.api.kinds.trainjob.shipped import RUNTIMES
from traincrew.plan.shared.model import ChildKey, ObjectKey

EXAMPLES = Path(__file__).parent / "examples"
KINDS = tuple(each.kind for each in definitions())
TORCH = "torch-distributed"


def runtime(name: str) -> dict[str, Any]:
    """A runtime that Trainer installs."""
    return copy.deepcopy(next(each for each in RUNTIMES if each["metadata"]["name"] == name))


def example(name: str) -> list[dict[str, Any]]:
    """A job of the examples, and its runtime, if that is none of Trainer's."""
    return list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))


def trained(name: str = TORCH, *, kind: str = KINDS[0], **spec: Any) -> dict[str, Any]:
    """A job with a runtime."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "digits"},
        "spec": {"runtimeRef": {"name": name, "kind": kind}, **copy.deepcopy(spec)},
    }


class TrainJobWorld(World):
    """One TrainJob and everything around it."""

    key = ChildKey("JobSet", "digits")
    active = 0
    """What the JobSet counts of each of its replicated jobs."""

    def __init__(self, manifest: dict[str, Any], *runtimes: dict[str, Any]) -> None:
        super().__init__(manifest)
        for each in (*RUNTIMES, *runtimes):
            self.objects[ObjectKey(each["kind"], each["metadata"]["name"])] = copy.deepcopy(each)

    @property
    def jobset(self) -> dict[str, Any]:
        """The JobSet."""
        return self.children[self.key]

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        """Its replicated jobs, by name."""
        return {job["name"]: job for job in self.jobset["spec"]["replicatedJobs"]}

    def is_suspended(self) -> bool:
        """Whether the JobSet is."""
        return bool(self.jobset["spec"]["suspend"])

    def controllers(self) -> bool:
        """JobSets have their pods, or none while they are suspended."""
        changed = super().controllers()
        found = self.children.get(self.key)
        if found is None:
            return changed
        before = (sorted(self.pods), copy.deepcopy(found.get("status")))
        uid = found["metadata"]["uid"]
        if found["spec"]["suspend"]:
            self.pods = {}
        elif not self._ended(found):
            for job in self.jobs.values():
                for index in range(job["template"]["spec"]["parallelism"]):
                    self._member(f"digits-{job['name']}-0-{index}", job, uid)
        counts = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        counts["active"] = self.active
        status = found.setdefault("status", {})
        status["replicatedJobsStatus"] = [{"name": name, **counts} for name in self.jobs]
        return changed or before != (sorted(self.pods), status)

    def _ended(self, found: dict[str, Any]) -> bool:
        return bool(found.get("status", {}).get("conditions"))

    def _member(self, name: str, job: dict[str, Any], uid: str) -> None:
        if name not in self.pods:
            template = copy.deepcopy(job["template"]["spec"]["template"])
            template.setdefault("metadata", {}).setdefault("labels", {})
            self._pod(name, "JobSet", "digits", uid, {"spec": {"template": template}})
            labels = {"jobset.sigs.k8s.io/replicatedjob-name": job["name"]}
            self.pods[name]["metadata"]["labels"] = labels

    def begin(self) -> Self:
        """Until every pod runs."""
        self.settle()
        self.run()
        self.settle()
        return self

    def says(self, kind: str, reason: str, message: str) -> None:
        """The JobSet has ended."""
        self.jobset.setdefault("status", {})["conditions"] = [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": self.stamp(),
            }
        ]
        self.settle()

    def env(self, job: str = "node") -> dict[str, Any]:
        """The variables of the first container of a replicated job, by name."""
        (container, *_) = self.jobs[job]["template"]["spec"]["template"]["spec"]["containers"]
        return {each["name"]: each.get("value") for each in container.get("env", [])}
