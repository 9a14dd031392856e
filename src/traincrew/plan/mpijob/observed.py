"""The observed state of an MPIJob: the Job of its launcher, and its workers by place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.mpijob.definition import DEFINITION
from traincrew.api.kinds.mpijob.types import KIND, LAUNCHER, MPIJobSpec
from traincrew.plan.mpijob.children import Names
from traincrew.plan.shared import lifecycle, pods
from traincrew.plan.shared.masterjob import MasterJob, MasterWords, State

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.views import ObservedPod

NAMED = DEFINITION.containers
RUNNING = f"{KIND}Running"
EVICTED = f"{KIND}Evicted"
WAITING = "WaitingForWorkers"


class ObservedJob(MasterJob):
    """One job with its children, as a reconcile sees them."""

    definition = DEFINITION
    words = MasterWords(place=LAUNCHER, noun="launcher")

    def __init__(self, observed: Observed, stored: Status, now: datetime) -> None:
        metadata = observed.job.metadata
        self.names = Names(metadata.name)
        self.title = f"{KIND} {metadata.namespace}/{metadata.name}"
        success = f"{self.title} successfully completed."
        super().__init__(observed, stored, now, name=self.names.launcher, success=success)
        self.workers = {pod.metadata.name: pod for pod in self.worker_pods}

    def place_of(self, worker: ObservedPod) -> str:
        """Return the key of the place of a worker."""
        return worker.metadata.name.removeprefix(f"{self.names.service}-")

    def wanted(self, spec: MPIJobSpec) -> list[str]:
        """Return the names of the desired workers."""
        return [self.names.worker(index) for index in range(spec.workers)]

    def missing(self, spec: MPIJobSpec) -> list[int]:
        """Return the indexes of the desired workers that do not exist."""
        return [
            index for index in range(spec.workers) if self.names.worker(index) not in self.workers
        ]

    def are_ready(self, spec: MPIJobSpec) -> bool:
        """Return whether all desired workers are ready."""
        found = (self.workers.get(name) for name in self.wanted(spec))
        return all(pod is not None and pod.ready for pod in found)

    @property
    def running_workers(self) -> list[str]:
        """The names of the workers that run."""
        return [name for name, pod in self.workers.items() if pod.status.phase == "Running"]

    @property
    def has_late_pods(self) -> bool:
        """Whether a pod waits too long for its volumes."""
        return any(pods.is_late(pod, self.now) for pod in (*self.master_pods, *self.worker_pods))

    @property
    def evicted(self) -> list[ObservedPod]:
        """The workers that were evicted."""
        return [
            pod
            for pod in self.worker_pods
            if pod.status.phase == "Failed" and pod.status.reason == "Evicted"
        ]

    def troubles(self, spec: MPIJobSpec) -> str:
        """Return how many workers run, and why the others do not; empty if all do."""
        wanted = self.wanted(spec)
        running = len(set(self.running_workers).intersection(wanted))
        if running == len(wanted):
            return ""
        text = f"{running}/{len(wanted)} workers running"
        troubles = pods.list_not_ready(
            wanted,
            self.worker_pods,
            self.observed.rejections,
            lambda pod: pods.not_ready_reason(pod, self.now, NAMED),
        )
        return f"{text}; {troubles}" if troubles else text

    def launcher_state(self, spec: MPIJobSpec, updated: Status) -> State:
        """Return the state of the launcher, once it was started."""
        return self.master_progress(spec.run_policy, updated, lambda pod: self._running(spec, pod))

    def _running(self, spec: MPIJobSpec, launcher: ObservedPod) -> State:
        """Return the state of a job whose launcher runs.

        It runs for the first time when all workers do; from then on the launcher alone decides.
        """
        troubles = self.troubles(spec)
        if troubles and not self.stored.holds(lifecycle.RUNNING):
            return "", WAITING, f"The launcher waits for the workers: {troubles}"
        text = f"{self.title} is running."
        lost = pods.list_lost([launcher])
        return lifecycle.RUNNING, RUNNING, " ".join(filter(None, (text, troubles, lost)))
