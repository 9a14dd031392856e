"""A namespace that is deleted takes its content along, pods first, then goes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.engine.controller import Controller, Request, Result, own_key
from traincrew.engine.errors import ApiError, ConflictError, NotFoundError
from traincrew.engine.resources import NAMESPACES, PODS
from traincrew.local.controllers.common import FIELD_MANAGER, set_condition
from traincrew.local.controllers.informers import informer
from traincrew.local.controllers.shell import NOT_CURRENT, Shell

if TYPE_CHECKING:
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.manager import Manager
    from traincrew.engine.objects import AnyObject
    from traincrew.engine.resources import Resource
    from traincrew.local.controllers.garbage.graph import Item
    from traincrew.local.controllers.garbage.watches import Watches

FINALIZER = "kubernetes"
LOOK_AGAIN = 5.0
"""Seconds until a namespace with content is looked at again, if nothing in it goes before."""


# Conditions that are there from the beginning; what they tell of does not happen here.
_NO_FAILURES = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


def remaining_conditions(
    namespace: AnyObject, remaining: dict[str, list[dict[str, Any]]], now: float
) -> list[dict[str, Any]]:
    """Conditions that say what a namespace still waits for.

    Args:
        namespace: As the cache has it.
        remaining: `plural.group` -> metadata of what is left.
        now: Seconds since the epoch.
    """
    counts = ", ".join(
        f"{name} has {len(items)} resource instances" for name, items in sorted(remaining.items())
    )
    finalizers: dict[str, int] = {}
    for items in remaining.values():
        for metadata in items:
            for finalizer in metadata.get("finalizers") or ():
                finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
    held = ", ".join(
        f"{name} in {number} resource instances" for name, number in sorted(finalizers.items())
    )
    conditions = namespace.status.get("conditions")
    for kind, reason, message in _NO_FAILURES:
        conditions = set_condition(conditions, kind, False, reason, message, now=now)
    conditions = set_condition(
        conditions,
        "NamespaceContentRemaining",
        bool(remaining),
        "SomeResourcesRemain" if remaining else "ContentRemoved",
        f"Some resources are remaining: {counts}"
        if remaining
        else "All content successfully removed",
        now=now,
    )
    return set_condition(
        conditions,
        "NamespaceFinalizersRemaining",
        bool(held),
        "SomeFinalizersRemain" if held else "ContentHasNoFinalizers",
        f"Some content in the namespace has finalizers remaining: {held}"
        if held
        else "All content-preserving finalizers finished",
        now=now,
    )


class NamespaceReconciler:
    """One namespace at a time."""

    def __init__(self, manager: Manager, events: EventRecorder, watches: Watches) -> None:
        self._namespaces = informer(manager, NAMESPACES)
        self._shell = Shell(manager.client, events.reporter("namespace-controller"), NAMESPACES)
        self._watches = watches
        self.controller = Controller("namespace", self.reconcile, workers=2)
        self.controller.watch(self._namespaces, own_key)

    def removed(self, item: Item) -> None:
        """Something is gone; perhaps it was the last in a namespace on its way out."""
        namespace = self._namespaces.store.get(None, item.metadata.namespace)
        if namespace is not None and namespace.metadata.deletion_timestamp is not None:
            # Content goes in crowds: look once for all of them.
            self.controller.enqueue(Request("", item.metadata.namespace), after=0.02)

    async def reconcile(self, request: Request) -> Result | None:
        """Empty one namespace, and let it go once it is empty."""
        namespace = self._namespaces.store.get(None, request.name)
        if namespace is None:
            self._shell.forget(request)
            return None
        if namespace.metadata.deletion_timestamp is None:
            return None
        if not self._shell.is_current(request):
            return NOT_CURRENT
        if FINALIZER not in (namespace.spec.get("finalizers") or ()):
            return None
        await self._watches.complete()
        resources = [item for item in self._watches.resources.values() if item.namespaced]
        remaining = await self._content(request.name, resources)
        # Upstream's order: as long as there are pods, what they may need stays.
        pods = [each for each in remaining if each[0].path() == PODS.path()]
        doomed = [
            resource
            for resource, items in pods or remaining
            if any(not item.get("deletionTimestamp") for item in items)
        ]
        if doomed:
            # Deletion by name follows ownership elsewhere; here everything goes at once.
            errors = await self._shell.together(
                self._delete_all(resource, request.name) for resource in doomed
            )
            for error in errors:
                raise error
            remaining = await self._content(request.name, [item for item, _ in remaining])
        if remaining:
            await self._report(request, namespace, remaining)
            return Result(requeue_after=LOOK_AGAIN)
        await self._finalize(request.name)
        return None

    async def _content(
        self, namespace: str, resources: list[Resource]
    ) -> list[tuple[Resource, list[dict[str, Any]]]]:
        """What is there, from the server itself: a cache might not show the newest object."""
        lists = await asyncio.gather(*(self._list(item, namespace) for item in resources))
        return [(item, found) for item, found in zip(resources, lists, strict=True) if found]

    async def _list(self, resource: Resource, namespace: str) -> list[dict[str, Any]]:
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        try:
            body = await self._shell.client.request("GET", resource.path(namespace), accept=accept)
        except NotFoundError:
            return []  # a custom resource whose definition went meanwhile
        items = msgspec.json.decode(body).get("items") or []
        return [item["metadata"] for item in items]

    async def _delete_all(self, resource: Resource, namespace: str) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        try:
            await self._shell.client.request("DELETE", resource.path(namespace), body=options)
        except NotFoundError:
            return

    async def _report(
        self,
        request: Request,
        namespace: AnyObject,
        remaining: list[tuple[Resource, list[dict[str, Any]]]],
    ) -> None:
        names = {f"{resource.plural}.{resource.group}": items for resource, items in remaining}
        conditions = remaining_conditions(namespace, names, self._shell.now())
        status = {**namespace.status, "phase": "Terminating", "conditions": conditions}
        await self._shell.write_status(
            request, self._namespaces, namespace, namespace.status, status
        )

    async def _finalize(self, name: str) -> None:
        client = self._shell.client
        try:
            live = await client.get(NAMESPACES, name)
            kept = [item for item in live["spec"].get("finalizers") or () if item != FINALIZER]
            live["spec"]["finalizers"] = kept
            await client.replace(
                NAMESPACES, live, subresource="finalize", field_manager=FIELD_MANAGER
            )
        except NotFoundError:
            return
        except ApiError as error:
            if error.code == 409:
                raise ConflictError(error.message, code=409) from error
            raise
