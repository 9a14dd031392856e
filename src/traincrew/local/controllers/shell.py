"""Everything a built-in controller does besides deciding: writes, events, and not acting twice.

A cache lags behind the writes of its own process. `Shell` notes every write, per request, and
`is_current` says whether the caches show them all. A reconcile that is not current ends at once;
the watch event it waits for brings it back.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Result
from traincrew.engine.errors import ApiError, ConflictError, ForbiddenError, NotFoundError
from traincrew.engine.tracker import WriteTracker
from traincrew.local.controllers.claims import adoption_patch, claim, release_patch
from traincrew.local.controllers.common import (
    FIELD_MANAGER,
    merge_difference,
    object_reference,
    owner_reference,
)
from traincrew.local.controllers.informers import CONTROLLER, ORPHANS
from traincrew.local.controllers.writes import Note

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from traincrew.engine.client import Client
    from traincrew.engine.controller import Request
    from traincrew.engine.events import Reporter
    from traincrew.engine.informer import Informer
    from traincrew.engine.objects import AnyObject
    from traincrew.engine.resources import Resource

AT_ONCE = 16
"""Requests one reconcile has open at the same time."""
NOT_CURRENT = Result(requeue_after=1.0)
"""What a reconcile answers when the caches have not caught up; an event usually comes first."""


class Shell:
    """Writes for one controller.

    Args:
        client: The API server.
        events: Where notes go.
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

    def wrote(
        self, request: Request, informer: Informer[AnyObject], obj: Mapping[str, Any]
    ) -> None:
        """Remember a write whose answer was `obj`."""
        self._informers.add(informer)
        self._tracker.note(informer.resource, obj, request)

    def is_current(self, request: Request) -> bool:
        """Whether the caches show every write made for this request."""
        return not any(self._tracker.stale(informer, request) for informer in self._informers)

    def forget(self, request: Request) -> None:
        """The object is gone."""
        self._tracker.forget(request)

    # -- writes ------------------------------------------------------------------------------

    async def together(self, actions: Iterable[Coroutine[Any, Any, Any]]) -> list[Exception]:
        """Await all, `AT_ONCE` at a time; the errors of those that failed."""
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
                await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(waiting)))))
        finally:
            for action in waiting:
                action.close()
        return errors

    async def create(
        self, request: Request, informer: Informer[AnyObject], obj: dict[str, Any]
    ) -> dict[str, Any]:
        """POST.

        Raises:
            ApiError: The server refused.
        """
        created = await self.client.create(informer.resource, obj, field_manager=FIELD_MANAGER)
        self.wrote(request, informer, created)
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
        """Merge patch, or JSON patch if it is a list; False if the object is gone.

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
        self.wrote(request, informer, written)
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
            request: What is being reconciled.
            informer: Cache of its kind.
            obj: The object.
            old: Its status as the server has it.
            new: Its status as it should be.
            version: Refuse if the object is not at this resourceVersion.

        Returns:
            The object's resourceVersion after the write; empty if it is gone.

        Raises:
            ConflictError: The object changed meanwhile.
        """
        difference = merge_difference(old, new)
        if not difference:
            return version or obj.metadata.resource_version
        metadata: dict[str, Any] = {"uid": obj.metadata.uid}
        if version:
            metadata["resourceVersion"] = version
        try:
            written = await self.client.patch(
                informer.resource,
                obj.metadata.name,
                obj.metadata.namespace,
                patch={"metadata": metadata, "status": difference},
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError:
            return ""
        self.wrote(request, informer, written)
        return str(written["metadata"]["resourceVersion"])

    async def delete(self, request: Request, informer: Informer[AnyObject], obj: AnyObject) -> bool:
        """DELETE this incarnation; False if it is gone already.

        Raises:
            ApiError: The server refused.
        """
        try:
            gone = await self.client.delete(
                informer.resource,
                obj.metadata.name,
                obj.metadata.namespace,
                uid=obj.metadata.uid,
            )
        except (NotFoundError, ConflictError):
            return False
        self.wrote(request, informer, gone)
        return True

    async def remove_finalizer(
        self, request: Request, informer: Informer[AnyObject], obj: AnyObject, finalizer: str
    ) -> None:
        """Take one finalizer off; no harm if it or the object is gone.

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
        """The object as the server has it now; None if it is gone or another took its name."""
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
        """What `owner` controls, after adopting orphans and releasing what does not match.

        Args:
            request: What is being reconciled.
            owner: The workload.
            informer: Cache of the kind to claim.
            selector: Decides; its `spec.selector` if not given.
            fits: A further condition.
            finalizers: Come and go together with the ownership.

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
        # The cache may show an owner that is being deleted as alive: ask before adopting.
        live = await self._live(self._resource, owner)
        if live is None or live["metadata"].get("deletionTimestamp"):
            return claims.mine
        reference = owner_reference(owner, self._resource)
        for obj in claims.adopt:
            await self.patch(request, informer, obj, adoption_patch(obj, reference, finalizers))
        return None

    # -- events ------------------------------------------------------------------------------

    def note(self, about: AnyObject, *notes: Note) -> None:
        """Record events about the reconciled object."""
        reference = object_reference(about, self._resource)
        for note in notes:
            self._events.event(reference, note.type, note.reason, note.message)

    async def create_pod(
        self,
        request: Request,
        informer: Informer[AnyObject],
        owner: AnyObject,
        pod: dict[str, Any],
    ) -> None:
        """Make a pod and tell about it, in the words of Job and ReplicaSet.

        Raises:
            ApiError: The server refused; there is an event about that too.
        """
        try:
            created = await self.create(request, informer, pod)
        except ApiError as error:
            if not is_namespace_terminating(error):
                self.note(
                    owner, Note("FailedCreate", f"Error creating: {error.message}", "Warning")
                )
            raise
        self.note(owner, Note("SuccessfulCreate", f"Created pod: {created['metadata']['name']}"))

    async def delete_pod(
        self,
        request: Request,
        informer: Informer[AnyObject],
        owner: AnyObject,
        pod: AnyObject,
        release: str = "",
    ) -> None:
        """Delete a pod and tell about it, in the words of Job and ReplicaSet.

        Raises:
            ApiError: The server refused; there is an event about that too.
        """
        try:
            if release:
                await self.remove_finalizer(request, informer, pod, release)
            deleted = await self.delete(request, informer, pod)
        except ApiError as error:
            self.note(owner, Note("FailedDelete", f"Error deleting: {error.message}", "Warning"))
            raise
        if deleted:
            self.note(owner, Note("SuccessfulDelete", f"Deleted pod: {pod.metadata.name}"))


def look_again(moment: float | None, now: float) -> Result | None:
    """What a reconcile answers that wants to be called at a moment (seconds since the epoch)."""
    return None if moment is None else Result(requeue_after=max(0.0, moment - now) + 0.001)


def is_namespace_terminating(error: Exception) -> bool:
    """Whether a creation failed only because the whole namespace is going."""
    if not isinstance(error, ForbiddenError):
        return False
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes) or (
        "because it is being terminated" in error.message
    )
