"""What the status of a job says of its phase: one reading for every project's kinds. Pure.

This project's kinds have a phase. Those of others have conditions, each with its own names; JobSet
and Trainer also count Jobs, a batch Job counts pods, and KubeRay has a word.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from traincrew.engine.objects import View
from traincrew.plan.shared.views import PodCondition

__all__ = ["Condition", "Conditions", "CountedJobs", "StatedPhase", "ray_word"]

_CONDITIONS = {
    "Failed": "Failed",
    "Succeeded": "Succeeded",
    "Complete": "Succeeded",
    "Completed": "Succeeded",
    "Suspended": "Suspended",
    "Restarting": "Restarting",
    "RestartingJobSet": "Restarting",
    "Running": "Running",
}
"""Those that tell the phase, and which, the most important one first.

``Complete`` have batch Jobs and TrainJobs, ``Completed`` and ``RestartingJobSet`` JobSets.
"""
_BEFORE = ("StartupPolicyInProgress", "Created")
"""Conditions of a job that has been seen and does not run yet: they tell what it waits for."""
_RAY_WORDS: Final = {
    "Initializing": "Created",
    "Waiting": "Created",
    "Running": "Running",
    "Retrying": "Restarting",
    "Suspending": "Suspended",
    "Suspended": "Suspended",
    "Complete": "Succeeded",
    "Failed": "Failed",
    "ValidationFailed": "Failed",
}
"""The condition that each ``jobDeploymentStatus`` of a RayJob stands for (KubeRay 1.6)."""
_RAY_FAILURES = frozenset({"FAILED", "STOPPED"})

Condition = PodCondition
"""A condition of a pod, a node, a Job or a training job."""


class Conditions(View, frozen=True, gc=False, kw_only=True):
    """A status with conditions."""

    conditions: list[Condition] = field(default_factory=list)

    def condition(self, kind: str) -> Condition | None:
        """Return a condition, whatever it says."""
        return next((one for one in self.conditions if one.type == kind), None)

    def true(self, kind: str) -> Condition | None:
        """Return a condition if it is true."""
        found = self.condition(kind)
        return found if found is not None and found.status == "True" else None

    def false(self, kind: str) -> Condition | None:
        """Return a condition if it is false."""
        found = self.condition(kind)
        return found if found is not None and found.status == "False" else None


class CountedJobs(View, frozen=True, gc=False, kw_only=True):
    """How many Jobs of one replicated job are in which state, as JobSet counts them."""

    name: str = ""
    ready: int = 0
    """Jobs whose pods are all ready, or have succeeded."""
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class StatedPhase(Conditions, frozen=True, gc=False, kw_only=True):
    """The fields of a job's status that tell its phase.

    Attributes:
        phase: The phase, if the operator writes one.
        replicated_jobs_status: What a JobSet counts.
        jobs_status: What a TrainJob counts.
        ready: Pods of a batch Job that are ready.
        active: Pods of a batch Job that have not ended.
    """

    phase: str = ""
    replicated_jobs_status: list[CountedJobs] = field(default_factory=list)
    jobs_status: list[CountedJobs] = field(default_factory=list)
    ready: int = 0
    active: int = 0

    @property
    def counted_jobs(self) -> list[CountedJobs]:
        """The Jobs of a JobSet, or of the JobSet of a TrainJob."""
        return self.replicated_jobs_status or self.jobs_status

    @property
    def leading(self) -> Condition | None:
        """The most important condition that is true, of those that alone tell the phase."""
        return next((one for kind in _CONDITIONS if (one := self.true(kind))), None)

    @property
    def before(self) -> Condition | None:
        """What a job waits for that was seen and does not run, as far as a condition says it."""
        return next((one for kind in _BEFORE if (one := self.true(kind))), None)

    @property
    def told_phase(self) -> str:
        """The phase: its own, else by conditions, else by counts; empty if nothing tells it."""
        if self.phase:
            return self.phase
        if (found := self.leading) is not None:
            return _CONDITIONS[found.type]
        if self.ready > 0 or any(one.ready > 0 for one in self.counted_jobs):
            return "Running"
        is_seen = self.before is not None or self.counted_jobs or self.active > 0
        return "Created" if is_seen else ""

    @property
    def succeeded(self) -> Condition | None:
        """The condition by which a job has succeeded, whatever its project calls it."""
        found = self.leading
        return found if found is not None and _CONDITIONS[found.type] == "Succeeded" else None

    @property
    def restarting(self) -> Condition | None:
        """The condition by which a job is restarted, whatever its project calls it."""
        return self.true("Restarting") or self.true("RestartingJobSet")

    @property
    def end(self) -> str:
        """``Succeeded`` or ``Failed``, also of a batch Job or a Pod; empty before its end."""
        if self.true("Failed") or self.phase == "Failed":
            return "Failed"
        return "Succeeded" if self.succeeded or self.phase == "Succeeded" else ""


def ray_word(deployment: str, job: str) -> str:
    """Return the condition that the status of a RayJob stands for; empty if it is new.

    Args:
        deployment: ``status.jobDeploymentStatus``.
        job: ``status.jobStatus``: what Ray says of the program.
    """
    word = _RAY_WORDS.get(deployment, "")
    return "Failed" if word == "Succeeded" and job in _RAY_FAILURES else word
