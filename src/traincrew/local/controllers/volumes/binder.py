"""Binds claims to volumes. A claim that no volume fits becomes a directory of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.engine.controller import Controller, Request, Result, own_key
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from traincrew.local.controllers.common import parse_time
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext
from traincrew.local.controllers.informers import informer
from traincrew.local.controllers.volumes.binding import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    StorageClass,
    came_too_late,
    claim_status,
    decide,
    not_mounted,
    volume_phase,
)
from traincrew.local.controllers.writes import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.cache import Informer
    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder

_LOST = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"


class Caches:
    """What both controllers read."""

    def __init__(self, manager: Manager) -> None:
        self.claims = informer(manager, PERSISTENT_VOLUME_CLAIMS)
        self.volumes = informer(manager, PERSISTENT_VOLUMES)
        self.classes: Informer[StorageClass] = manager.informer(STORAGE_CLASSES, StorageClass)


def add_binders(manager: Manager, events: EventRecorder) -> None:
    """Bind claims, and keep the phases of volumes."""
    caches = Caches(manager)
    manager.add(ClaimBinder(manager, events, caches).controller)
    manager.add(VolumePhases(manager, events, caches).controller)


class ClaimBinder:
    """Reconciles one claim at a time."""

    def __init__(self, manager: Manager, events: EventRecorder, caches: Caches) -> None:
        self._claims, self._volumes, self._classes = caches.claims, caches.volumes, caches.classes
        self._context = ControllerContext(
            manager.client,
            events.reporter("persistentvolume-controller"),
            PERSISTENT_VOLUME_CLAIMS,
        )
        # One worker: two claims never choose the same volume.
        self.controller = Controller("persistentvolume-binder", self.reconcile, workers=1)
        self.controller.watch(self._claims, own_key)
        self.controller.watch(self._volumes, self._interested)
        self.controller.watch(self._classes, self._waiting)

    def _interested(self, volume: AnyObject) -> Iterable[Request]:
        """Return the claim of a volume, and all that wait for one."""
        reference = volume.spec.get("claimRef") or {}
        if reference.get("name"):
            yield Request(reference.get("namespace", ""), reference["name"])
        yield from self._waiting(volume)

    def _waiting(self, _: Any) -> Iterable[Request]:
        for claim in self._claims.store.list():
            if claim.status.get("phase") != "Bound":
                yield Request(claim.metadata.namespace, claim.metadata.name)

    async def reconcile(self, request: Request) -> Result | None:
        """Bind one claim, or keep the status of a bound one."""
        claim = self._claims.store.get(*request)
        if claim is None:
            self._context.forget(request)
            return None
        if not self._context.is_current(request):
            return NOT_CURRENT
        if claim.metadata.deletion_timestamp is not None:
            return None
        if BIND_COMPLETED in claim.metadata.annotations and claim.spec.get("volumeName"):
            await self._keep(request, claim)
            return None
        if claim.status.get("phase") == "Bound" and not claim.spec.get("volumeName"):
            await self._write_status(request, claim, claim_status(claim, None))
            return None
        return await self._bind(request, claim)

    async def _keep(self, request: Request, claim: AnyObject) -> None:
        """Write the status of a claim that is bound to a volume, or has lost it."""
        name = claim.spec["volumeName"]
        volume = self._volumes.store.get(None, name)
        if volume is None:
            # A cache that lags must not declare data lost.
            if not await self._context.client.is_gone(PERSISTENT_VOLUMES, name, uid=""):
                return
            reason, message = "ClaimLost", _LOST
        elif (volume.spec.get("claimRef") or {}).get("uid") != claim.metadata.uid:
            reason = "ClaimMisbound"
            message = "Two claims are bound to the same volume, this one is bound incorrectly"
        else:
            await self._write_status(request, claim, claim_status(claim, volume))
            return
        if claim.status.get("phase") != "Lost":
            self._context.record(claim, Event(reason, message, "Warning"))
        await self._write_status(request, claim, {**claim.status, "phase": "Lost"})

    async def _bind(self, request: Request, claim: AnyObject) -> Result | None:
        # From the server: a volume that was created before the claim may not be in the cache yet.
        live = await self._context.client.list(PERSISTENT_VOLUMES)
        volumes = msgspec.convert(live["items"], list[AnyObject])
        classes = {each.metadata.name: each for each in self._classes.store.list()}
        age = self._context.now() - parse_time(claim.metadata.creation_timestamp)
        decision = decide(claim, volumes, classes, age)
        if decision.event is not None:
            self._context.record(claim, decision.event)
        if decision.volume is not None:
            await self._bind_to(request, claim, decision.volume)
        elif decision.directory:
            await self._write_status(request, claim, claim_status(claim, None))
        elif decision.retry_after is not None:
            return Result(requeue_after=decision.retry_after)
        return None

    async def _bind_to(self, request: Request, claim: AnyObject, volume: AnyObject) -> None:
        """Bind a claim to a volume: the volume first, as upstream, so that no other gets it."""
        context, meta = self._context, claim.metadata
        if (volume.spec.get("claimRef") or {}).get("uid") != meta.uid:
            reference = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            }
            metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
            if not volume.spec.get("claimRef"):
                metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
            patch = {"metadata": metadata, "spec": {"claimRef": reference}}
            if not await context.patch(request, self._volumes, volume, patch):
                return
        await context.write_status(
            request, self._volumes, volume, volume.status, {**volume.status, "phase": "Bound"}
        )
        annotations = {BIND_COMPLETED: "yes"}
        if not claim.spec.get("volumeName"):
            annotations[BOUND_BY_CONTROLLER] = "yes"
        patch = {
            "metadata": {"uid": meta.uid, "annotations": annotations},
            "spec": {"volumeName": volume.metadata.name},
        }
        if not await context.patch(request, self._claims, claim, patch):
            return
        await self._write_status(request, claim, claim_status(claim, volume))
        if (event := not_mounted(volume)) is not None:
            context.record(claim, event)

    async def _write_status(
        self, request: Request, claim: AnyObject, status: dict[str, Any]
    ) -> None:
        await self._context.write_status(request, self._claims, claim, claim.status, status)


class VolumePhases:
    """Reconciles one volume at a time."""

    def __init__(self, manager: Manager, events: EventRecorder, caches: Caches) -> None:
        self._claims, self._volumes = caches.claims, caches.volumes
        self._context = ControllerContext(
            manager.client, events.reporter("persistentvolume-controller"), PERSISTENT_VOLUMES
        )
        self.controller = Controller("persistentvolume-phases", self.reconcile, workers=1)
        self.controller.watch(self._volumes, own_key)
        self.controller.watch(self._claims, _volume_of)

    async def reconcile(self, request: Request) -> Result | None:
        """Write the phase of one volume."""
        volume = self._volumes.store.get(*request)
        if volume is None:
            self._context.forget(request)
            return None
        if not self._context.is_current(request):
            return NOT_CURRENT
        wanted = volume_phase(volume, await self._claim_of(volume))
        if wanted is None or wanted.phase == volume.status.get("phase"):
            return None
        if wanted.phase == "Available":
            for claim in came_too_late(volume, self._claims.store.list()):
                self._context.record(volume, _too_late(claim))
        status = {**volume.status, "phase": wanted.phase}
        status.pop("message", None)
        if wanted.message:
            status["message"] = wanted.message
        version = volume.metadata.resource_version
        await self._context.write_status(
            request, self._volumes, volume, volume.status, status, version=version
        )
        if wanted.event is not None:
            self._context.record(volume, wanted.event)
        return None

    async def _claim_of(self, volume: AnyObject) -> AnyObject | None:
        """Return the claim that a volume is bound to; None only if it is certainly gone."""
        reference = volume.spec.get("claimRef") or {}
        uid = reference.get("uid")
        if not uid:
            return None
        namespace, name = reference.get("namespace", ""), reference.get("name", "")
        claim = self._claims.store.get(namespace, name)
        if claim is not None and claim.metadata.uid == uid:
            return claim
        client = self._context.client
        if await client.is_gone(PERSISTENT_VOLUME_CLAIMS, name, namespace, uid=uid):
            return None
        return msgspec.convert(
            await client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace), AnyObject
        )


def _volume_of(claim: AnyObject) -> Iterable[Request]:
    name = claim.spec.get("volumeName")
    return (Request("", name),) if name else ()


def _too_late(claim: AnyObject) -> Event:
    name = f"{claim.metadata.namespace}/{claim.metadata.name}"
    message = (
        f"spec: PersistentVolumeClaim {name} has become a directory before this volume existed; "
        "to bind them, delete the claim and create it again"
    )
    return Event("NotEmulated", message, "Warning")
