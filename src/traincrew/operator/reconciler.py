"""Request -> observed -> plan -> writes: the same lines for every kind.

All cleverness is in the plan, all I/O is here. Three rules keep it safe without locks or journals:

- A child that is absent is *created*, never applied: server-side apply would take over an object of
  that name that belongs to somebody else. The API's 409 says so instead, and nothing of theirs is
  touched.
- Of a child that exists, only the fields that differ are replaced, by a JSON patch. What others
  wrote elsewhere in the object stays. Patches and deletions are bound to the version that was
  looked at.
- The status is written once, at the end, bound to the version it was derived from. Events follow
  the write that makes them true.

So a reconcile that works on an old view, or a write of a deposed leader that arrives late, is
answered with a conflict instead of undoing what others know.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct, structs

from traincrew.api.meta import CustomObject, View
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.controller import Controller, Request, Result
from traincrew.engine.errors import (
    AlreadyExistsError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from traincrew.engine.logs import get_logger
from traincrew.engine.resources import PODS, Resource
from traincrew.engine.tracker import WriteTracker
from traincrew.operator.patches import json_patch, merge, merge_patch
from traincrew.plan.model import ChildKey, ChildView, Observed, Patch, Plan, PodView, Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from traincrew.engine.client import Client
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.informer import Informer
    from traincrew.engine.manager import Manager
    from traincrew.plan.model import Event

T = TypeVar("T")

FIELD_MANAGER = "traincrew"
STATUS_INTERVAL = 1.0
"""Seconds that numbers and wording wait for more of their kind, or for a condition that flips."""
_CONCURRENT_WRITES = 32
_REST = 5.0
"""A job is looked at for one part of the time in five at most. Looking at thousands of pods takes
milliseconds, and when they start together each of them is a reason to look again."""
_JOB_INDEX = "job"
_NEW_KIND = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping"
"""What the admission plugin OwnerReferencesPermissionEnforcement says of a kind that is new to it.
It looks for new kinds every 30 s, so the first jobs after an installation would have to wait."""
_REFUSED = (InvalidError, BadRequestError, ForbiddenError)


Written = Literal["Create", "Delete"]


class Kind(Struct, frozen=True, kw_only=True):
    """What the reconciler has to know of a kind.

    Attributes:
        resource: The training jobs.
        component: Source of the events, as users know it.
        label: Label of children and pods whose value is the name of the job.
        selector: Selects the children and pods of all jobs; those that have the label by default.
        children: What a job is made of: the resource, and the view its plan works on.
        plan: The decisions.
        written: Events that tell of children that were made or deleted, and of the job when its
            time to live is over; none by default.
    """

    resource: Resource
    component: str
    label: str
    selector: str = ""
    children: tuple[tuple[Resource, type[ChildView]], ...]
    plan: Callable[[Observed, datetime], Plan]
    written: Callable[[Written, Sequence[ChildKey]], list[Event]] = lambda _what, _keys: []


class RefusedError(Exception):
    """The API refused a write that may be accepted later; retried with back-off."""


class JobGoneError(Exception):
    """The job was deleted while it was looked at."""


class Reconciler:
    """Reconciles the jobs of one kind.

    Args:
        client: The API server.
        manager: Where informers and the controller run.
        events: Where events are recorded.
        kind: The kind.
        namespace: Only jobs of this namespace; all by default.
        workers: Jobs that are looked at at the same time.
        clock: Source of time.
    """

    def __init__(
        self,
        client: Client,
        manager: Manager,
        events: EventRecorder,
        kind: Kind,
        *,
        namespace: str | None = None,
        workers: int = 4,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._events = events.reporter(kind.component)
        self._kind = kind
        self._clock = clock
        self._log = get_logger()
        self._tracker = WriteTracker(clock=clock, metrics=manager.metrics)
        self._resources = {resource.kind: resource for resource, _ in kind.children}
        self._resources[PODS.kind] = PODS
        self._limit = asyncio.Semaphore(_CONCURRENT_WRITES)
        self._status_differs: dict[Request, float] = {}
        self._rests_until: dict[Request, float] = {}
        self._generations: dict[Request, dict[str, int]] = {}
        self._made: dict[Request, dict[str, set[ChildKey]]] = {}

        self.controller = Controller(
            kind.resource.kind.lower(), self.reconcile, workers=workers, clock=clock
        )
        self._jobs = _informer(manager, kind.resource, CustomObject, namespace=namespace)
        self.controller.watch(self._jobs, lambda job: [_key(job)])
        selection = {
            "namespace": namespace,
            "label_selector": kind.selector or kind.label,
            "indexers": {_JOB_INDEX: self._job_index},
        }
        self._children = {
            resource.kind: _informer(manager, resource, view, **selection)
            for resource, view in kind.children
        }
        # A kind may make pods itself; else they are made by what it makes.
        watched = {PODS.kind: _informer(manager, PODS, PodView, **selection), **self._children}
        self._pods = watched[PODS.kind]
        for informer in watched.values():
            self.controller.watch(informer, self._job_of)
        manager.add(self.controller)

    # Bound once: indexers are compared by identity when informers are shared.
    def _job_index(self, obj: Any) -> list[str]:
        name = obj.metadata.labels.get(self._kind.label)
        return [f"{obj.metadata.namespace}/{name}"] if name else []

    def _job_of(self, obj: Any) -> list[Request]:
        name = obj.metadata.labels.get(self._kind.label)
        return [Request(obj.metadata.namespace, name)] if name else []

    # -- one reconcile ------------------------------------------------------------------------

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one job a step further."""
        job = self._jobs.store.get(request.namespace, request.name)
        if job is None:
            self._forget(request)
            return None
        try:
            return await self._reconcile(request, job)
        except JobGoneError:
            return None  # the cache will tell

    async def _reconcile(self, request: Request, job: CustomObject) -> Result | None:
        if self._is_stale(request):
            return Result(requeue_after=1.0)
        started = self._clock.monotonic()
        if (wait := self._rests_until.get(request, 0.0) - started) > 0:
            return Result(requeue_after=wait)
        now = self._clock.now()
        observed = self._observe(request, job)
        plan = self._kind.plan(observed, now)
        self._rests_until[request] = started + _REST * (self._clock.monotonic() - started)
        if plan.spec is not None:
            try:
                await self._patch_job(job, plan.spec)
            except _REFUSED as error:
                # Users will not read the defaults back, but the job can run with them.
                self._log.warning("defaults not stored", error=error.message)
                completed = structs.replace(job, spec=merge(job.spec, plan.spec["spec"]))
                observed = structs.replace(observed, job=completed)
                plan = self._kind.plan(observed, now)
            else:
                return None  # the change wakes us again; then the plan is for the completed spec
        refusals = await self._write_children(request, observed, plan)
        if refusals:
            plan = self._kind.plan(structs.replace(observed, refusals=refusals), now)
        version, later = await self._write_status(request, job, plan)
        if plan.delete_job:
            await self._delete_job(job, version)
            return None
        if any(not refusal.foreign and not refusal.permanent for refusal in refusals.values()):
            key, refusal = next(iter(refusals.items()))
            raise RefusedError(f"{key.kind} {key.name}: {refusal.message}")
        waits = [seconds for seconds in (plan.look_again_after, later) if seconds is not None]
        return Result(requeue_after=max(0.0, min(waits))) if waits else None

    def _forget(self, request: Request) -> None:
        self._tracker.forget(request)
        self._status_differs.pop(request, None)
        self._rests_until.pop(request, None)
        self._generations.pop(request, None)
        self._made.pop(request, None)

    def _is_stale(self, request: Request) -> bool:
        informers = (self._jobs, *self._children.values())
        # All of them are asked: each drops what it has caught up with.
        stale = [self._tracker.stale(informer, request) for informer in informers]
        return any(stale)

    def _observe(self, request: Request, job: CustomObject) -> Observed:
        """Children by owner UID, pods by that or the UID of children; labels only lead us there."""
        index = f"{request.namespace}/{request.name}"
        children: dict[ChildKey, ChildView] = {}
        leftovers: set[ChildKey] = set()
        for kind, informer in self._children.items():
            for child in informer.store.by_index(_JOB_INDEX, index):
                owner = child.metadata.controller
                key = ChildKey(kind, child.metadata.name)
                if owner is None or owner.kind != self._kind.resource.kind:
                    continue
                if owner.uid == job.metadata.uid:
                    children[key] = child
                else:
                    leftovers.add(key)
        self._made_of(request, job).update(children)
        uids = {job.metadata.uid, *(child.metadata.uid for child in children.values())}
        pods = [
            pod
            for pod in self._pods.store.by_index(_JOB_INDEX, index)
            if pod.metadata.controller is not None and pod.metadata.controller.uid in uids
        ]
        return Observed(
            job=job,
            children=children,
            pods=tuple(sorted(pods, key=lambda pod: pod.metadata.name)),
            leftovers=frozenset(leftovers),
            drifted=self._drifted(request, children),
        )

    def _drifted(
        self, request: Request, children: Mapping[ChildKey, ChildView]
    ) -> frozenset[ChildKey]:
        """Children whose spec has changed since we wrote it, or first saw it."""
        known = self._generations.setdefault(request, {})
        drifted = set()
        for key, child in children.items():
            generation = child.metadata.generation
            if generation > known.setdefault(child.metadata.uid, generation):
                drifted.add(key)
        return frozenset(drifted)

    # -- children -----------------------------------------------------------------------------

    async def _write_children(
        self, request: Request, observed: Observed, plan: Plan
    ) -> dict[ChildKey, Refusal]:
        await self._ensure_wanted(request, observed.job, plan)
        for stage in plan.stages:
            writes = [
                self._create(write.create)
                if write.create is not None
                else self._patch(write.patch, observed)
                for write in stage
            ]
            refusals = {}
            for key, result in await self._together(writes):
                if isinstance(result, Refusal):
                    refusals[key] = result
                elif result is not None:
                    self._note(request, key, result)
                    self._made_of(request, observed.job).add(key)
            made = [_key_of(write.create) for write in stage if write.create is not None]
            self._tell(observed.job, "Create", [key for key in made if key not in refusals])
            if refusals:
                return refusals
        deletions = [self._delete(request, observed, *item) for item in plan.delete.items()]
        gone = await self._together(deletions)
        self._tell(observed.job, "Delete", [key for key in gone if key is not None])
        return {}

    async def _ensure_wanted(self, request: Request, job: CustomObject, plan: Plan) -> None:
        """Ask whether the job is still there before anything of it is made a second time.

        Deletions of children come by other watches than that of their job, and may come first: what
        is made then has lost its owner already, and is in the way of a new job of that name.

        Raises:
            JobGoneError: It is not, or is being deleted.
        """
        metadata, known = job.metadata, self._made_of(request, job)
        creates = [write.create for stage in plan.stages for write in stage if write.create]
        if not any(_key_of(create) in known for create in creates):
            return
        # Listing is what the operator may do with jobs; getting one is not.
        found = await self._client.list(
            self._kind.resource,
            metadata.namespace,
            field_selector=f"metadata.name={metadata.name}",
        )
        for item in found["items"]:
            theirs = item["metadata"]
            if theirs["uid"] == metadata.uid and "deletionTimestamp" not in theirs:
                return
        raise JobGoneError

    def _made_of(self, request: Request, job: CustomObject) -> set[ChildKey]:
        """What there has ever been of this very job."""
        return self._made.setdefault(request, {}).setdefault(job.metadata.uid, set())

    def _tell(self, job: CustomObject, what: Written, keys: Sequence[ChildKey]) -> None:
        for event in self._kind.written(what, keys):
            self._events.event(self._reference(job), event.type, event.reason, event.message)

    async def _together(self, writes: Iterable[Awaitable[T]]) -> list[T]:
        """Several writes at a time; all have come to an end before an error is raised."""

        async def bounded(write: Awaitable[T]) -> T:
            async with self._limit:
                return await write

        results = await asyncio.gather(*map(bounded, writes), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    def _note(self, request: Request, key: ChildKey, written: dict[str, Any]) -> None:
        self._tracker.note(self._resources[key.kind], written, request)
        metadata = written["metadata"]
        if generation := metadata.get("generation"):
            self._generations.setdefault(request, {})[metadata["uid"]] = generation

    async def _create(self, document: dict[str, Any]) -> tuple[ChildKey, dict[str, Any] | Refusal]:
        key = _key_of(document)
        resource = self._resources[key.kind]
        try:
            return key, await self._post(resource, document)
        except AlreadyExistsError as error:
            return key, await self._in_the_way(resource, document, error.message)
        except (InvalidError, BadRequestError) as error:
            return key, Refusal(error.message, permanent=True)
        except ForbiddenError as error:
            return key, Refusal(error.message)

    async def _post(self, resource: Resource, document: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._client.create(resource, document, field_manager=FIELD_MANAGER)
        except ForbiddenError as error:
            if _NEW_KIND not in error.message:
                raise
            free = _not_blocking(document)
            return await self._client.create(resource, free, field_manager=FIELD_MANAGER)

    async def _in_the_way(
        self, resource: Resource, document: dict[str, Any], message: str
    ) -> dict[str, Any] | Refusal:
        """What to make of an object that has the name of a child."""
        metadata = document["metadata"]
        existing = await self._client.get(resource, metadata["name"], metadata["namespace"])
        (ours,) = metadata["ownerReferences"]
        for owner in existing["metadata"].get("ownerReferences", []):
            if owner.get("controller") and owner.get("uid") == ours["uid"]:
                return existing  # made before, by a reconcile whose answer got lost
            if owner.get("kind") == ours["kind"] and owner.get("name") == ours["name"]:
                return Refusal(f"{message}; it is of an earlier job and will be deleted")
        return Refusal(message, foreign=True)

    async def _patch(
        self, patch: Patch | None, observed: Observed
    ) -> tuple[ChildKey, dict[str, Any] | Refusal | None]:
        assert patch is not None
        resource = self._resources[patch.key.kind]
        version = observed.children[patch.key].metadata.resource_version
        try:
            return patch.key, await self._client.patch(
                resource,
                patch.key.name,
                patch.namespace,
                patch=json_patch(patch.values, version),
                kind="json",
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError:
            return patch.key, None  # the next look, at a newer view, makes it again
        except _REFUSED as error:
            return patch.key, Refusal(error.message)

    async def _delete(
        self, request: Request, observed: Observed, key: ChildKey, uid: str
    ) -> ChildKey | None:
        """Of pods that others make any version will do: they are deleted for good only.

        Returns:
            What was deleted, if it was still there.
        """
        child = observed.children.get(key)
        try:
            await self._client.delete(
                self._resources[key.kind],
                key.name,
                request.namespace,
                uid=uid,
                resource_version=child.metadata.resource_version if child is not None else None,
            )
        except NotFoundError:
            return None
        return key

    # -- the job itself -----------------------------------------------------------------------

    async def _write_status(
        self, request: Request, job: CustomObject, plan: Plan
    ) -> tuple[str, float | None]:
        """Store the status if it differs.

        Returns:
            The job's version now, and seconds to wait when the status may come later.
        """
        version = job.metadata.resource_version
        changes = merge_patch(job.status, plan.status)
        if not changes:
            self._status_differs.pop(request, None)
            return version, None
        now = self._clock.monotonic()
        left = self._status_differs.setdefault(request, now) + STATUS_INTERVAL - now
        if not plan.urgent and left > 0:
            return version, left
        version = await self._patch_job(job, {"status": changes}, subresource="status")
        self._status_differs.pop(request, None)
        for event in plan.events:
            self._log.info(event.message, reason=event.reason)
            self._events.event(self._reference(job), event.type, event.reason, event.message)
        return version, None

    async def _patch_job(
        self, job: CustomObject, patch: dict[str, Any], *, subresource: str | None = None
    ) -> str:
        """Change the job, if it is still the version that was looked at; returns the new one."""
        metadata = job.metadata
        try:
            written = await self._client.patch(
                self._kind.resource,
                metadata.name,
                metadata.namespace,
                patch={"metadata": {"resourceVersion": metadata.resource_version}, **patch},
                subresource=subresource,
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError as error:
            raise JobGoneError from error
        self._tracker.note(self._kind.resource, written, _key(job))
        version: str = written["metadata"]["resourceVersion"]
        return version

    async def _delete_job(self, job: CustomObject, version: str) -> None:
        """A user who has just given the job more time to live wins: it is another version now."""
        metadata = job.metadata
        try:
            await self._client.delete(
                self._kind.resource,
                metadata.name,
                metadata.namespace,
                uid=metadata.uid,
                resource_version=version,
            )
        except NotFoundError:
            return
        self._tell(job, "Delete", [ChildKey(self._kind.resource.kind, metadata.name)])

    def _reference(self, job: CustomObject) -> dict[str, Any]:
        return {
            "apiVersion": self._kind.resource.api_version,
            "kind": self._kind.resource.kind,
            "namespace": job.metadata.namespace,
            "name": job.metadata.name,
            "uid": job.metadata.uid,
            "resourceVersion": job.metadata.resource_version,
        }


def _informer(manager: Manager, resource: Resource, view: type[View], **kw: Any) -> Informer[Any]:
    # Views belong to the plan, which knows no engine: they fit its protocol by their attributes.
    informer: Informer[Any] = manager.informer(resource, view, **kw)
    return informer


def _key_of(document: Mapping[str, Any]) -> ChildKey:
    return ChildKey(document["kind"], document["metadata"]["name"])


def _key(job: CustomObject) -> Request:
    return Request(job.metadata.namespace, job.metadata.name)


def _not_blocking(document: dict[str, Any]) -> dict[str, Any]:
    """A child that a foreground deletion of its owner does not wait for; it goes all the same."""
    metadata = document["metadata"]
    owners = [
        {key: value for key, value in owner.items() if key != "blockOwnerDeletion"}
        for owner in metadata["ownerReferences"]
    ]
    return {**document, "metadata": {**metadata, "ownerReferences": owners}}
