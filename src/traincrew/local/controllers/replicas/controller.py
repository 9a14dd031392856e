"""Reads ReplicaSets, ReplicationControllers and pods, calls `plan`, carries out the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.controller import Controller, Request, Result, own_key, owner_key
from traincrew.engine.errors import is_namespace_terminating
from traincrew.engine.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from traincrew.local.controllers.context import (
    NOT_CURRENT,
    ControllerContext,
    requeue,
)
from traincrew.local.controllers.informers import informer, possible_adopters
from traincrew.local.controllers.replicas.plan import plan_replicas, selector_of, with_failure

if TYPE_CHECKING:
    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.engine.resources import Resource


def add(manager: Manager, events: EventRecorder) -> None:
    """Run ReplicaSets and ReplicationControllers."""
    for resource in (REPLICA_SETS, REPLICATION_CONTROLLERS):
        reconciler = ReplicaReconciler(manager, events, resource)
        controller = Controller(resource.kind.lower(), reconciler.reconcile, workers=4)
        controller.watch(informer(manager, resource), own_key)
        controller.watch(informer(manager, PODS), owner_key(resource.kind, resource.group))
        controller.watch(informer(manager, PODS), reconciler.possible_adopters)
        manager.add(controller)


class ReplicaReconciler:
    """Reconciles one ReplicaSet, or one ReplicationController, at a time."""

    def __init__(self, manager: Manager, events: EventRecorder, resource: Resource) -> None:
        self._resource = resource
        self._owners, self._pods = informer(manager, resource), informer(manager, PODS)
        component = "replicaset-controller" if resource.group else "replication-controller"
        self._context = ControllerContext(manager.client, events.reporter(component), resource)

    def possible_adopters(self, pod: AnyObject) -> list[Request]:
        """Return the workloads that may adopt a pod without controller."""
        return possible_adopters(self._owners, selector_of, pod)

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one of them."""
        context = self._context
        owner = self._owners.store.get(*request)
        if owner is None:
            context.forget(request)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        pods = await context.claim(request, owner, self._pods, selector=selector_of(owner))
        if pods is None:
            return NOT_CURRENT
        plan = plan_replicas(owner, self._resource, pods, context.now())
        errors = await context.run_all(
            [
                *(context.create_pod(request, self._pods, owner, pod) for pod in plan.create),
                *(context.delete_pod(request, self._pods, owner, pod) for pod in plan.delete),
            ]
        )
        errors = [error for error in errors if not is_namespace_terminating(error)]
        status = with_failure(plan.status, plan, str(errors[0]) if errors else "", context.now())
        await context.write_status(request, self._owners, owner, owner.status, status)
        for error in errors:
            raise error
        return requeue(plan.requeue_at, context.now())
