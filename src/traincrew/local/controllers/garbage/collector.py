"""Deletes what nobody owns any more, and holds owners back until their dependents are gone."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, Result
from traincrew.engine.errors import ApiError, ConflictError, NotFoundError
from traincrew.local.controllers.claims import reference_document
from traincrew.local.controllers.common import FIELD_MANAGER, object_reference
from traincrew.local.controllers.garbage.decide import (
    Await,
    Delete,
    DropOwners,
    Finish,
    Keep,
    Orphan,
    Owner,
    decide,
)
from traincrew.local.controllers.garbage.graph import FOREGROUND, ORPHAN, is_in_reach

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.client import Client
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import OwnerReference
    from traincrew.local.controllers.garbage.graph import Item
    from traincrew.local.controllers.garbage.watches import Watches

UNWATCHED = 10.0
"""Seconds until an owner is looked for again whose end no watch would report (yet)."""
_REMEMBERED = 2000


class Collector:
    """Looks at one object at a time; requests carry its UID as name."""

    def __init__(self, client: Client, events: EventRecorder) -> None:
        self._client, self._events = client, events.reporter("garbage-collector-controller")
        self._absent: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.watches: Watches
        self.controller = Controller("garbage-collector", self.reconcile, workers=8)

    def enqueue(self, uids: Iterable[str]) -> None:
        """Look at these objects."""
        for uid in uids:
            self.controller.enqueue(Request("", uid))

    async def reconcile(self, request: Request) -> Result | None:
        """Decide about one object and do it.

        A write that meets a newer version of the object is not repeated: the watch brings it back.
        """
        await self.watches.complete()
        graph = self.watches.graph
        item = graph.get(request.name)
        if item is None:
            return None
        owners: dict[str, Owner] = {}
        unwatched = False
        if not item.is_deleting:
            for reference in item.owners:
                state = await self._state(item, reference)
                owners[reference.uid] = state or Owner.SOLID
                unwatched = unwatched or (
                    owners[reference.uid] is not Owner.ABSENT and graph.get(reference.uid) is None
                )
        verdict = decide(item, owners, graph.dependents(item.uid))
        try:
            await self._carry_out(item, verdict)
        except NotFoundError:
            return None
        return Result(requeue_after=UNWATCHED) if unwatched else None

    async def _carry_out(self, item: Item, verdict: Any) -> None:
        match verdict:
            case Keep():
                return
            case Await(uids):
                self.enqueue(uids)
            case Finish():
                await self._remove_finalizer(item, FOREGROUND)
            case Orphan():
                for dependent in self.watches.graph.dependents(item.uid):
                    await self._drop_owners(dependent, {item.uid})
                await self._remove_finalizer(item, ORPHAN)
            case DropOwners(uids):
                await self._drop_owners(item, uids)
            case Delete(propagation, unblock):
                version = item.metadata.resource_version
                if unblock:
                    version = await self._unblock(item)
                await self._client.delete(
                    item.resource,
                    item.metadata.name,
                    item.metadata.namespace or None,
                    propagation=propagation,
                    uid=item.uid,
                    resource_version=version,
                )

    # -- owners ------------------------------------------------------------------------------

    async def _state(self, item: Item, reference: OwnerReference) -> Owner | None:
        """State of an owner; None if the server does not know its kind."""
        graph = self.watches.graph
        known = graph.get(reference.uid)
        if known is not None:
            if is_in_reach(known, item):
                return Owner.WAITING if known.awaits_dependents else Owner.SOLID
            self._warn(item, reference)
            return Owner.ABSENT
        key = (reference.uid, item.metadata.namespace)
        if graph.was_deleted(reference.uid) or key in self._absent:
            return Owner.ABSENT
        group = reference.api_version.rpartition("/")[0]
        resource = await self.watches.find(group, reference.kind)
        if resource is None:
            # A kind that is no longer served took its objects along.
            return Owner.ABSENT if (group, reference.kind) in self.watches.former else None
        if resource.namespaced and not item.metadata.namespace:
            self._warn(item, reference)
            return Owner.ABSENT
        try:
            live = await self._client.get(resource, reference.name, item.metadata.namespace or None)
        except NotFoundError:
            live = {}
        if live.get("metadata", {}).get("uid") != reference.uid:
            self._absent[key] = None
            if len(self._absent) > _REMEMBERED:
                self._absent.popitem(last=False)
            return Owner.ABSENT
        metadata = live["metadata"]
        waiting = metadata.get("deletionTimestamp") and FOREGROUND in (
            metadata.get("finalizers") or ()
        )
        return Owner.WAITING if waiting else Owner.SOLID

    def _warn(self, item: Item, reference: OwnerReference) -> None:
        message = (
            f"ownerRef [{reference.api_version}/{reference.kind}, namespace: "
            f"{item.metadata.namespace}, name: {reference.name}, uid: {reference.uid}] "
            f'does not exist in namespace "{item.metadata.namespace}"'
        )
        about = object_reference(item, item.resource)
        self._events.event(about, "Warning", "OwnerRefInvalidNamespace", message)

    # -- writes ------------------------------------------------------------------------------

    async def _drop_owners(self, item: Item, uids: Iterable[str]) -> None:
        gone = set(uids)
        kept = [reference_document(owner) for owner in item.owners if owner.uid not in gone]
        await self._patch(item, {"ownerReferences": kept})

    async def _unblock(self, item: Item) -> str:
        """Let no owner wait for this object; returns its new version."""
        kept = [reference_document(owner) for owner in item.owners]
        for reference in kept:
            reference.pop("blockOwnerDeletion", None)
        return await self._patch(item, {"ownerReferences": kept})

    async def _patch(self, item: Item, metadata: dict[str, Any]) -> str:
        guard = {"uid": item.uid, "resourceVersion": item.metadata.resource_version}
        try:
            written = await self._client.patch(
                item.resource,
                item.metadata.name,
                item.metadata.namespace or None,
                patch={"metadata": guard | metadata},
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError:
            return ""
        return str(written["metadata"]["resourceVersion"])

    async def _remove_finalizer(self, item: Item, finalizer: str) -> None:
        finalizers = item.metadata.finalizers
        path = f"/metadata/finalizers/{finalizers.index(finalizer)}"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": item.uid},
            {"op": "test", "path": path, "value": finalizer},
            {"op": "remove", "path": path},
        ]
        try:
            await self._client.patch(
                item.resource,
                item.metadata.name,
                item.metadata.namespace or None,
                patch=patch,
                kind="json",
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError:
            return
        except ApiError as error:
            if error.code in {400, 422}:
                raise ConflictError(f"{item.metadata.name}: its finalizers changed") from error
            raise
