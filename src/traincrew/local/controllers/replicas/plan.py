"""What a ReplicaSet does next: (set, its pods, now) -> pods to make and delete, status. Pure.

A ReplicationController is the same thing with a plain map of labels for a selector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.local.controllers import pods as facts
from traincrew.local.controllers.common import find_condition, owner_reference, set_condition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.engine.objects import AnyObject
    from traincrew.engine.resources import Resource

BURST = 500
"""Pods made or deleted in one reconcile (upstream `BurstReplicas`)."""
FAILURE = "ReplicaFailure"
"""Condition: a pod could not be made or deleted."""


class Plan(Struct):
    """What to write; `look_again_at` is in seconds since the epoch."""

    create: list[dict[str, Any]] = field(default_factory=list)
    delete: list[AnyObject] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    look_again_at: float | None = None


def selector_of(owner: AnyObject) -> Mapping[str, Any] | None:
    """Its selector as a `metav1.LabelSelector`, whichever of the two shapes it has."""
    selector: Mapping[str, Any] | None = owner.spec.get("selector")
    if selector and not selector.keys() <= {"matchLabels", "matchExpressions"}:
        return {"matchLabels": selector}
    return selector


def plan_replicas(
    owner: AnyObject, resource: Resource, pods: Sequence[AnyObject], now: float
) -> Plan:
    """Decide.

    Args:
        owner: The ReplicaSet or ReplicationController.
        resource: Which of the two it is.
        pods: All pods it controls.
        now: Seconds since the epoch.
    """
    plan = Plan()
    active = [pod for pod in pods if facts.is_active(pod)]
    wanted = int(owner.spec.get("replicas", 1))
    if owner.metadata.deletion_timestamp is None:
        missing = min(wanted - len(active), BURST)
        if missing > 0:
            plan.create = [_pod_of(owner, resource) for _ in range(missing)]
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


def with_failure(status: Mapping[str, Any], plan: Plan, error: str, now: float) -> dict[str, Any]:
    """The status with the condition `ReplicaFailure` there or gone.

    Args:
        status: To add it to; not changed.
        plan: What was tried.
        error: Why some of it failed; empty when nothing did.
        now: Seconds since the epoch.
    """
    conditions = status.get("conditions")
    if not error:
        kept = [item for item in conditions or () if item.get("type") != FAILURE]
        rest = {key: value for key, value in status.items() if key != "conditions"}
        return rest | ({"conditions": kept} if kept else {})
    if find_condition(conditions, FAILURE) is not None:
        return dict(status)
    reason = "FailedCreate" if plan.create else "FailedDelete"
    failed = set_condition(conditions, FAILURE, True, reason, error, now=now)
    return {**status, "conditions": failed}


def _pod_of(owner: AnyObject, resource: Resource) -> dict[str, Any]:
    return facts.from_template(
        owner.spec.get("template") or {},
        namespace=owner.metadata.namespace,
        owner=owner_reference(owner, resource),
        generate_name=facts.generated_base(owner.metadata.name),
    )
