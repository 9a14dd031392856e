"""Deletes objects whose owners are gone, and carries out foreground and orphan deletion."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, Result
from traincrew.engine.errors import ApiError, ConflictError, NotFoundError
from traincrew.engine.objects import OwnerReference
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
    from traincrew.local.controllers.garbage.graph import Item
    from traincrew.local.controllers.garbage.watches import Watches

UNWATCHED = 10.0
"""Seconds until an owner is looked up again whose deletion no watch would report (yet)."""
_REMEMBERED = 2000
# Several references may have the same UID, some of them with wrong names: the best one counts.
_BEST_FIRST = (Owner.SOLID, Owner.WAITING, Owner.UNKNOWN, Owner.ABSENT)


class Collector:
    """Reconciles one object at a time; the name of a request is the UID of the object.

    Nothing is deleted because an owner is missing in the graph. An owner is absent when a watch has
    reported its deletion, or when a GET of the reference's own apiVersion, kind and name shows that
    the object does not exist or has another UID (upstream's `attemptToDeleteItem` and
    `absentOwnerCache`). If a kind is not known to be served, discovery is repeated.
    """

    def __init__(self, client: Client, events: EventRecorder) -> None:
        self._client, self._events = client, events.reporter("garbage-collector-controller")
        self._absent: OrderedDict[tuple[OwnerReference, str], None] = OrderedDict()
        self._unresolved: set[str] = set()
        self.watches: Watches
        self.controller = Controller("garbage-collector", self.reconcile, workers=8)

    def enqueue(self, uids: Iterable[str]) -> None:
        """Queue these objects."""
        for uid in uids:
            self.controller.enqueue(Request("", uid))

    def discovered(self) -> None:
        """Queue objects whose owners are of a kind that was unknown, as there are new kinds."""
        self.enqueue(self._unresolved)

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one object.

        A write that conflicts with a newer version of the object is not retried: the watch will
        queue the object again.
        """
        await self.watches.complete()
        graph = self.watches.graph
        item = graph.get(request.name)
        self._unresolved.discard(request.name)
        if item is None:
            return None
        owners: dict[str, Owner] = {}
        again = False
        if not item.is_deleting:
            for reference in item.owners:
                state = await self._state(item, reference)
                owners[reference.uid] = min(
                    state, owners.get(reference.uid, Owner.ABSENT), key=_BEST_FIRST.index
                )
                exists = state in {Owner.SOLID, Owner.WAITING}
                again = again or (exists and graph.get(reference.uid) is None)
        verdict = decide(item, owners, graph.dependents(item.uid))
        try:
            await self._carry_out(item, verdict)
        except NotFoundError:
            # Perhaps only its version is no longer served; if it is gone, the watch reports that.
            again = True
        if again or item.uid in self._unresolved:
            return Result(requeue_after=UNWATCHED)
        return None

    async def _carry_out(self, item: Item, verdict: Any) -> None:
        match verdict:
            case Keep():
                return
            case Await(uids):
                self.enqueue(uids)
            case Finish():
                await self._remove_finalizer(item, FOREGROUND)
            case Orphan():
                await self.watches.settle()  # a kind that was just added may have dependents
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

    async def _state(self, item: Item, reference: OwnerReference) -> Owner:
        """Return the state of an owner.

        Raises:
            ApiError: The server refused the request.
        """
        graph, namespace = self.watches.graph, item.metadata.namespace
        known = graph.get(reference.uid)
        if known is not None and known.is_named_by(reference):
            if is_in_reach(known, item):
                return Owner.WAITING if known.awaits_dependents else Owner.SOLID
            if namespace:
                self._warn(item, reference)
        key = (coordinates(reference), namespace)
        if graph.was_deleted(reference, item) or key in self._absent:
            return Owner.ABSENT
        resource = await self.watches.find(reference.api_version, reference.kind)
        if resource is None:
            self._unresolved.add(item.uid)
            return Owner.UNKNOWN
        if resource.namespaced and not namespace:
            # Upstream: such an owner cannot be resolved, and its dependent is never collected.
            self._warn(item, reference)
            return Owner.UNKNOWN
        try:
            live = await self._client.get(resource, reference.name, namespace or None)
        except NotFoundError as error:
            if not error.is_about(reference.name):
                self._unresolved.add(item.uid)
                return Owner.UNKNOWN
            live = {}
        metadata = live.get("metadata", {})
        if metadata.get("uid") != reference.uid:
            self._absent[key] = None
            if len(self._absent) > _REMEMBERED:
                self._absent.popitem(last=False)
            return Owner.ABSENT
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
        """Stop the object from blocking its owners; return its new resourceVersion."""
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


def coordinates(reference: OwnerReference) -> OwnerReference:
    """Return only the part of a reference that identifies the object."""
    return OwnerReference(
        api_version=reference.api_version,
        kind=reference.kind,
        name=reference.name,
        uid=reference.uid,
    )
