"""Keeps claims and volumes in use when they are deleted.

Upstream's controllers pvc-protection and pv-protection. The API server adds the finalizers when
claims and volumes are created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from traincrew.engine.controller import Controller, Request, own_key
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext
from traincrew.local.controllers.informers import NAMESPACE, informer, pods
from traincrew.local.controllers.volumes.usage import UsedClaims, may_release

if TYPE_CHECKING:
    from traincrew.engine.cache import Informer
    from traincrew.engine.controller import Manager, Result
    from traincrew.engine.events import EventRecorder

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
_BATCH_SECONDS = 0.05
"""Pods and claims are often deleted in bulk: their namespace is looked at once for many."""


def add_protection_controllers(manager: Manager, events: EventRecorder) -> None:
    """Release claims that no pod uses, and volumes that no claim is bound to."""
    manager.add(ClaimProtection(manager, events).controller)
    manager.add(_volume_protection(manager, events))


class ClaimProtection:
    """Releases the claims of one namespace at a time."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._claims = informer(manager, PERSISTENT_VOLUME_CLAIMS)
        self._pods = pods(manager)
        self._context = ControllerContext(
            manager.client,
            events.reporter("pvc-protection-controller"),
            PERSISTENT_VOLUME_CLAIMS,
        )
        self.controller = Controller("pvc-protection", self.reconcile, workers=1)
        self.controller.informers += [self._claims, self._pods]
        self._claims.add_handler(self._claim_changed)
        self._pods.add_handler(self._pod_changed)

    def _claim_changed(self, _: AnyObject | None, claim: AnyObject | None) -> None:
        if claim is not None and (_is_released(claim) or _is_unprotected(claim, CLAIM_PROTECTION)):
            self._enqueue(claim)

    def _pod_changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        if old is not None and may_release(old, new):
            self._enqueue(old)

    def _enqueue(self, obj: AnyObject) -> None:
        self.controller.enqueue(Request(obj.metadata.namespace, ""), after=_BATCH_SECONDS)

    async def reconcile(self, request: Request) -> Result | None:
        """Release the terminating claims of a namespace that no pod uses."""
        claims = self._claims.store.by_index(NAMESPACE, request.namespace)
        if not claims:
            self._context.forget(request)
            return None
        if not self._context.is_current(request):
            return NOT_CURRENT
        writes = [
            _protect(self._context, request, self._claims, claim, CLAIM_PROTECTION)
            for claim in claims
            if _is_unprotected(claim, CLAIM_PROTECTION)
        ]
        writes += [
            self._context.remove_finalizer(request, self._claims, claim, CLAIM_PROTECTION)
            for claim in await self._unused(
                request.namespace, [claim for claim in claims if _is_released(claim)]
            )
        ]
        for error in await self._context.run_all(writes):
            raise error
        return None

    async def _unused(self, namespace: str, claims: list[AnyObject]) -> list[AnyObject]:
        """Return the claims that no pod uses."""
        used = UsedClaims(self._pods.store.by_index(NAMESPACE, namespace))
        unused = [claim for claim in claims if not used.uses(claim)]
        if not unused:
            return []
        # The cache may lack a pod that has just started: what is removed cannot be restored.
        live = await self._context.client.list(PODS, namespace)
        used = UsedClaims(msgspec.convert(live["items"], list[AnyObject]))
        return [claim for claim in unused if not used.uses(claim)]


def _volume_protection(manager: Manager, events: EventRecorder) -> Controller:
    volumes = informer(manager, PERSISTENT_VOLUMES)
    context = ControllerContext(
        manager.client, events.reporter("pv-protection-controller"), PERSISTENT_VOLUMES
    )

    async def reconcile(request: Request) -> Result | None:
        volume = volumes.store.get(*request)
        if volume is None:
            context.forget(request)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        if _is_unprotected(volume, VOLUME_PROTECTION):
            await _protect(context, request, volumes, volume, VOLUME_PROTECTION)
        elif volume.metadata.deletion_timestamp and volume.status.get("phase") != "Bound":
            await context.remove_finalizer(request, volumes, volume, VOLUME_PROTECTION)
        return None

    controller = Controller("pv-protection", reconcile, workers=1)
    controller.watch(volumes, own_key)
    return controller


def _is_released(claim: AnyObject) -> bool:
    """Return whether only the protection may keep a deleted claim."""
    meta = claim.metadata
    return meta.deletion_timestamp is not None and CLAIM_PROTECTION in meta.finalizers


def _is_unprotected(obj: AnyObject, finalizer: str) -> bool:
    """Return whether an object lacks the finalizer: an older server created it."""
    return obj.metadata.deletion_timestamp is None and finalizer not in obj.metadata.finalizers


async def _protect(
    context: ControllerContext,
    request: Request,
    source: Informer[AnyObject],
    obj: AnyObject,
    finalizer: str,
) -> None:
    """Add a finalizer to an object that has not changed."""
    meta = obj.metadata
    guarded = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    patch = {"metadata": {**guarded, "finalizers": [*meta.finalizers, finalizer]}}
    await context.patch(request, source, obj, patch)
