"""What a ReplicaSet does next: (set, its pods, now) -> pods to make and delete, status. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.engine.resources import REPLICA_SETS
from traincrew.local.controllers import pods as facts
from traincrew.local.controllers.common import owner_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.engine.objects import AnyObject

BURST = 500
"""Pods made or deleted in one reconcile (upstream `BurstReplicas`)."""


class Plan(Struct):
    """What to write; `look_again_at` is in seconds since the epoch."""

    create: list[dict[str, Any]] = field(default_factory=list)
    delete: list[AnyObject] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    look_again_at: float | None = None


def plan_replica_set(owner: AnyObject, pods: Sequence[AnyObject], now: float) -> Plan:
    """Decide.

    Args:
        owner: The ReplicaSet.
        pods: All pods it controls.
        now: Seconds since the epoch.
    """
    plan = Plan()
    active = [pod for pod in pods if facts.is_active(pod)]
    wanted = int(owner.spec.get("replicas", 1))
    if owner.metadata.deletion_timestamp is None:
        missing = min(wanted - len(active), BURST)
        if missing > 0:
            plan.create = [_pod_of(owner) for _ in range(missing)]
        elif missing < 0:
            plan.delete = sorted(active, key=facts.removal_order)[: min(-missing, BURST)]
    min_ready = int(owner.spec.get("minReadySeconds") or 0)
    ready = [pod for pod in active if facts.is_ready(pod)]
    available = [pod for pod in ready if facts.is_available(pod, min_ready, now)]
    if len(available) < len(ready):
        plan.look_again_at = min(
            (facts.ready_since(pod) or 0.0) + min_ready for pod in ready if pod not in available
        )
    labels = ((owner.spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    fully = [pod for pod in active if labels.items() <= pod.metadata.labels.items()]
    counters = {
        "fullyLabeledReplicas": len(fully),
        "readyReplicas": len(ready),
        "availableReplicas": len(available),
    }
    kept = {key: value for key, value in owner.status.items() if key not in counters}
    plan.status = kept | {
        "replicas": len(active),
        "observedGeneration": owner.metadata.generation,
        **{key: value for key, value in counters.items() if value},
    }
    return plan


def _pod_of(owner: AnyObject) -> dict[str, Any]:
    return facts.from_template(
        owner.spec.get("template") or {},
        namespace=owner.metadata.namespace,
        owner=owner_reference(owner, REPLICA_SETS),
        generate_name=facts.generated_base(owner.metadata.name),
    )
