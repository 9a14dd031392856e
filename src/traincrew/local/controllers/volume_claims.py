"""Binds PersistentVolumeClaims at once: the node stores each as a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, own_key
from traincrew.engine.resources import PERSISTENT_VOLUME_CLAIMS
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext
from traincrew.local.controllers.informers import informer

if TYPE_CHECKING:
    from traincrew.engine.controller import Manager, Result
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject


def claim_status(claim: AnyObject) -> dict[str, Any]:
    """Return the status of a bound claim."""
    requests = (claim.spec.get("resources") or {}).get("requests") or {}
    return {
        **claim.status,
        "phase": "Bound",
        "accessModes": claim.spec.get("accessModes") or [],
        "capacity": {"storage": requests.get("storage", "0")},
    }


def add_volume_claim_controller(manager: Manager, events: EventRecorder) -> None:
    """Bind PersistentVolumeClaims."""
    claims = informer(manager, PERSISTENT_VOLUME_CLAIMS)
    context = ControllerContext(
        manager.client, events.reporter("persistentvolume-controller"), PERSISTENT_VOLUME_CLAIMS
    )

    async def reconcile(request: Request) -> Result | None:
        claim = claims.store.get(*request)
        if claim is None:
            context.forget(request)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        if claim.metadata.deletion_timestamp is None:
            await context.write_status(request, claims, claim, claim.status, claim_status(claim))
        return None

    controller = Controller("volume-claims", reconcile, workers=2)
    controller.watch(claims, own_key)
    manager.add(controller)
