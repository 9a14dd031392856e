"""Reads Deployments and their ReplicaSets, asks the pure half, writes what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.controller import Controller, Request, Result, own_key, owner_key
from traincrew.engine.objects import controller_of
from traincrew.engine.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from traincrew.local.controllers import pods as facts
from traincrew.local.controllers.deployment.plan import (
    REVISION,
    new_replica_set,
    plan_deployment,
)
from traincrew.local.controllers.informers import CONTROLLER, informer
from traincrew.local.controllers.shell import NOT_CURRENT, Shell, look_again

if TYPE_CHECKING:
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.manager import Manager
    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.deployment.plan import Plan


def add_deployment_controller(manager: Manager, events: EventRecorder) -> None:
    """Run Deployments."""
    deployments = DeploymentReconciler(manager, events)
    controller = Controller("deployment", deployments.reconcile, workers=2)
    controller.watch(informer(manager, DEPLOYMENTS), own_key)
    controller.watch(informer(manager, REPLICA_SETS), owner_key("Deployment", "apps"))
    controller.watch(informer(manager, PODS), deployments.waiting_for)
    manager.add(controller)


class DeploymentReconciler:
    """One Deployment at a time."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._deployments = informer(manager, DEPLOYMENTS)
        self._sets, self._pods = informer(manager, REPLICA_SETS), informer(manager, PODS)
        self._shell = Shell(manager.client, events.reporter("deployment-controller"), DEPLOYMENTS)

    def waiting_for(self, pod: AnyObject) -> list[Request]:
        """A Deployment that waits for this pod of an old ReplicaSet to go (`Recreate`)."""
        owner = controller_of(pod)
        if owner is None or owner.kind != "ReplicaSet":
            return []
        above = self._sets.store.get(pod.metadata.namespace, owner.name)
        if above is None or int(above.spec.get("replicas", 1)):
            return []
        deployment = controller_of(above)
        return [Request(pod.metadata.namespace, deployment.name)] if deployment else []

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one Deployment forward."""
        shell = self._shell
        owner = self._deployments.store.get(*request)
        if owner is None:
            shell.forget(request)
            return None
        if not shell.is_current(request):
            return NOT_CURRENT
        sets = await shell.claim(request, owner, self._sets)
        if sets is None:
            return NOT_CURRENT
        new = new_replica_set(owner, sets)
        old_pods = sum(
            not facts.is_finished(pod)
            for item in sets
            if item is not new
            for pod in self._pods.store.by_index(CONTROLLER, item.metadata.uid)
        )
        plan = plan_deployment(owner, sets, old_pods, shell.now())
        await self._carry_out(request, owner, plan)
        return look_again(plan.look_again_at, shell.now())

    async def _carry_out(self, request: Request, owner: AnyObject, plan: Plan) -> None:
        shell = self._shell
        if plan.create is not None:
            await shell.create(request, self._sets, plan.create)
        if plan.renumber is not None:
            annotations = {"annotations": {REVISION: plan.revision}}
            await shell.patch(request, self._sets, plan.renumber, {"metadata": annotations})
        for scaling in plan.scale:
            spec = {"replicas": scaling.replicas}
            await shell.patch(request, self._sets, scaling.replica_set, {"spec": spec})
        for item in plan.delete:
            await shell.delete(request, self._sets, item)
        shell.note(owner, *plan.notes)
        if plan.revision and owner.metadata.annotations.get(REVISION) != plan.revision:
            patch = {"metadata": {"annotations": {REVISION: plan.revision}}}
            await shell.patch(request, self._deployments, owner, patch)
        await shell.write_status(request, self._deployments, owner, owner.status, plan.status)
