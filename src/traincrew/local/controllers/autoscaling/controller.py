"""Reads autoscalers, their targets and metrics, calls `plan`, and carries out the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, Result, own_key
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import PODS, Resource
from traincrew.local.controllers.autoscaling.limits import History
from traincrew.local.controllers.autoscaling.metrics import samples_of
from traincrew.local.controllers.autoscaling.plan import (
    AUTOSCALERS,
    Observed,
    plan_autoscaler,
    rescaled,
    scale_failed,
)
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext
from traincrew.local.controllers.discovery import Discovery, discover
from traincrew.local.controllers.informers import informer

if TYPE_CHECKING:
    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.autoscaling.plan import Plan

PERIOD_SECONDS = 15.0
"""How often each autoscaler looks; upstream's default."""
_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")


def add(manager: Manager, events: EventRecorder) -> None:
    """Run HorizontalPodAutoscalers."""
    manager.add(Autoscaling(manager, events).controller)


class Autoscaling:
    """Reconciles one autoscaler at a time."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._scalers, self._pods = informer(manager, AUTOSCALERS), informer(manager, PODS)
        self._context = ControllerContext(
            manager.client, events.reporter("horizontal-pod-autoscaler"), AUTOSCALERS
        )
        self._histories: dict[Request, tuple[str, History]] = {}
        self._discovery = Discovery()
        self.controller = Controller("autoscaling", self.reconcile, workers=2)
        self.controller.informers += [self._scalers, self._pods]
        self._scalers.add_handler(self._changed)

    def _changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        """Look at once if the spec has changed; the status is written after every look."""
        changed = new or old
        if changed is None or (old is not None and new is not None and old.spec == new.spec):
            return
        self.controller.enqueue(*own_key(changed))

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one autoscaler."""
        context = self._context
        scaler = self._scalers.store.get(*request)
        if scaler is None or scaler.metadata.deletion_timestamp is not None:
            context.forget(request)
            self._histories.pop(request, None)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        plan = await self._act(request, scaler)
        context.record(scaler, *plan.events)
        await context.write_status(request, self._scalers, scaler, scaler.status, plan.status)
        return Result(requeue_after=PERIOD_SECONDS)

    async def _act(self, request: Request, scaler: AnyObject) -> Plan:
        """Scale the target if that is due; return what to write and to say."""
        client, now = self._context.client, self._context.now
        target = scaler.spec["scaleTargetRef"]
        try:
            resource = await self._resource(target)
            scale = await client.get(
                resource, target["name"], request.namespace, subresource="scale"
            )
        except (ApiError, LookupError) as error:
            text = error.message if isinstance(error, ApiError) else str(error.args[0])
            return scale_failed(scaler, text, now())
        observed = await self._observed(request, scale)
        uid, history = self._histories.get(request, ("", History()))
        if uid != scaler.metadata.uid:
            history = History()
            self._histories[request] = (scaler.metadata.uid, history)
        plan = plan_autoscaler(scaler, observed, history, now())
        if plan.replicas is None:
            return plan
        patch: dict[str, Any] = {"spec": {"replicas": plan.replicas}}
        try:
            await client.patch(
                resource, target["name"], request.namespace, patch=patch, subresource="scale"
            )
        except ApiError as error:
            return scale_failed(scaler, error.message, now(), plan=plan)
        rescaled(plan, observed.replicas, history, now())
        return plan

    async def _resource(self, target: dict[str, Any]) -> Resource:
        """Return the resource of a target, in its group's preferred version.

        Raises:
            LookupError: The kind is not served.
            ApiError: The server does not say.
        """
        group, _, _ = str(target.get("apiVersion", "")).rpartition("/")
        kind = target["kind"]
        for fresh in (False, True):
            if fresh:
                self._discovery = await discover(self._context.client)
            for each in self._discovery.preferred(frozenset({"get"})):
                if (each.group, each.kind) == (group, kind):
                    return each
        raise LookupError(f'no matches for kind "{kind}" in group "{group}"')

    async def _observed(self, request: Request, scale: dict[str, Any]) -> Observed:
        selector = str((scale.get("status") or {}).get("selector") or "")
        replicas = int((scale.get("spec") or {}).get("replicas") or 0)
        if not selector or not replicas:
            return Observed(replicas, selector)
        client = self._context.client
        try:
            listed = await client.list(PODS, request.namespace, label_selector=selector)
            names = {pod["metadata"]["name"] for pod in listed["items"]}
            measured = await client.list(_METRICS, request.namespace, label_selector=selector)
        except ApiError as error:
            return Observed(replicas, selector, failure=error.message)
        pods = [
            pod
            for name in sorted(names)
            if (pod := self._pods.store.get(request.namespace, name)) is not None
        ]
        return Observed(replicas, selector, pods, samples_of(measured["items"]))
