"""Reads DaemonSets, nodes, pods and revisions, calls `plan`, and carries out the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.controller import Controller, Request, Result, own_key, owner_key
from traincrew.engine.errors import AlreadyExistsError, is_namespace_terminating
from traincrew.engine.objects import controller_of
from traincrew.engine.resources import CONTROLLER_REVISIONS, NODES, PODS
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext, requeue
from traincrew.local.controllers.daemonset.backoff import Backoff
from traincrew.local.controllers.daemonset.history import choose
from traincrew.local.controllers.daemonset.nodes import DAEMON_SETS, node_of
from traincrew.local.controllers.daemonset.plan import plan_daemon_set
from traincrew.local.controllers.informers import informer, possible_adopters
from traincrew.local.controllers.revisions import REVISION_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.daemonset.history import History


def add(manager: Manager, events: EventRecorder) -> None:
    """Run DaemonSets."""
    reconciler = DaemonSetReconciler(manager, events)
    manager.add(reconciler.controller)


class DaemonSetReconciler:
    """Reconciles one DaemonSet at a time."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._sets, self._pods = informer(manager, DAEMON_SETS), informer(manager, PODS)
        self._nodes = informer(manager, NODES)
        self._revisions = informer(manager, CONTROLLER_REVISIONS)
        self._context = ControllerContext(
            manager.client, events.reporter("daemonset-controller"), DAEMON_SETS
        )
        self._backoffs: dict[Request, tuple[str, Backoff]] = {}
        self._owner = owner_key(DAEMON_SETS.kind, DAEMON_SETS.group)
        self.controller = Controller("daemonset", self.reconcile, workers=2)
        self.controller.watch(self._sets, own_key)
        self.controller.watch(self._pods, self._owner)
        self.controller.watch(self._pods, self._adopters)
        self.controller.informers += [self._nodes, self._revisions]
        self._nodes.add_handler(self._node_changed)
        self._revisions.add_handler(self._revision_changed)

    def _adopters(self, obj: AnyObject) -> list[Request]:
        return possible_adopters(self._sets, _selector_of, obj)

    def _node_changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        """Reconcile all, unless nothing has changed that decides where pods run."""
        if old is not None and new is not None and node_of(old) == node_of(new):
            return
        for each in self._sets.store.list():
            self.controller.enqueue(Request(each.metadata.namespace, each.metadata.name))

    def _revision_changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        """Reconcile the owner, unless somebody has created a revision that has one already."""
        if old is None and new is not None and controller_of(new) is not None:
            return
        for each in (old, new):
            if each is not None:
                for request in (*self._owner(each), *self._adopters(each)):
                    self.controller.enqueue(request)

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one DaemonSet."""
        context = self._context
        owner = self._sets.store.get(*request)
        if owner is None:
            context.forget(request)
            self._backoffs.pop(request, None)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        if owner.metadata.deletion_timestamp is not None:
            return None  # its revisions may be gone already
        revisions = await context.claim(request, owner, self._revisions)
        pods = await context.claim(request, owner, self._pods)
        if revisions is None or pods is None:
            return NOT_CURRENT
        history = choose(owner, revisions)
        if not await self._keep_history(request, owner, history, pods):
            return NOT_CURRENT
        known, backoff = self._backoffs.get(request, ("", Backoff()))
        plan = plan_daemon_set(
            owner,
            map(node_of, self._nodes.store.list()),
            pods,
            history,
            now=context.now(),
            backoff=backoff if known == owner.metadata.uid else Backoff(),
        )
        self._backoffs[request] = (owner.metadata.uid, plan.backoff)
        context.record(owner, *plan.events)
        errors = await context.run_all(
            [
                *(context.create_pod(request, self._pods, owner, pod) for pod in plan.create),
                *(context.delete_pod(request, self._pods, owner, pod) for pod in plan.delete),
                *(context.delete(request, self._revisions, each) for each in plan.obsolete),
            ]
        )
        await context.write_status(request, self._sets, owner, owner.status, plan.status)
        for error in errors:
            if not is_namespace_terminating(error):
                raise error
        return requeue(plan.requeue_at, context.now())

    async def _keep_history(
        self, request: Request, owner: AnyObject, history: History, pods: Sequence[AnyObject]
    ) -> bool:
        """Write what the revisions lack; return whether the DaemonSet has its current one."""
        context, revisions = self._context, self._revisions
        if history.create is not None:
            try:
                await context.create(request, revisions, history.create)
            except AlreadyExistsError:
                await self._count_collision(request, owner, history.create)
                return False
        if history.renumber is not None:
            revision, number = history.renumber
            await context.patch(request, revisions, revision, {"revision": number})
        for pod in pods if history.duplicates else ():
            if pod.metadata.labels.get(REVISION_LABEL) in history.stale_hashes():
                labels = {"labels": {REVISION_LABEL: history.current}}
                await context.patch(request, self._pods, pod, {"metadata": labels})
        for revision in history.duplicates:
            await context.delete(request, revisions, revision)
        return not history.duplicates

    async def _count_collision(
        self, request: Request, owner: AnyObject, wanted: Mapping[str, Any]
    ) -> None:
        """Have another name tried, if the object that has this one is not the revision itself."""
        meta = wanted["metadata"]
        live = await self._context.client.get(CONTROLLER_REVISIONS, meta["name"], meta["namespace"])
        owners = [each["uid"] for each in live["metadata"].get("ownerReferences") or ()]
        if live.get("data") == wanted["data"] and owner.metadata.uid in owners:
            return
        count = int(owner.status.get("collisionCount") or 0) + 1
        status = {**owner.status, "collisionCount": count}
        await self._context.write_status(request, self._sets, owner, owner.status, status)


def _selector_of(owner: AnyObject) -> Mapping[str, Any] | None:
    selector: Mapping[str, Any] | None = owner.spec.get("selector")
    return selector
