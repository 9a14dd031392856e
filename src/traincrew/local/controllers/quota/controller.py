"""Maintains `status.hard` and `status.used` of ResourceQuotas.

Admission adds new objects to the usage (`apiserver.admission.quota`); this controller initializes
the status, and recounts whenever an object in a namespace with quotas is created, finishes or is
deleted.

It counts what the server lists, not what caches contain, in this order: read the quota, list, write
on condition that the quota has not changed since. Every object admitted meanwhile changes the
quota, so that no admitted object is ever missed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, Result, own_key
from traincrew.engine.errors import ConflictError, NotFoundError, ServerError
from traincrew.engine.resources import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES
from traincrew.local import quotas
from traincrew.local.controllers.common import FIELD_MANAGER
from traincrew.local.controllers.discovery import discover
from traincrew.local.controllers.informers import NAMESPACE, informer

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.controller import Manager
    from traincrew.engine.objects import AnyObject
    from traincrew.engine.resources import Resource

__all__ = ["QuotaController", "add_quota_controller"]

MIN_INTERVAL = 0.25
"""Minimum seconds between two counts of a quota, or each of a thousand new pods would cause one."""
RESYNC = 300.0
"""Seconds until a quota is recounted without any change, as upstream does."""
_CONFLICT_RETRY = 0.05


class QuotaController:
    """Reconciles one ResourceQuota at a time.

    Args:
        manager: Runs the shared caches.
        clock: Seconds since the epoch.
    """

    def __init__(self, manager: Manager, clock: Callable[[], float] = time.time) -> None:
        self._client = manager.client
        self._clock = clock
        self._quotas = informer(manager, RESOURCE_QUOTAS)
        self._counted: dict[Request, float] = {}
        """When each quota was counted last, in seconds of `time.monotonic`."""
        self._known: dict[str, Resource] = {}
        self.controller = Controller("resource-quota", self.reconcile, workers=2)
        self.controller.watch(self._quotas, own_key)
        for resource in (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS):
            watched = informer(manager, resource)
            self.controller.informers.append(watched)
            watched.add_handler(self._changed(_identifier(resource)))

    # -- what triggers a count -----------------------------------------------------------------

    def _changed(self, identifier: str) -> Callable[[AnyObject | None, AnyObject | None], None]:
        def handle(old: AnyObject | None, new: AnyObject | None) -> None:
            if old is None or new is None:
                return  # `touch` is called for those
            if identifier == "pods" and _counts(old) == _counts(new):
                return
            if identifier != "pods" and old.spec == new.spec:
                return
            self._enqueue(identifier, new.metadata.namespace)

        return handle

    def touch(self, resource: Resource, namespace: str) -> None:
        """Queue the quotas of an object, of any kind, that was created or deleted."""
        if namespace:
            self._enqueue(_identifier(resource), namespace)

    def _enqueue(self, identifier: str, namespace: str) -> None:
        for quota in self._quotas.store.by_index(NAMESPACE, namespace):
            if quotas.matching_names(identifier, quota.spec.get("hard") or {}):
                self.controller.enqueue(Request(namespace, quota.metadata.name))

    # -- counting ------------------------------------------------------------------------------

    async def reconcile(self, request: Request) -> Result | None:
        """Recount one quota.

        Raises:
            ApiError: The server refused.
        """
        if self._quotas.store.get(*request) is None:
            self._counted.pop(request, None)
            return None
        wait = self._counted.get(request, float("-inf")) + MIN_INTERVAL - time.monotonic()
        if wait > 0:
            return Result(requeue_after=wait)
        self._counted[request] = time.monotonic()
        try:
            quota = await self._client.get(RESOURCE_QUOTAS, request.name, request.namespace)
            await self._write(quota, await self._status(quota))
        except NotFoundError:
            return None
        except ConflictError:
            del self._counted[request]
            return Result(requeue_after=_CONFLICT_RETRY)
        return Result(requeue_after=RESYNC)

    async def _status(self, quota: dict[str, Any]) -> dict[str, Any]:
        spec, namespace = quota.get("spec") or {}, quota["metadata"]["namespace"]
        hard = spec.get("hard") or {}
        objects = {
            identifier: await self._list(identifier, namespace)
            for identifier in quotas.counted_resources(hard)
        }
        return {"hard": hard, "used": quotas.total(spec, hard, objects, self._clock())}

    async def _list(self, identifier: str, namespace: str) -> list[dict[str, Any]]:
        """List a resource in a namespace; empty while the server does not serve it."""
        resource = self._known.get(identifier)
        if resource is None:
            found = await discover(self._client)
            self._known = {_identifier(each): each for each in found.preferred({"list"})}
            resource = self._known.get(identifier)
            if resource is None and found.failed:
                raise ServerError(f"whether there are {identifier} is unknown at the moment")
        if resource is None or not resource.namespaced:
            return []
        try:
            items: list[dict[str, Any]] = (await self._client.list(resource, namespace))["items"]
        except NotFoundError:  # no longer in this version, or not at all
            self._known.pop(identifier)
            return []
        return items

    async def _write(self, quota: dict[str, Any], status: dict[str, Any]) -> None:
        before = quota.get("status") or {}
        if all(quotas.same(before.get(key) or {}, amounts) for key, amounts in status.items()):
            return
        metadata = {key: quota["metadata"][key] for key in ("uid", "resourceVersion")}
        gone = {
            key: dict.fromkeys((before.get(key) or {}).keys() - amounts.keys())
            for key, amounts in status.items()
        }
        await self._client.patch(
            RESOURCE_QUOTAS,
            quota["metadata"]["name"],
            quota["metadata"]["namespace"],
            patch={
                "metadata": metadata,
                "status": {key: amounts | gone[key] for key, amounts in status.items()},
            },
            subresource="status",
            field_manager=FIELD_MANAGER,
        )


def _identifier(resource: Resource) -> str:
    """Return the name of a resource in quotas: ``pods``, ``jobs.batch``."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _counts(pod: AnyObject) -> tuple[bool, bool]:
    """Return the state of a pod that decides which quotas count it."""
    ended = pod.status.get("phase") in {"Failed", "Succeeded"}
    return ended, pod.spec.get("activeDeadlineSeconds") is not None


def add_quota_controller(manager: Manager) -> QuotaController:
    """Add the controller; its `touch` must be called for every created or deleted object."""
    quota = QuotaController(manager)
    manager.add(quota.controller)
    return quota
