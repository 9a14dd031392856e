"""The status of PodDisruptionBudgets: how many pods may be evicted now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.engine.controller import Controller, Request, own_key
from traincrew.engine.objects import controller_of
from traincrew.engine.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.common import scaled_value, set_condition
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext
from traincrew.local.controllers.informers import NAMESPACE, informer
from traincrew.local.controllers.selectors import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traincrew.engine.controller import Manager, Result
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject


class Scale(Struct, frozen=True):
    """A workload that owns pods, and its desired number of replicas."""

    uid: str
    replicas: int


def budget_status(
    budget: AnyObject, pods: Sequence[AnyObject], scales: Iterable[Scale], now: float
) -> dict[str, Any]:
    """Return the whole status (upstream `pkg/controller/disruption`).

    Args:
        budget: The PodDisruptionBudget.
        pods: Pods its selector matches.
        scales: The workloads those pods belong to.
        now: Seconds since the epoch.

    Raises:
        ValueError: `minAvailable` or `maxUnavailable` is neither a number nor a percentage.
    """
    spec = budget.spec
    pods = [pod for pod in pods if not podutil.is_finished(pod)]
    at_least, at_most = spec.get("minAvailable"), spec.get("maxUnavailable")
    total = sum({scale.uid: scale.replicas for scale in scales}.values())
    if at_most is not None:
        expected = total
        desired = max(0, expected - scaled_value(at_most, expected, round_up=True))
    elif isinstance(at_least, str):
        expected = total
        desired = scaled_value(at_least, expected, round_up=True)
    else:
        expected = len(pods)
        desired = int(at_least or 0)
    disrupted = budget.status.get("disruptedPods") or {}
    healthy = sum(
        podutil.is_ready(pod)
        and not podutil.is_terminating(pod)
        and pod.metadata.name not in disrupted
        for pod in pods
    )
    allowed = max(0, healthy - desired) if expected > 0 else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    conditions = set_condition(
        budget.status.get("conditions"), "DisruptionAllowed", allowed > 0, reason, "", now=now
    )
    for condition in conditions:
        if condition["type"] == "DisruptionAllowed":
            condition["observedGeneration"] = budget.metadata.generation
    return {
        **budget.status,
        "observedGeneration": budget.metadata.generation,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "conditions": conditions,
    }


def add_disruption_controller(manager: Manager, events: EventRecorder) -> None:
    """Keep the status of PodDisruptionBudgets."""
    budgets, pods = informer(manager, POD_DISRUPTION_BUDGETS), informer(manager, PODS)
    workloads = {
        resource.kind: informer(manager, resource)
        for resource in (REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS)
    }
    context = ControllerContext(
        manager.client, events.reporter("controllermanager"), POD_DISRUPTION_BUDGETS
    )

    def scale_of(pod: AnyObject) -> Scale | None:
        """Return the topmost owner of a pod that specifies a number of replicas."""
        found, obj = None, pod
        while (owner := controller_of(obj)) is not None and owner.kind in workloads:
            above = workloads[owner.kind].store.get(pod.metadata.namespace, owner.name)
            if above is None or above.metadata.uid != owner.uid:
                break
            found, obj = Scale(owner.uid, int(above.spec.get("replicas", 1))), above
        return found

    async def reconcile(request: Request) -> Result | None:
        budget = budgets.store.get(*request)
        if budget is None:
            context.forget(request)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        selector = budget.spec.get("selector")
        mine = [
            pod
            for pod in pods.store.by_index(NAMESPACE, request.namespace)
            if matches(selector, pod.metadata.labels)
        ]
        scales = [scale for pod in mine if (scale := scale_of(pod)) is not None]
        status = budget_status(budget, mine, scales, context.now())
        await context.write_status(request, budgets, budget, budget.status, status)
        return None

    def budgets_of(pod: AnyObject) -> list[Request]:
        return [
            Request(pod.metadata.namespace, budget.metadata.name)
            for budget in budgets.store.by_index(NAMESPACE, pod.metadata.namespace)
            if matches(budget.spec.get("selector"), pod.metadata.labels)
        ]

    def budgets_of_workload(obj: AnyObject) -> list[Request]:
        labels = ((obj.spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        return [
            Request(obj.metadata.namespace, budget.metadata.name)
            for budget in budgets.store.by_index(NAMESPACE, obj.metadata.namespace)
            if matches(budget.spec.get("selector"), labels)
        ]

    controller = Controller("disruption", reconcile, workers=1)
    controller.watch(budgets, own_key)
    controller.watch(pods, budgets_of)
    for workload in workloads.values():
        controller.watch(workload, budgets_of_workload)
    manager.add(controller)
