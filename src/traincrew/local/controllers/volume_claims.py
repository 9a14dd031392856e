"""PersistentVolumeClaims are bound at once: the node keeps each as a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, own_key
from traincrew.engine.resources import PERSISTENT_VOLUME_CLAIMS
from traincrew.local.controllers.informers import informer
from traincrew.local.controllers.shell import NOT_CURRENT, Shell

if TYPE_CHECKING:
    from traincrew.engine.controller import Result
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.manager import Manager
    from traincrew.engine.objects import AnyObject


def claim_status(claim: AnyObject) -> dict[str, Any]:
    """The status of a claim that has what it asked for."""
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
    shell = Shell(
        manager.client, events.reporter("persistentvolume-controller"), PERSISTENT_VOLUME_CLAIMS
    )

    async def reconcile(request: Request) -> Result | None:
        claim = claims.store.get(*request)
        if claim is None:
            shell.forget(request)
            return None
        if not shell.is_current(request):
            return NOT_CURRENT
        if claim.metadata.deletion_timestamp is None:
            await shell.write_status(request, claims, claim, claim.status, claim_status(claim))
        return None

    controller = Controller("volume-claims", reconcile, workers=2)
    controller.watch(claims, own_key)
    manager.add(controller)
