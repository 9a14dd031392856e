"""Plan of a StatefulSet: (set, its pods, revisions, now) -> pods, status, events. Pure.

The rules are upstream's (`pkg/controller/statefulset/stateful_set_control.go`):

- Pods have identities: a failed or finished pod is deleted and recreated under the same name.
- `OrderedReady` creates one pod at a time, each only when all before it are ready; `Parallel`
  creates and deletes all at once.
- Scaling down deletes the highest ordinal first.
- A rolling update deletes the highest ordinal that has an old revision, waits until its successor
  is healthy, and stops at the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.revisions import REVISION_LABEL
from traincrew.local.controllers.statefulset.identity import (
    first_ordinal,
    missing_labels,
    ordinal_of,
    pod_of,
)
from traincrew.local.controllers.writes import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.statefulset.revisions import Revisions


class Creation(Struct):
    """A pod to create, once its claims exist."""

    ordinal: int
    pod: dict[str, Any]


class Plan(Struct):
    """The writes to carry out.

    Attributes:
        create: Pods to create.
        delete: Pods to delete.
        scaled_down: Those of `delete` whose ordinal is out of range.
        relabel: Pods and the identity labels they lack.
        status: The whole new status, once everything is written.
        observed: The status to write if a write fails.
        events: Events to record after the writes.
        requeue_at: Seconds since the epoch, or None.
    """

    create: list[Creation] = field(default_factory=list)
    delete: list[AnyObject] = field(default_factory=list)
    scaled_down: list[AnyObject] = field(default_factory=list)
    relabel: list[tuple[AnyObject, dict[str, str]]] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    observed: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    requeue_at: float | None = None


def plan_stateful_set(
    owner: AnyObject, pods: Sequence[AnyObject], revisions: Revisions, now: float
) -> Plan:
    """Plan the next step of a StatefulSet.

    Args:
        owner: The StatefulSet.
        pods: All pods it controls.
        revisions: Its current and update revisions.
        now: Seconds since the epoch.
    """
    return _Decision(owner, pods, revisions, now).make()


class _Decision:
    """The state of one call of `plan_stateful_set`."""

    def __init__(
        self, owner: AnyObject, pods: Sequence[AnyObject], revisions: Revisions, now: float
    ) -> None:
        spec = owner.spec
        self.owner, self.revisions, self.now = owner, revisions, now
        self.plan = Plan()
        self.replicas = int(spec.get("replicas", 1))
        self.start = first_ordinal(owner)
        self.ordered = spec.get("podManagementPolicy", "OrderedReady") != "Parallel"
        self.min_ready = int(spec.get("minReadySeconds") or 0)
        strategy = spec.get("updateStrategy") or {}
        self.rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        rolling = strategy.get("rollingUpdate")
        self.partition = None if rolling is None else int(rolling.get("partition") or 0)
        self.by_ordinal: dict[int, AnyObject] = {}
        for pod in pods:
            ordinal = ordinal_of(owner, pod.metadata.name)
            if ordinal is not None:
                self.by_ordinal[ordinal] = pod
        self.wanted = range(self.start, self.start + self.replicas)
        self.status = self._status()
        self.plan.observed = _clean(self.status)

    def make(self) -> Plan:
        """Compute the status, then create, delete and update what the order permits."""
        if self.owner.metadata.deletion_timestamp is None and self._fill() and self._shrink():
            self._update()
        self._complete_update()
        self.plan.status = _clean(self.status)
        return self.plan

    def _fill(self) -> bool:
        """Create missing pods; False if the order requires to wait."""
        for ordinal in self.wanted:
            pod = self.by_ordinal.get(ordinal)
            if pod is None:
                self._create(ordinal)
                if self.ordered:
                    return False
                continue
            if podutil.is_finished(pod):
                self._replace(pod)
                if self.ordered:
                    return False
                continue
            if self.ordered and (podutil.is_terminating(pod) or not self._is_available(pod)):
                return False
            labels = missing_labels(self.owner, pod, ordinal)
            if labels and not podutil.is_terminating(pod):
                self.plan.relabel.append((pod, labels))
        return not (self.plan.create or self.plan.delete)

    def _shrink(self) -> bool:
        """Delete surplus pods, the highest ordinal first; False if the order requires to wait."""
        condemned = sorted(set(self.by_ordinal) - set(self.wanted), reverse=True)
        if not condemned:
            return True
        # The first unhealthy pod may be deleted, or it would block the others for ever.
        sick = next((item for item in sorted(self.by_ordinal) if not self._is_healthy(item)), None)
        for ordinal in condemned:
            pod = self.by_ordinal[ordinal]
            if podutil.is_terminating(pod):
                if self.ordered:
                    return False
                continue
            if self.ordered and ordinal != sick and not self._is_available(pod):
                return False
            self.plan.delete.append(pod)
            self.plan.scaled_down.append(pod)
            self._gone(pod)
            if self.ordered:
                return False
        return True

    def _update(self) -> None:
        """Delete the highest pod of an old revision; its successor gets the new one."""
        if not self.rolling:
            return
        lowest = self.start + (self.partition or 0)
        for ordinal in reversed(self.wanted):
            if ordinal < lowest:
                return
            pod = self.by_ordinal.get(ordinal)
            if pod is None:
                return
            if _revision(pod) != self.revisions.update and not podutil.is_terminating(pod):
                self.plan.delete.append(pod)
                self._gone(pod)
                return
            if not self._is_healthy(ordinal) or not self._is_available(pod):
                return

    # -- pods --------------------------------------------------------------------------------

    def _create(self, ordinal: int) -> None:
        revision = self.revisions.current if self._keeps_old(ordinal) else self.revisions.update
        template = self.revisions.templates[revision]
        pod = pod_of(self.owner, ordinal, template, revision)
        self.plan.create.append(Creation(ordinal, pod))
        self.status["replicas"] += 1
        if revision == self.revisions.current:
            self.status["currentReplicas"] += 1
        if revision == self.revisions.update:
            self.status["updatedReplicas"] += 1

    def _keeps_old(self, ordinal: int) -> bool:
        """Return whether a recreated pod still gets the revision from before the update."""
        if not self.rolling:
            return False
        if self.partition is None:
            return ordinal < self.start + int(self.owner.status.get("currentReplicas") or 0)
        return ordinal < self.start + self.partition

    def _replace(self, pod: AnyObject) -> None:
        if podutil.is_terminating(pod):
            return
        where = f"{self.owner.metadata.namespace}/{self.owner.metadata.name}"
        if podutil.phase(pod) == "Failed":
            event = Event(
                "RecreatingFailedPod",
                f"StatefulSet {where} is recreating failed Pod {pod.metadata.name}",
                "Warning",
            )
        else:
            event = Event(
                "RecreatingTerminatedPod",
                f"StatefulSet {where} is recreating terminated Pod {pod.metadata.name}",
            )
        self.plan.events.append(event)
        self.plan.delete.append(pod)

    def _is_available(self, pod: AnyObject) -> bool:
        if podutil.phase(pod) != "Running" or not podutil.is_ready(pod):
            return False
        if podutil.is_available(pod, self.min_ready, self.now):
            return True
        self._requeue_at((podutil.ready_since(pod) or 0.0) + self.min_ready)
        return False

    def _is_healthy(self, ordinal: int) -> bool:
        pod = self.by_ordinal[ordinal]
        return (
            podutil.phase(pod) == "Running"
            and podutil.is_ready(pod)
            and not podutil.is_terminating(pod)
        )

    def _requeue_at(self, moment: float) -> None:
        known = self.plan.requeue_at
        self.plan.requeue_at = moment if known is None else min(known, moment)

    # -- status ------------------------------------------------------------------------------

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            **self.owner.status,
            "observedGeneration": self.owner.metadata.generation,
            "replicas": len(self.by_ordinal),
            "readyReplicas": 0,
            "availableReplicas": 0,
            "currentReplicas": 0,
            "updatedReplicas": 0,
            "currentRevision": self.revisions.current,
            "updateRevision": self.revisions.update,
            "collisionCount": int(self.owner.status.get("collisionCount") or 0),
        }
        for pod in self.by_ordinal.values():
            if podutil.phase(pod) == "Running" and podutil.is_ready(pod):
                status["readyReplicas"] += 1
                status["availableReplicas"] += self._is_available(pod)
            if not podutil.is_terminating(pod):
                status["currentReplicas"] += _revision(pod) == self.revisions.current
                status["updatedReplicas"] += _revision(pod) == self.revisions.update
        return status

    def _gone(self, pod: AnyObject) -> None:
        if _revision(pod) == self.revisions.current:
            self.status["currentReplicas"] -= 1
        if _revision(pod) == self.revisions.update:
            self.status["updatedReplicas"] -= 1

    def _complete_update(self) -> None:
        """Make the new revision the current one, once every pod has it."""
        status = self.status
        if (
            self.rolling
            and status["updatedReplicas"] == status["replicas"] == self.replicas
            and status["readyReplicas"] == self.replicas
        ):
            status["currentReplicas"] = status["updatedReplicas"]
            status["currentRevision"] = status["updateRevision"]


def _revision(pod: AnyObject) -> str:
    return pod.metadata.labels.get(REVISION_LABEL, "")


def _clean(status: dict[str, Any]) -> dict[str, Any]:
    """Omit those counters at zero that upstream's encoding omits."""
    optional = {"readyReplicas", "currentReplicas", "updatedReplicas"}
    return {key: value for key, value in status.items() if value or key not in optional}
