"""Plan of a ReplicaSet: (set, its pods, now) -> pods to create and delete, status. Pure.

A ReplicationController is the same with a plain map of labels as its selector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.common import find_condition, owner_reference, set_condition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.engine.objects import AnyObject
    from traincrew.engine.resources import Resource

BURST = 500
"""Pods created or deleted in one reconcile (upstream `BurstReplicas`)."""
FAILURE = "ReplicaFailure"
"""Condition: a pod could not be created or deleted."""


class Plan(Struct):
    """The writes to carry out; `requeue_at` is in seconds since the epoch."""

    create: list[dict[str, Any]] = field(default_factory=list)
    delete: list[AnyObject] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    requeue_at: float | None = None


def selector_of(owner: AnyObject) -> Mapping[str, Any] | None:
    """Return its selector as a `metav1.LabelSelector`, whichever of the two forms it has."""
    selector: Mapping[str, Any] | None = owner.spec.get("selector")
    if selector and not selector.keys() <= {"matchLabels", "matchExpressions"}:
        return {"matchLabels": selector}
    return selector


def plan_replicas(
    owner: AnyObject, resource: Resource, pods: Sequence[AnyObject], now: float
) -> Plan:
    """Plan the next step.

    Args:
        owner: The ReplicaSet or ReplicationController.
        resource: Which of the two kinds it is.
        pods: All pods it controls.
        now: Seconds since the epoch.
    """
    plan = Plan()
    active = [pod for pod in pods if podutil.is_active(pod)]
    wanted = int(owner.spec.get("replicas", 1))
    if owner.metadata.deletion_timestamp is None:
        missing = min(wanted - len(active), BURST)
        if missing > 0:
            plan.create = [_pod_of(owner, resource) for _ in range(missing)]
        elif missing < 0:
            plan.delete = sorted(active, key=podutil.removal_order)[: min(-missing, BURST)]
    min_ready = int(owner.spec.get("minReadySeconds") or 0)
    ready = [pod for pod in active if podutil.is_ready(pod)]
    available = [pod for pod in ready if podutil.is_available(pod, min_ready, now)]
    if len(available) < len(ready):
        plan.requeue_at = min(
            (podutil.ready_since(pod) or 0.0) + min_ready for pod in ready if pod not in available
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
    """Return the status with the condition `ReplicaFailure` set or removed.

    Args:
        status: The status; not modified.
        plan: The plan that was carried out.
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
    return podutil.from_template(
        owner.spec.get("template") or {},
        namespace=owner.metadata.namespace,
        owner=owner_reference(owner, resource),
        generate_name=podutil.generated_base(owner.metadata.name),
    )
