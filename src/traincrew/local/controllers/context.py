"""The I/O of a built-in controller: writes, events, and reading its own writes.

A cache lags behind the writes of its own process. `ControllerContext` tracks every write, per
request, and `is_current` reports whether the caches contain them all. A reconcile that is not
current ends at once; the watch event it waits for queues it again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from traincrew.engine import mergepatch
from traincrew.engine.controller import Result, WriteTracker
from traincrew.engine.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    is_namespace_terminating,
)
from traincrew.local.controllers.claims import adoption_patch, claim, release_patch
from traincrew.local.controllers.common import (
    FIELD_MANAGER,
    object_reference,
    owner_reference,
)
from traincrew.local.controllers.informers import CONTROLLER, ORPHANS
from traincrew.local.controllers.writes import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from traincrew.engine.cache import Informer
    from traincrew.engine.client import Client
    from traincrew.engine.controller import Request
    from traincrew.engine.events import Reporter
    from traincrew.engine.objects import AnyObject
    from traincrew.engine.resources import Resource

MAX_CONCURRENT = 16
"""Requests that one reconcile has in flight at the same time."""
NOT_CURRENT = Result(requeue_after=1.0)
"""Result of a reconcile if the caches have not caught up; an event usually comes earlier."""


class ControllerContext:
    """Writes and events of one controller.

    Args:
        client: The API server.
        events: Records the events.
        resource: The kind this controller reconciles.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        client: Client,
        events: Reporter,
        resource: Resource,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.client = client
        self.now = clock
        self._events = events
        self._resource = resource
        self._tracker = WriteTracker()
        self._informers: set[Informer[AnyObject]] = set()

    # -- read your writes --------------------------------------------------------------------

    def track_write(
        self, request: Request, informer: Informer[AnyObject], obj: Mapping[str, Any]
    ) -> None:
        """Track a write whose response was `obj`."""
        self._informers.add(informer)
        self._tracker.note(informer.resource, obj, request)

    def is_current(self, request: Request) -> bool:
        """Return whether the caches contain every write made for this request."""
        return not any(self._tracker.stale(informer, request) for informer in self._informers)

    def forget(self, request: Request) -> None:
        """Drop the tracked writes of a request whose object is gone."""
        self._tracker.forget(request)

    # -- writes ------------------------------------------------------------------------------

    async def run_all(self, actions: Iterable[Coroutine[Any, Any, Any]]) -> list[Exception]:
        """Await all actions, `MAX_CONCURRENT` at a time; return the errors of those that failed."""
        waiting = deque(actions)
        errors: list[Exception] = []

        async def work() -> None:
            while waiting:
                try:
                    await waiting.popleft()
                except Exception as error:  # noqa: BLE001 - handed to the caller
                    errors.append(error)

        try:
            if len(waiting) == 1:
                await work()
            else:
                await asyncio.gather(*(work() for _ in range(min(MAX_CONCURRENT, len(waiting)))))
        finally:
            for action in waiting:
                action.close()
        return errors

    async def create(
        self, request: Request, informer: Informer[AnyObject], obj: dict[str, Any]
    ) -> dict[str, Any]:
        """Create an object.

        Raises:
            ApiError: The server refused.
        """
        created = await self.client.create(informer.resource, obj, field_manager=FIELD_MANAGER)
        self.track_write(request, informer, created)
        return created

    async def patch(
        self,
        request: Request,
        informer: Informer[AnyObject],
        obj: AnyObject,
        patch: dict[str, Any] | list[Any],
        *,
        subresource: str | None = None,
    ) -> bool:
        """Send a merge patch, or a JSON patch if it is a list; False if the object is gone.

        Raises:
            ApiError: The server refused.
        """
        try:
            written = await self.client.patch(
                informer.resource,
                obj.metadata.name,
                obj.metadata.namespace,
                patch=patch,
                kind="json" if isinstance(patch, list) else "merge",
                subresource=subresource,
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError:
            return False
        self.track_write(request, informer, written)
        return True

    async def write_status(
        self,
        request: Request,
        informer: Informer[AnyObject],
        obj: AnyObject,
        old: Mapping[str, Any],
        new: Mapping[str, Any],
        *,
        version: str = "",
    ) -> str:
        """Send the difference between two states of `status`; nothing if there is none.

        Args:
            request: The request being reconciled.
            informer: Cache of its kind.
            obj: The object.
            old: Its status on the server.
            new: Its desired status.
            version: Fail if the object is not at this resourceVersion.

        Returns:
            The object's resourceVersion after the write; empty if it is gone.

        Raises:
            ConflictError: The object changed meanwhile.
        """
        changes = mergepatch.difference(old, new)
        if not changes:
            return version or obj.metadata.resource_version
        metadata: dict[str, Any] = {"uid": obj.metadata.uid}
        if version:
            metadata["resourceVersion"] = version
        try:
            written = await self.client.patch(
                informer.resource,
                obj.metadata.name,
                obj.metadata.namespace,
                patch={"metadata": metadata, "status": changes},
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError:
            return ""
        self.track_write(request, informer, written)
        return str(written["metadata"]["resourceVersion"])

    async def delete(self, request: Request, informer: Informer[AnyObject], obj: AnyObject) -> bool:
        """Delete this incarnation; False if it is already gone.

        Raises:
            ApiError: The server refused.
        """
        name, namespace, uid = obj.metadata.name, obj.metadata.namespace, obj.metadata.uid
        deleting = self.client.delete(informer.resource, name, namespace, propagation=None, uid=uid)
        deleted = await self.client.unless_gone(
            deleting, informer.resource, name, namespace, uid=uid
        )
        if deleted is None:
            return False
        self.track_write(request, informer, deleted)
        return True

    async def remove_finalizer(
        self, request: Request, informer: Informer[AnyObject], obj: AnyObject, finalizer: str
    ) -> None:
        """Remove one finalizer; do nothing if it or the object is gone.

        Raises:
            ApiError: The server refused, or the object kept changing.
        """
        finalizers: list[str] = list(obj.metadata.finalizers)
        for _ in range(5):
            if finalizer not in finalizers:
                return
            path = f"/metadata/finalizers/{finalizers.index(finalizer)}"
            patch = [
                {"op": "test", "path": "/metadata/uid", "value": obj.metadata.uid},
                {"op": "test", "path": path, "value": finalizer},
                {"op": "remove", "path": path},
            ]
            try:
                await self.patch(request, informer, obj, patch)
            except ApiError as error:
                if error.code not in {400, 409, 422}:
                    raise
                live = await self._live(informer.resource, obj)
                finalizers = (live or {}).get("metadata", {}).get("finalizers") or []
            else:
                return
        raise ConflictError(f"{obj.metadata.name}: the list of finalizers keeps changing")

    async def _live(self, resource: Resource, obj: AnyObject) -> dict[str, Any] | None:
        """Read the object from the server; None if it is gone or another one has its name."""
        try:
            live = await self.client.get(resource, obj.metadata.name, obj.metadata.namespace)
        except NotFoundError:
            return None
        return live if live["metadata"]["uid"] == obj.metadata.uid else None

    # -- ownership ---------------------------------------------------------------------------

    async def claim(
        self,
        request: Request,
        owner: AnyObject,
        informer: Informer[AnyObject],
        *,
        selector: Mapping[str, Any] | None = None,
        fits: Callable[[AnyObject], bool] = lambda _: True,
        finalizers: tuple[str, ...] = (),
    ) -> list[AnyObject] | None:
        """Adopt orphans, release what does not match, and return what `owner` controls.

        Args:
            request: The request being reconciled.
            owner: The workload.
            informer: Cache of the kind to claim.
            selector: Selector of the objects; its `spec.selector` by default.
            fits: A further condition.
            finalizers: Added and removed together with the ownership.

        Returns:
            None if something was adopted: the caches have to catch up first.

        Raises:
            ApiError: The server refused.
        """
        store = informer.store
        claims = claim(
            owner,
            owner.spec.get("selector") if selector is None else selector,
            store.by_index(CONTROLLER, owner.metadata.uid),
            store.by_index(ORPHANS, owner.metadata.namespace),
            fits,
        )
        for obj in claims.release:
            patch = release_patch(obj, [owner.metadata.uid], finalizers)
            await self.patch(request, informer, obj, patch)
        if not claims.adopt:
            return claims.mine
        # The cache may not show yet that the owner is being deleted: check before adopting.
        live = await self._live(self._resource, owner)
        if live is None or live["metadata"].get("deletionTimestamp"):
            return claims.mine
        reference = owner_reference(owner, self._resource)
        for obj in claims.adopt:
            await self.patch(request, informer, obj, adoption_patch(obj, reference, finalizers))
        return None

    # -- events ------------------------------------------------------------------------------

    def record(self, about: AnyObject, *events: Event) -> None:
        """Record events about the reconciled object."""
        reference = object_reference(about, self._resource)
        for event in events:
            self._events.event(reference, event.type, event.reason, event.message)

    async def create_pod(
        self,
        request: Request,
        informer: Informer[AnyObject],
        owner: AnyObject,
        pod: dict[str, Any],
    ) -> None:
        """Create a pod and record an event, in the words of Job and ReplicaSet.

        Raises:
            ApiError: The server refused; an event is recorded for that, too.
        """
        try:
            created = await self.create(request, informer, pod)
        except ApiError as error:
            if not is_namespace_terminating(error):
                self.record(
                    owner, Event("FailedCreate", f"Error creating: {error.message}", "Warning")
                )
            raise
        self.record(owner, Event("SuccessfulCreate", f"Created pod: {created['metadata']['name']}"))

    async def delete_pod(
        self,
        request: Request,
        informer: Informer[AnyObject],
        owner: AnyObject,
        pod: AnyObject,
        release: str = "",
    ) -> None:
        """Delete a pod and record an event, in the words of Job and ReplicaSet.

        Raises:
            ApiError: The server refused; an event is recorded for that, too.
        """
        try:
            if release:
                await self.remove_finalizer(request, informer, pod, release)
            deleted = await self.delete(request, informer, pod)
        except ApiError as error:
            self.record(owner, Event("FailedDelete", f"Error deleting: {error.message}", "Warning"))
            raise
        if deleted:
            self.record(owner, Event("SuccessfulDelete", f"Deleted pod: {pod.metadata.name}"))


def requeue(moment: float | None, now: float) -> Result | None:
    """Return the result of a reconcile to be requeued at a moment (seconds since the epoch)."""
    return None if moment is None else Result(requeue_after=max(0.0, moment - now) + 0.001)
