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

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field, structs

from traincrew.api.meta import CustomObject, View
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.controller import Controller, Request, Result
from traincrew.engine.errors import NotFoundError
from traincrew.engine.logs import get_logger
from traincrew.engine.resources import PODS, Resource
from traincrew.engine.tracker import WriteTracker
from traincrew.operator.children import FIELD_MANAGER, REFUSED, ChildWriter, key_of
from traincrew.operator.patches import merge, merge_patch
from traincrew.plan.model import ChildKey, ChildView, Observed, Plan, PodView, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from traincrew.engine.client import Client
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.informer import Informer
    from traincrew.engine.manager import Manager
    from traincrew.plan.model import Event

STATUS_INTERVAL = 1.0
"""Seconds that numbers and wording wait for more of their kind, or for a condition that flips."""
_REST = 5.0
"""A job is looked at for one part of the time in five at most. Looking at thousands of pods takes
milliseconds, and when they start together each of them is a reason to look again."""
_JOB_INDEX = "job"

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


class _Memory(Struct, kw_only=True):
    """What is remembered of a job between two looks; forgotten with it.

    Attributes:
        status_differs: Since when its status is not what is stored, by the monotonic clock.
        rests_until: When it may be looked at again, by the monotonic clock.
        generations: Generation of each child, by UID, since we wrote it, or first saw it.
        made: What there has ever been of it; by its UID, because names come again.
    """

    status_differs: float | None = None
    rests_until: float = 0.0
    generations: dict[str, int] = field(default_factory=dict)
    made: dict[str, set[ChildKey]] = field(default_factory=dict)

    def made_of(self, job: CustomObject) -> set[ChildKey]:
        """What there has ever been of this very job."""
        return self.made.setdefault(job.metadata.uid, set())


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
        self._writer = ChildWriter(client, self._resources)
        self._memories: dict[Request, _Memory] = {}

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
            self._tracker.forget(request)
            self._memories.pop(request, None)
            return None
        try:
            return await self._reconcile(request, job)
        except JobGoneError:
            return None  # the cache will tell

    async def _reconcile(self, request: Request, job: CustomObject) -> Result | None:
        if self._is_stale(request):
            return Result(requeue_after=1.0)
        memory = self._memories.setdefault(request, _Memory())
        started = self._clock.monotonic()
        if (wait := memory.rests_until - started) > 0:
            return Result(requeue_after=wait)
        now = self._clock.now()
        observed = self._observe(request, job, memory)
        plan = self._kind.plan(observed, now)
        memory.rests_until = started + _REST * (self._clock.monotonic() - started)
        if plan.spec is not None:
            try:
                await self._patch_job(job, plan.spec)
            except REFUSED as error:
                # Users will not read the defaults back, but the job can run with them.
                self._log.warning("defaults not stored", error=error.message)
                completed = structs.replace(job, spec=merge(job.spec, plan.spec["spec"]))
                observed = structs.replace(observed, job=completed)
                plan = self._kind.plan(observed, now)
            else:
                return None  # the change wakes us again; then the plan is for the completed spec
        refusals = await self._write_children(request, observed, plan, memory)
        if refusals:
            plan = self._kind.plan(structs.replace(observed, refusals=refusals), now)
        version, later = await self._write_status(job, plan, memory)
        if plan.delete_job:
            await self._delete_job(job, version)
            return None
        if any(not refusal.foreign and not refusal.permanent for refusal in refusals.values()):
            key, refusal = next(iter(refusals.items()))
            raise RefusedError(f"{key.kind} {key.name}: {refusal.message}")
        waits = [seconds for seconds in (plan.look_again_after, later) if seconds is not None]
        return Result(requeue_after=max(0.0, min(waits))) if waits else None

    def _is_stale(self, request: Request) -> bool:
        informers = (self._jobs, *self._children.values())
        # All of them are asked: each drops what it has caught up with.
        stale = [self._tracker.stale(informer, request) for informer in informers]
        return any(stale)

    def _observe(self, request: Request, job: CustomObject, memory: _Memory) -> Observed:
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
        memory.made_of(job).update(children)
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
            drifted=_drifted(children, memory.generations),
        )

    # -- children -----------------------------------------------------------------------------

    async def _write_children(
        self, request: Request, observed: Observed, plan: Plan, memory: _Memory
    ) -> dict[ChildKey, Refusal]:
        made = memory.made_of(observed.job)
        await self._ensure_wanted(observed.job, plan, made)
        for stage in plan.stages:
            creates = [write.create for write in stage if write.create is not None]
            patches = [write.patch for write in stage if write.patch is not None]
            results = await self._writer.together(
                [
                    *(self._writer.create(document) for document in creates),
                    *(
                        self._writer.patch(
                            patch, observed.children[patch.key].metadata.resource_version
                        )
                        for patch in patches
                    ),
                ]
            )
            refusals = {}
            for key, result in results:
                if isinstance(result, Refusal):
                    refusals[key] = result
                elif result is not None:
                    self._note(request, key, result, memory)
                    made.add(key)
            keys = [key_of(document) for document in creates]
            self._tell(observed.job, "Create", [key for key in keys if key not in refusals])
            if refusals:
                return refusals
        gone = await self._writer.together(
            self._writer.delete(key, request.namespace, uid, _version(observed, key))
            for key, uid in plan.delete.items()
        )
        self._tell(observed.job, "Delete", [key for key in gone if key is not None])
        return {}

    async def _ensure_wanted(self, job: CustomObject, plan: Plan, made: set[ChildKey]) -> None:
        """Ask whether the job is still there before anything of it is made a second time.

        Deletions of children come by other watches than that of their job, and may come first: what
        is made then has lost its owner already, and is in the way of a new job of that name.

        Raises:
            JobGoneError: It is not, or is being deleted.
        """
        metadata = job.metadata
        creates = [write.create for stage in plan.stages for write in stage if write.create]
        if not any(key_of(document) in made for document in creates):
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

    def _tell(self, job: CustomObject, what: Written, keys: Sequence[ChildKey]) -> None:
        for event in self._kind.written(what, keys):
            self._events.event(self._reference(job), event.type, event.reason, event.message)

    def _note(
        self, request: Request, key: ChildKey, written: dict[str, Any], memory: _Memory
    ) -> None:
        self._tracker.note(self._resources[key.kind], written, request)
        metadata = written["metadata"]
        if generation := metadata.get("generation"):
            memory.generations[metadata["uid"]] = generation

    # -- the job itself -----------------------------------------------------------------------

    async def _write_status(
        self, job: CustomObject, plan: Plan, memory: _Memory
    ) -> tuple[str, float | None]:
        """Store the status if it differs.

        Returns:
            The job's version now, and seconds to wait when the status may come later.
        """
        version = job.metadata.resource_version
        changes = merge_patch(job.status, plan.status)
        if not changes:
            memory.status_differs = None
            return version, None
        now = self._clock.monotonic()
        if memory.status_differs is None:
            memory.status_differs = now
        left = memory.status_differs + STATUS_INTERVAL - now
        if not plan.urgent and left > 0:
            return version, left
        version = await self._patch_job(job, {"status": changes}, subresource="status")
        memory.status_differs = None
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


def _key(job: CustomObject) -> Request:
    return Request(job.metadata.namespace, job.metadata.name)


def _drifted(children: Mapping[ChildKey, ChildView], known: dict[str, int]) -> frozenset[ChildKey]:
    """Children whose spec has changed since we wrote it, or first saw it."""
    drifted = set()
    for key, child in children.items():
        generation = child.metadata.generation
        if generation > known.setdefault(child.metadata.uid, generation):
            drifted.add(key)
    return frozenset(drifted)


def _version(observed: Observed, key: ChildKey) -> str | None:
    """The version to delete; any of pods that others make: they are deleted for good only."""
    child = observed.children.get(key)
    return child.metadata.resource_version if child is not None else None
