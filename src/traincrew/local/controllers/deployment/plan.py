"""Plan of a Deployment: (deployment, its ReplicaSets, now) -> ReplicaSets, status. Pure.

One step per call, as upstream (`pkg/controller/deployment`): each change of a ReplicaSet triggers
the next call. Not implemented: proportional scaling of several ReplicaSets during a rollout; the
rollout continues towards the new number instead, and ends in the same state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.engine.resources import DEPLOYMENTS
from traincrew.local.controllers.common import (
    find_condition,
    owner_reference,
    parse_time,
    scaled_value,
    set_condition,
    short_hash,
)
from traincrew.local.controllers.writes import Event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.engine.objects import AnyObject

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NO_DEADLINE = 2**31 - 1


class Scaling(Struct):
    """A ReplicaSet and its desired number of replicas."""

    replica_set: AnyObject
    replicas: int


class Plan(Struct):
    """The writes to carry out.

    Attributes:
        create: The new ReplicaSet, or None.
        scale: ReplicaSets to resize.
        renumber: The ReplicaSet whose revision annotation is to be set to `revision`, or None.
        revision: Revision of the Deployment.
        delete: ReplicaSets beyond the history limit.
        status: The whole new status.
        events: Events to record after the writes.
        requeue_at: Seconds since the epoch, or None.
    """

    create: dict[str, Any] | None = None
    scale: list[Scaling] = field(default_factory=list)
    renumber: AnyObject | None = None
    revision: str = ""
    delete: list[AnyObject] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    requeue_at: float | None = None


def plan_deployment(
    owner: AnyObject, replica_sets: Sequence[AnyObject], old_pods: int, now: float
) -> Plan:
    """Plan the next step of a Deployment.

    Args:
        owner: The Deployment.
        replica_sets: The ReplicaSets it controls.
        old_pods: Unfinished pods of ReplicaSets other than the new one; `Recreate` waits for them.
        now: Seconds since the epoch.
    """
    return _Decision(owner, replica_sets, old_pods, now).make()


def new_replica_set(owner: AnyObject, replica_sets: Sequence[AnyObject]) -> AnyObject | None:
    """Return the oldest ReplicaSet that was created from the current template."""
    wanted = _bare(owner.spec.get("template") or {})
    same = [item for item in replica_sets if _bare(item.spec.get("template") or {}) == wanted]
    return min(same, key=_age, default=None)


class _Decision:
    """The state of one call of `plan_deployment`."""

    def __init__(
        self, owner: AnyObject, replica_sets: Sequence[AnyObject], old_pods: int, now: float
    ) -> None:
        self.owner, self.now, self.old_pods = owner, now, old_pods
        self.sets = sorted(replica_sets, key=_age)
        self.new = new_replica_set(owner, self.sets)
        self.old = [item for item in self.sets if item is not self.new]
        self.replicas = int(owner.spec.get("replicas", 1))
        strategy = owner.spec.get("strategy") or {}
        self.recreate = strategy.get("type") == "Recreate"
        rolling = strategy.get("rollingUpdate") or {}
        self.surge = scaled_value(rolling.get("maxSurge", "25%"), self.replicas, round_up=True)
        self.unavailable = min(
            self.replicas,
            scaled_value(rolling.get("maxUnavailable", "25%"), self.replicas, round_up=False),
        )
        if not self.surge and not self.unavailable:
            self.unavailable = 1
        if self.recreate:
            self.surge, self.unavailable = 0, self.replicas
        self.wants = {item.metadata.uid: _wants(item) for item in self.sets}
        self.plan = Plan()

    def make(self) -> Plan:
        """Scale, set revisions, prune the history and compute the status."""
        if self.owner.metadata.deletion_timestamp is None:
            self._number()
            if self.owner.spec.get("paused"):
                self._resize_paused()
            elif self.recreate:
                self._recreate()
            else:
                self._roll()
            self._prune_history()
        self._report()
        return self.plan

    # -- sizes -------------------------------------------------------------------------------

    def _recreate(self) -> None:
        for item in self.old:
            self._scale(item, 0)
        if self.old_pods == 0 and not any(self.wants[item.metadata.uid] for item in self.old):
            self._scale_new(self.replicas)

    def _resize_paused(self) -> None:
        active = [item for item in self.sets if _wants(item)]
        if len(active) <= 1 and (active or self.new is not None):
            self._scale(active[0] if active else self.new, self.replicas)

    def _roll(self) -> None:
        current = _wants(self.new) if self.new is not None else 0
        if current > self.replicas:
            self._scale_new(self.replicas)
            return
        room = self.replicas + self.surge - sum(self.wants.values())
        grown = current + max(0, min(room, self.replicas - current))
        if self.new is None or grown != current:
            self._scale_new(grown)
            return
        self._shrink_old()

    def _shrink_old(self) -> None:
        """Remove old pods as long as enough remain available; unhealthy ones first."""
        new_wants = _wants(self.new) if self.new is not None else 0
        new_available = _status(self.new, "availableReplicas") if self.new is not None else 0
        minimum = self.replicas - self.unavailable
        spare = sum(self.wants.values()) - minimum - (new_wants - new_available)
        if spare <= 0:
            return
        for item in self.old:
            broken = max(0, _wants(item) - _status(item, "availableReplicas"))
            take = min(spare, broken)
            if take:
                self._scale(item, self.wants[item.metadata.uid] - take)
                spare -= take
        available = sum(_status(item, "availableReplicas") for item in self.sets)
        surplus = min(spare, available - minimum)
        for item in self.old:
            take = min(surplus, self.wants[item.metadata.uid])
            if take > 0:
                self._scale(item, self.wants[item.metadata.uid] - take)
                surplus -= take

    def _scale_new(self, replicas: int) -> None:
        if self.new is not None:
            self._scale(self.new, replicas)
            return
        self.plan.create = self._document(replicas)
        name = self.plan.create["metadata"]["name"]
        text = f"Scaled up replica set {name} from 0 to {replicas}"
        self.plan.events.append(Event("ScalingReplicaSet", text))

    def _scale(self, item: AnyObject | None, replicas: int) -> None:
        if item is None:
            return
        before = self.wants[item.metadata.uid]
        if before == replicas:
            return
        self.wants[item.metadata.uid] = replicas
        for known in self.plan.scale:
            if known.replica_set is item:
                known.replicas = replicas
                break
        else:
            self.plan.scale.append(Scaling(item, replicas))
        direction = "up" if replicas > before else "down"
        text = f"Scaled {direction} replica set {item.metadata.name} from {before} to {replicas}"
        self.plan.events.append(Event("ScalingReplicaSet", text))

    # -- names and history -------------------------------------------------------------------

    def _number(self) -> None:
        highest = max((_revision(item) for item in self.old), default=0)
        if self.new is None:
            self.plan.revision = str(highest + 1)
        elif _revision(self.new) > highest:
            self.plan.revision = str(_revision(self.new))
        else:
            self.plan.revision = str(highest + 1)
            self.plan.renumber = self.new

    def _document(self, replicas: int) -> dict[str, Any]:
        owner = self.owner
        template = owner.spec.get("template") or {}
        meta = template.get("metadata") or {}
        digest = short_hash(owner.metadata.uid, template)
        labels = {**(meta.get("labels") or {}), HASH: digest}
        selector = owner.spec.get("selector") or {}
        annotations = {
            key: value for key, value in owner.metadata.annotations.items() if key != _LAST_APPLIED
        }
        spec: dict[str, Any] = {
            "replicas": replicas,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest},
            },
            "template": {**template, "metadata": {**meta, "labels": labels}},
        }
        if owner.spec.get("minReadySeconds"):
            spec["minReadySeconds"] = owner.spec["minReadySeconds"]
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{owner.metadata.name}-{digest}",
                "namespace": owner.metadata.namespace,
                "labels": labels,
                "annotations": annotations | {REVISION: self.plan.revision},
                "ownerReferences": [owner_reference(owner, DEPLOYMENTS)],
            },
            "spec": spec,
        }

    def _prune_history(self) -> None:
        if not self._is_complete():
            return
        limit = int(self.owner.spec.get("revisionHistoryLimit", 10))
        empty = [
            item
            for item in sorted(self.old, key=_revision)
            if not _wants(item)
            and not _status(item, "replicas")
            and item.metadata.deletion_timestamp is None
        ]
        self.plan.delete = empty[: max(0, len(empty) - limit)]

    # -- status ------------------------------------------------------------------------------

    def _is_complete(self) -> bool:
        return (
            self.new is not None
            and not self.plan.scale
            and _status(self.new, "replicas") == self.replicas
            and _status(self.new, "availableReplicas") == self.replicas
            and sum(_status(item, "replicas") for item in self.sets) == self.replicas
        )

    def _report(self) -> None:
        total = {
            key: sum(_status(item, key) for item in self.sets)
            for key in ("replicas", "readyReplicas", "availableReplicas")
        }
        updated = _status(self.new, "replicas") if self.new is not None else 0
        available = total["availableReplicas"]
        counters = {
            **total,
            "updatedReplicas": updated,
            "unavailableReplicas": max(0, sum(self.wants.values()) - available),
        }
        status = {key: value for key, value in self.owner.status.items() if key not in counters}
        status |= {key: value for key, value in counters.items() if value}
        status["observedGeneration"] = self.owner.metadata.generation
        status["conditions"] = self._conditions(available, counters)
        self.plan.status = status

    def _conditions(self, available: int, counters: Mapping[str, int]) -> list[dict[str, Any]]:
        enough = available >= self.replicas - self.unavailable
        reason, verb = (
            ("MinimumReplicasAvailable", "has")
            if enough
            else ("MinimumReplicasUnavailable", "does not have")
        )
        conditions = set_condition(
            self.owner.status.get("conditions"),
            "Available",
            enough,
            reason,
            f"Deployment {verb} minimum availability.",
            now=self.now,
            extra_times=("lastUpdateTime",),
        )
        progress = self._progress(counters)
        if progress is None:
            return conditions
        going, reason, message = progress
        return set_condition(
            conditions,
            "Progressing",
            going,
            reason,
            message,
            now=self.now,
            extra_times=("lastUpdateTime",),
        )

    def _progress(self, counters: Mapping[str, int]) -> tuple[bool, str, str] | None:
        """Return status, reason and message of the condition Progressing; None keeps it."""
        seconds = int(self.owner.spec.get("progressDeadlineSeconds", 600))
        if seconds >= _NO_DEADLINE:
            return None
        if self.new is None:
            name = (self.plan.create or {}).get("metadata", {}).get("name", "")
            if not name:
                return None
            return True, "NewReplicaSetCreated", f'Created new replica set "{name}"'
        name = self.new.metadata.name
        if self._is_complete():
            text = f'ReplicaSet "{name}" has successfully progressed.'
            return True, "NewReplicaSetAvailable", text
        known = find_condition(self.owner.status.get("conditions"), "Progressing")
        before = self.owner.status
        moved = any(
            counters[key] > int(before.get(key) or 0)
            for key in ("updatedReplicas", "readyReplicas", "availableReplicas")
        ) or counters["replicas"] - counters["updatedReplicas"] < int(
            before.get("replicas") or 0
        ) - int(before.get("updatedReplicas") or 0)
        if known is None or moved or self.plan.scale:
            self._requeue_at(self.now + seconds)
            return True, "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'
        if known.get("reason") in {"NewReplicaSetAvailable", "ProgressDeadlineExceeded"}:
            return None
        limit = parse_time(known.get("lastUpdateTime") or known["lastTransitionTime"]) + seconds
        if limit <= self.now:
            text = f'ReplicaSet "{name}" has timed out progressing.'
            return False, "ProgressDeadlineExceeded", text
        self._requeue_at(limit)
        return None

    def _requeue_at(self, moment: float) -> None:
        self.plan.requeue_at = moment


def _wants(item: AnyObject) -> int:
    return int(item.spec.get("replicas", 1))


def _status(item: AnyObject, key: str) -> int:
    return int(item.status.get(key) or 0)


def _revision(item: AnyObject) -> int:
    value = item.metadata.annotations.get(REVISION, "0")
    return int(value) if value.isdigit() else 0


def _age(item: AnyObject) -> tuple[str, str]:
    return (item.metadata.creation_timestamp, item.metadata.name)


def _bare(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template without the label that only those of ReplicaSets have."""
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH}
    rest = {key: value for key, value in meta.items() if key not in {"labels", "creationTimestamp"}}
    return {**template, "metadata": rest | ({"labels": labels} if labels else {})}
