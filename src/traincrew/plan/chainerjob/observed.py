"""The observed state of a ChainerJob: its children by role, and their status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.chainerjob import types as api
from traincrew.api.kinds.chainerjob.definition import DEFINITION
from traincrew.api.kinds.chainerjob.types import MASTER
from traincrew.plan.chainerjob.children import Names
from traincrew.plan.shared import lifecycle, podrecords, pods
from traincrew.plan.shared.masterjob import MasterJob, MasterWords, State
from traincrew.plan.shared.model import ChildKey, Observed
from traincrew.plan.shared.views import ObservedPod, StatefulSetView

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kinds.chainerjob.types import ChainerJobSpec
    from traincrew.plan.shared.lifecycle import Status

NAMED = DEFINITION.containers


class ObservedJob(MasterJob):
    """One job with its children, as a reconcile sees them."""

    definition = DEFINITION
    words = MasterWords(place=MASTER, noun="master")

    def __init__(self, observed: Observed, stored: Status, now: datetime) -> None:
        self.names = Names(observed.job.metadata.name)
        name, success = self.names.master, "The master has completed."
        super().__init__(observed, stored, now, name=name, success=success)

    def by_place(self) -> dict[str, list[ObservedPod]]:
        """Return the existing pods, by the key of their place."""
        found: dict[str, list[ObservedPod]] = {MASTER: self.master_pods} if self.master_pods else {}
        for pod in self.worker_pods:
            found.setdefault(self.place_of(pod), []).append(pod)
        return found

    def place_of(self, worker: ObservedPod) -> str:
        """Return the key of the place of a worker: its set and its index."""
        return worker.metadata.name.removeprefix(self.names.workers(""))

    def waiting_for(self, spec: ChainerJobSpec) -> str | None:
        """Return why the workers are not ready; None when all of them are."""
        ready = total = 0
        complete = True
        names = []
        for name, workers in sorted(spec.worker_sets.items()):
            total += workers.replicas
            key = ChildKey("StatefulSet", self.names.workers(name))
            view = self.observed.child(key, StatefulSetView)
            if workers.replicas == 0:
                continue
            names += [self.names.worker(name, index) for index in range(workers.replicas)]
            if view is None:
                complete = False
                continue
            ready += min(view.status.ready_replicas, workers.replicas)
            complete &= (
                view.spec.replicas == workers.replicas
                and view.is_observed
                and view.status.ready_replicas == workers.replicas
                and view.status.replicas == workers.replicas
            )
        if complete:
            return None
        text = f"{ready}/{total} workers ready"
        troubles = pods.list_not_ready(
            names,
            self.worker_pods,
            self.observed.rejections,
            lambda pod: pods.not_ready_reason(pod, self.now, NAMED),
        )
        return f"{text}; {troubles}" if troubles else text

    def missing_workers(self, spec: ChainerJobSpec) -> dict[str, str]:
        """Return the first missing pod of each existing StatefulSet, with its worker set."""
        there = {pod.metadata.name for pod in self.worker_pods}
        missing = {}
        for name, workers in sorted(spec.worker_sets.items()):
            if ChildKey("StatefulSet", self.names.workers(name)) not in self.observed.children:
                continue
            wanted = (self.names.worker(name, index) for index in range(workers.replicas))
            first = next((each for each in wanted if each not in there), None)
            if first is not None:
                missing[first] = name
        return missing

    def master_state(self, spec: ChainerJobSpec, updated: Status) -> State:
        """Return the state of the master, once it was started."""
        return self.master_progress(
            spec, updated, lambda newest: self._running(spec, updated, newest)
        )

    def _running(self, spec: ChainerJobSpec, updated: Status, newest: ObservedPod) -> State:
        if lost := self._lost_workers(spec, updated):
            return lifecycle.RESTARTING, "WorkersNotReady", lost
        text = "The master is running."
        if total := sum(workers.replicas for workers in spec.worker_sets.values()):
            text = f"The master and {pods.quantity(total, 'worker')} are running."
        if lost_master := pods.list_lost([newest]):
            text = f"{text.rstrip('.')}; {lost_master}"
        return lifecycle.RUNNING, f"{api.KIND}Running", text

    def _lost_workers(self, spec: ChainerJobSpec, updated: Status) -> str:
        """List workers that were ready and no longer are; new workers do not count."""
        ready = {pod.metadata.name for pod in self.worker_pods if pod.ready}
        by_name = {pod.metadata.name: pod for pod in self.worker_pods}
        records = podrecords.read(updated.pod_records)
        lines = []
        for set_name, workers in sorted(spec.worker_sets.items()):
            for index in range(workers.replicas):
                name = self.names.worker(set_name, index)
                record = records.get(f"{set_name}-{index}")
                if record is None or not record.was_ready or name in ready:
                    continue
                pod = by_name.get(name)
                text = pods.not_ready_reason(pod, self.now, NAMED) if pod is not None else "is gone"
                lines.append(f"{name}: {text}" if text else name)
        return "Workers not ready: " + pods.first_few(lines) if lines else ""
