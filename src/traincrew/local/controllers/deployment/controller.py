"""Reads Deployments and their ReplicaSets, calls `plan`, and carries out the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.controller import Controller, Request, Result, own_key, owner_key
from traincrew.engine.objects import controller_of
from traincrew.engine.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext, requeue
from traincrew.local.controllers.deployment.plan import (
    REVISION,
    new_replica_set,
    plan_deployment,
)
from traincrew.local.controllers.informers import CONTROLLER, informer

if TYPE_CHECKING:
    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.deployment.plan import Plan


def add(manager: Manager, events: EventRecorder) -> None:
    """Run Deployments."""
    deployments = DeploymentReconciler(manager, events)
    controller = Controller("deployment", deployments.reconcile, workers=2)
    controller.watch(informer(manager, DEPLOYMENTS), own_key)
    controller.watch(informer(manager, REPLICA_SETS), owner_key("Deployment", "apps"))
    controller.watch(informer(manager, PODS), deployments.waiting_for)
    manager.add(controller)


class DeploymentReconciler:
    """Reconciles one Deployment at a time."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._deployments = informer(manager, DEPLOYMENTS)
        self._sets, self._pods = informer(manager, REPLICA_SETS), informer(manager, PODS)
        self._context = ControllerContext(
            manager.client, events.reporter("deployment-controller"), DEPLOYMENTS
        )

    def waiting_for(self, pod: AnyObject) -> list[Request]:
        """Return the Deployment that waits for this pod of an old ReplicaSet (`Recreate`)."""
        owner = controller_of(pod)
        if owner is None or owner.kind != "ReplicaSet":
            return []
        above = self._sets.store.get(pod.metadata.namespace, owner.name)
        if above is None or int(above.spec.get("replicas", 1)):
            return []
        deployment = controller_of(above)
        return [Request(pod.metadata.namespace, deployment.name)] if deployment else []

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one Deployment."""
        context = self._context
        owner = self._deployments.store.get(*request)
        if owner is None:
            context.forget(request)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        sets = await context.claim(request, owner, self._sets)
        if sets is None:
            return NOT_CURRENT
        new = new_replica_set(owner, sets)
        old_pods = sum(
            not podutil.is_finished(pod)
            for item in sets
            if item is not new
            for pod in self._pods.store.by_index(CONTROLLER, item.metadata.uid)
        )
        plan = plan_deployment(owner, sets, old_pods, context.now())
        await self._carry_out(request, owner, plan)
        return requeue(plan.requeue_at, context.now())

    async def _carry_out(self, request: Request, owner: AnyObject, plan: Plan) -> None:
        context = self._context
        if plan.create is not None:
            await context.create(request, self._sets, plan.create)
        if plan.renumber is not None:
            annotations = {"annotations": {REVISION: plan.revision}}
            await context.patch(request, self._sets, plan.renumber, {"metadata": annotations})
        for scaling in plan.scale:
            spec = {"replicas": scaling.replicas}
            await context.patch(request, self._sets, scaling.replica_set, {"spec": spec})
        for item in plan.delete:
            await context.delete(request, self._sets, item)
        context.record(owner, *plan.events)
        if plan.revision and owner.metadata.annotations.get(REVISION) != plan.revision:
            patch = {"metadata": {"annotations": {REVISION: plan.revision}}}
            await context.patch(request, self._deployments, owner, patch)
        await context.write_status(request, self._deployments, owner, owner.status, plan.status)
