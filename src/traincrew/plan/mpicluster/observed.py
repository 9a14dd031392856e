"""The observed state of an MPICluster: its pods by role, and what they show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.mpicluster.definition import DEFINITION
from traincrew.api.kinds.mpicluster.transport import EXEC
from traincrew.api.kinds.mpicluster.types import KIND, MASTER, ONE_SHOT, WORKER
from traincrew.plan.mpicluster import attempts, hostfile, sshd
from traincrew.plan.mpicluster.children import (
    ANNOTATION_REPLICAS,
    Names,
    master_fingerprint,
    workers_fingerprint,
)
from traincrew.plan.shared import lifecycle, podrecords, pods, stall
from traincrew.plan.shared.model import FINGERPRINT, ChildKey, Observed
from traincrew.plan.shared.views import StatefulSetView

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec
    from traincrew.plan.mpicluster.status import MPIClusterStatus
    from traincrew.plan.shared.views import ObservedPod

REVISION = "controller-revision-hash"
"""Label that the StatefulSet controller gives pods: the version of the template they have."""
MASTER_RESTARTS = "the master is restarted"


class ObservedCluster:
    """One cluster with its children, as a reconcile sees them.

    Args:
        observed: The children.
        stored: The status before.
        spec: The desired state; None if it no longer matters.
        now: The time.
    """

    def __init__(
        self,
        observed: Observed,
        stored: MPIClusterStatus,
        spec: MPIClusterSpec | None,
        now: datetime,
    ) -> None:
        self._now = now
        self.observed = observed
        self.stored = stored
        self.spec = spec
        self.name = observed.job.metadata.name
        self.names = Names(self.name)
        self.records = podrecords.read(stored.pod_records)
        self.set = observed.child(ChildKey("StatefulSet", self.names.workers), StatefulSetView)
        self.master: ObservedPod | None = None
        self.workers: dict[int, ObservedPod] = {}
        uid = self.set.metadata.uid if self.set is not None else ""
        prefix = self.names.worker(0)[:-1]
        for pod in observed.pods:
            owner = pod.metadata.controller
            index = pod.metadata.name.removeprefix(prefix)
            if pod.metadata.name == self.names.master:
                self.master = pod
            elif owner is not None and owner.uid == uid and index.isdecimal():
                self.workers[int(index)] = pod

    # -- the workers --------------------------------------------------------------------------

    @property
    def replicas(self) -> int:
        """The desired number of workers: of the spec or the StatefulSet, what changed later.

        `kubectl scale statefulset` is respected until the number in the spec is changed.
        """
        if self.spec is None:
            return self.set.spec.replicas if self.set is not None else 0
        if self.set is not None and not self.applies_replicas:
            return self.set.spec.replicas
        return self.spec.workers.replicas

    @property
    def applies_replicas(self) -> bool:
        """Whether the number of workers in the spec has changed since it was last applied."""
        assert self.spec is not None
        if self.set is None:
            return True
        applied = self.set.metadata.annotations.get(ANNOTATION_REPLICAS)
        return applied != str(self.spec.workers.replicas)

    @property
    def ready(self) -> list[int]:
        """The indexes of the workers that can be used, in order."""
        wanted = self.replicas
        return sorted(index for index, pod in self.workers.items() if index < wanted and pod.ready)

    @property
    def hostfile(self) -> str:
        """The hostfile for the workers that are ready now."""
        assert self.spec is not None
        return hostfile.text(self.name, self.spec, self.ready)

    def waiting_for(self) -> str | None:
        """Return which workers are not ready, and why; None when all of them are."""
        wanted, ready = self.replicas, len(self.ready)
        if ready == wanted and (self.set is not None or wanted == 0):
            return None
        names = [self.names.worker(index) for index in range(wanted)]
        troubles = pods.list_not_ready(
            names,
            self.workers.values(),
            self.observed.rejections,
            self._not_ready_reason,
        )
        text = f"{ready}/{wanted} workers ready"
        return f"{text}; {troubles}" if troubles else text

    def _not_ready_reason(self, pod: ObservedPod) -> str | None:
        found = pods.not_ready_reason(pod, self._now, DEFINITION.containers)
        return found or (sshd.reason(self.spec, pod, self._now) if self.spec is not None else None)

    def seconds_to_silence(self) -> float | None:
        """Return the seconds until the status reports another pod whose sshd does not answer."""
        if self.spec is None:
            return None
        # A one-shot master is not waited for: its mpiexec reports what is wrong.
        masters = [self.master] if self.master is not None and not self.one_shot else []
        return sshd.seconds_left(self.spec, [*masters, *self.workers.values()], self._now)

    def missing_worker(self) -> str | None:
        """Return the name of the first pod that the StatefulSet has not created yet."""
        if self.set is None:
            return None
        missing = (index for index in range(self.replicas) if index not in self.workers)
        first = next(missing, None)
        return self.names.worker(first) if first is not None else None

    def replaces_template(self, key_secret: str) -> bool:
        """Return whether the template of the StatefulSet has to be replaced, which ends its pods.

        Only an edit of the spec does that: what others change in the StatefulSet stays.
        """
        assert self.spec is not None
        if self.set is None:
            return False
        wanted = workers_fingerprint(self.spec, key_secret)
        return self.set.metadata.annotations.get(FINGERPRINT) != wanted

    def runs_workers_with(self, key_secret: str) -> bool:
        """Return whether there is a StatefulSet with workers that use a Secret of keys.

        Then the Secret was written: it comes before them.
        """
        has_workers = self.set is not None and self.set.spec.replicas > 0
        return has_workers and not self.replaces_template(key_secret)

    # -- places, for the records --------------------------------------------------------------

    def by_place(self) -> dict[str, list[ObservedPod]]:
        """Return the existing pods, by the key of their place."""
        found = {f"{WORKER}-{index}": [pod] for index, pod in self.workers.items()}
        return {MASTER: [self.master], **found} if self.master is not None else found

    def staying(self) -> set[str]:
        """Return the places whose pods were released, and are now certain to stay."""
        return {
            place
            for place, (pod,) in self.by_place().items()
            if podrecords.is_released(self.records, place, pod)
            and pod.metadata.deletion_timestamp is None
            and (place == MASTER or self._worker_stays(pod))
        }

    def _worker_stays(self, pod: ObservedPod) -> bool:
        """Whether the StatefulSet controller has observed the newest spec, and keeps the pod."""
        found, index = self.set, int(pod.metadata.name.rpartition("-")[2])
        return (
            found is not None
            and index < found.spec.replicas
            and found.is_observed
            and pod.metadata.labels.get(REVISION, "") == found.status.update_revision
        )

    # -- the master ---------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Whether the master was started; from then on its start has no time limit."""
        if self.stored.start_time is not None:
            return True
        return self.master is not None and self.master.metadata.deletion_timestamp is None

    @property
    def one_shot(self) -> bool:
        """Whether the cluster ends with its command."""
        return self.spec is not None and self.spec.mode == ONE_SHOT

    @property
    def has_another_template(self) -> bool:
        """Whether the master was older than the last edit of its template."""
        assert self.spec is not None
        if self.master is None:
            return False
        written = self.master.metadata.annotations.get(FINGERPRINT)
        return written is not None and written != master_fingerprint(self.spec)

    @property
    def is_master_unscheduled(self) -> bool:
        """Whether the master's pod has no node yet."""
        pod = self.master
        return pod is not None and pod.status.phase == "Pending" and not pod.spec.node_name

    @property
    def is_stalled(self) -> bool:
        """Whether the master's pod is ended because the command made no progress."""
        return self.master is not None and podrecords.is_stalled(
            self.records, attempts.PLACE, self.master
        )

    def progress(self, failures: int) -> tuple[str, str, str]:
        """Return the true condition (or ""), reason and message, once the master was started.

        Args:
            failures: How often the command has failed.
        """
        pod = self.master
        was_up = self.stored.holds(lifecycle.RUNNING) or self.stored.holds(lifecycle.RESTARTING)
        if self.is_stalled:
            stalled = lifecycle.reported_stall(self.stored) or "The command made no progress"
            return lifecycle.RESTARTING, stall.NO_PROGRESS, f"{stalled}; {MASTER_RESTARTS}"
        # A kubelet may run the command again before its failure was observed: that it failed is
        # stored first.
        unreported = self.one_shot and failures > self.stored.failures
        if pod is not None and self._is_up(pod) and not unreported:
            text = self._running_text()
            if lost := pods.list_lost([pod]):
                text = f"{text.rstrip('.')}; {lost}"
            return lifecycle.RUNNING, f"{KIND}Running", text
        if pod is not None and pod.metadata.deletion_timestamp is not None:
            why = pods.leaving_text(pod)
            text = f"The master's pod is being deleted{why}; another one is created when it is gone"
            return lifecycle.RESTARTING if was_up else "", "MasterLost", text
        if self.one_shot and failures and (pod is None or attempts.failures(pod)):
            return lifecycle.RESTARTING, *self._retry_text(failures)
        if was_up and (pod is None or pod.finished):
            why = f" ({pods.failure(pod, DEFINITION.containers)})" if pod is not None else ""
            text = f"The master's pod is lost{why}; another one is created"
            if pod is None and self.one_shot and (waiting := self.waiting_for()) is not None:
                text = f"The master's pod is lost; another one waits for the workers: {waiting}"
            return lifecycle.RESTARTING, "MasterLost", text
        text = "The master is starting."
        trouble = self._not_ready_reason(pod) if pod is not None else None
        if trouble is not None:
            text = f"The master is not running: {trouble}"
        return lifecycle.RESTARTING if was_up else "", "MasterPending", text

    def _is_up(self, pod: ObservedPod) -> bool:
        """Whether the master can be used, or runs the command."""
        if not self.one_shot:
            return pod.ready
        status = attempts.container(pod)
        return pod.running and status is not None and status.state.running is not None

    def _running_text(self) -> str:
        what = "The command is running on the master" if self.one_shot else "The master"
        if (waiting := self.waiting_for()) is not None:
            return f"{what}{'' if self.one_shot else ' is running'}; {waiting}"
        count = pods.quantity(self.replicas, "worker")
        if self.one_shot:
            return f"{what} and {count}." if self.replicas else f"{what}."
        return f"{what} and {count} are running." if self.replicas else f"{what} is running."

    def _retry_text(self, failures: int) -> tuple[str, str]:
        assert self.spec is not None
        text = f"The command is run again ({failures}/{self.spec.backoff_limit} retries used)"
        if stalled := lifecycle.reported_stall(self.stored):
            return stall.NO_PROGRESS, f"{stalled}; {text[0].lower()}{text[1:]}"
        if self.master is not None and (failure := failure_text(self.spec, self.master)):
            text += f"; last failure: {failure}"
        return "MasterFailed", text


def failure_text(spec: MPIClusterSpec, pod: ObservedPod) -> str:
    """Return how the last attempt that failed in a pod ended; empty if there is none.

    If ssh failed, the text contains the fix as well.
    """
    status, ended = attempts.container(pod), attempts.last_failure(pod)
    if status is None or ended is None:
        return pods.failure(pod, DEFINITION.containers) if pod.status.phase == "Failed" else ""
    where = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
    text = f"pod {pod.metadata.name}{where}: {pods.exit_text(status)}"
    fix = sshd.advice(ended.message) if spec.transport != EXEC else ""
    return f"{text}; {fix}" if fix else text


__all__ = ["MASTER_RESTARTS", "ObservedCluster", "failure_text"]
