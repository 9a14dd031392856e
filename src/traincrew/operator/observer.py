"""Collects the observed state of a job: from caches, or from the API server where those may lag."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from traincrew.api.fullstatus import ProjectJob
from traincrew.api.meta import CustomObject, OwnerReference, View
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.controller import Request, WriteTracker
from traincrew.engine.errors import ApiError, NotFoundError
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import PODS, Resource
from traincrew.operator.protection import USERS_INDEX, users_index
from traincrew.plan.shared import stall
from traincrew.plan.shared.model import ChildKey, Observed
from traincrew.plan.shared.views import ChildView, ObservedPod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from traincrew.engine.cache import Informer
    from traincrew.engine.client import Client
    from traincrew.engine.controller import Manager
    from traincrew.operator.children import ChildWriter
    from traincrew.operator.jobstate import JobState
    from traincrew.operator.kind import OperatedKind
    from traincrew.operator.progress import Reports
    from traincrew.plan.shared.model import LogKey, ObjectKey, OutputQuery

_JOB_INDEX = "job"
_LOG_LINES = 400
_LOG_BYTES = 65536
_LOG_SECONDS = 5.0
"""Limits of reading a log: lines from its end, bytes, and seconds."""
_STAMP_BYTES = 64
"""Sufficient for the time that begins each line of a log."""


class Observer:
    """Caches of the jobs of one kind, of their children and pods.

    Args:
        client: The API server, used where the caches are not sufficient.
        manager: Where informers run.
        kind: The kind.
        writer: Restores the labels by which objects are selected.
        tracker: Tracks whether the caches contain our own writes.
        namespace: Only jobs of this namespace; all by default.
        reports: What training programs report; nothing by default.
        clock: Source of time.
    """

    def __init__(
        self,
        client: Client,
        manager: Manager,
        kind: OperatedKind,
        writer: ChildWriter,
        tracker: WriteTracker,
        *,
        namespace: str | None = None,
        reports: Reports | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._clock = clock
        self._kind = kind
        self._writer = writer
        self._tracker = tracker
        self._reports = reports
        self._log = get_logger()
        view = ProjectJob if kind.project is not None else CustomObject
        users = {USERS_INDEX: users_index(kind.protection)} if kind.protection is not None else None
        self.jobs = _informer(manager, kind.resource, view, namespace=namespace, indexers=users)
        selection = {
            "namespace": namespace,
            "label_selector": kind.selector or kind.label,
            "indexers": {_JOB_INDEX: _job_index(kind.label)},
        }
        self._children = {
            resource.kind: _informer(manager, resource, view, **selection)
            for resource, view in kind.children
        }
        self._descendants = {
            resource.kind: _informer(manager, resource, ChildView, **selection)
            for resource in kind.descendants
        }
        self._owning = {**self._children, **self._descendants}
        self._references = {resource.kind: resource for resource in kind.references}
        # A kind may create pods itself; else its children create them.
        self.watched = {
            PODS.kind: _informer(manager, PODS, ObservedPod, **selection),
            **self._descendants,
            **self._children,
        }
        self._pods = self.watched[PODS.kind]

    def job_of(self, obj: Any) -> list[Request]:
        """Return the job of a child or pod, by its label."""
        name = obj.metadata.labels.get(self._kind.label)
        return [Request(obj.metadata.namespace, name)] if name else []

    def is_stale(self, request: Request) -> bool:
        """Return whether a cache does not contain a write of ours yet."""
        informers = {self.jobs, *self.watched.values()}
        # Check all of them: each check drops the writes that its cache contains by now.
        stale = [self._tracker.stale(informer, request) for informer in informers]
        return any(stale)

    def observe(self, request: Request, job: CustomObject, memory: JobState) -> Observed:
        """Collect the job's children and pods: candidates by label, then checked by owner UID."""
        index = f"{request.namespace}/{request.name}"
        children: dict[ChildKey, ChildView] = {}
        leftovers: set[ChildKey] = set()
        namesakes: set[str] = set()
        for kind, informer in self._children.items():
            for child in informer.store.by_index(_JOB_INDEX, index):
                owner = child.metadata.controller
                key = ChildKey(kind, child.metadata.name)
                if owner is None or owner.kind != self._kind.resource.kind:
                    continue
                group = owner.api_version.rpartition("/")[0]
                if group != self._kind.resource.group:
                    namesakes.add(group)
                    continue
                if owner.uid == job.metadata.uid:
                    children[key] = child
                else:
                    leftovers.add(key)
        memory.children_of(job).update(children)
        candidates = self._pods.store.by_index(_JOB_INDEX, index)
        pods = _pods_of(self._owners(job, children), candidates)
        uids, reports = {pod.metadata.uid for pod in pods}, self._reports
        memory.logs = {key: text for key, text in memory.logs.items() if key.uid in uids}
        memory.outputs = {key: each for key, each in memory.outputs.items() if key.uid in uids}
        return Observed(
            job=job,
            children=children,
            pods=pods,
            departing=self._departing(candidates),
            leftovers=frozenset(leftovers),
            namesakes=tuple(sorted(namesakes)),
            drifted=_drifted(children, memory.generations),
            logs=dict(memory.logs),
            outputs=dict(memory.outputs),
            rejections=dict(memory.rejections),
            progress=reports.newest(self._kind.resource, request, job) if reports else None,
            positions=reports.positions(self._kind.resource, request, job) if reports else (),
        )

    def _owners(self, job: CustomObject, children: Mapping[ChildKey, ChildView]) -> set[str]:
        """Return the UIDs of what may own pods of a job."""
        uids = {job.metadata.uid, *(child.metadata.uid for child in children.values())}
        index = f"{job.metadata.namespace}/{job.metadata.name}"
        for informer in self._descendants.values():
            uids |= _owned_by(uids, informer.store.by_index(_JOB_INDEX, index))
        return uids

    def pod_of(self, job: CustomObject, uid: str) -> str | None:
        """Return the name of a pod, by UID, of a job: its own, or that of a child."""
        index = f"{job.metadata.namespace}/{job.metadata.name}"
        for pod in self._pods.store.by_index(_JOB_INDEX, index):
            owner = pod.metadata.controller
            if pod.metadata.uid == uid and owner is not None:
                uids = {job.metadata.uid}
                for informers in (self._children, self._descendants):
                    for informer in informers.values():
                        uids |= _owned_by(uids, informer.store.by_index(_JOB_INDEX, index))
                return pod.metadata.name if owner.uid in uids else None
        return None

    def _departing(self, candidates: Iterable[ObservedPod]) -> tuple[ObservedPod, ...]:
        """Return the pods of children that are not in the caches any more."""
        return tuple(
            pod
            for pod in candidates
            if self._is_gone(pod.metadata.namespace, pod.metadata.controller)
        )

    def _is_gone(self, namespace: str, owner: OwnerReference | None) -> bool:
        """Return whether an owner is not in the caches any more, or what owns that."""
        if owner is None or (informer := self._owning.get(owner.kind)) is None:
            return False
        found = informer.store.get(namespace, owner.name)
        if found is None or found.metadata.uid != owner.uid:
            return True
        descends = owner.kind in self._descendants
        return descends and self._is_gone(namespace, found.metadata.controller)

    async def restore_labels(self, request: Request, observed: Observed, memory: JobState) -> bool:
        """Restore objects that left the caches without being deleted; return whether any did.

        The caches select by our labels, so an object that loses them seems to be deleted. Only the
        API server can show which it is.
        """
        pods = {ChildKey(PODS.kind, pod.metadata.name): pod for pod in observed.pods}
        now: dict[ChildKey, ChildView] = {**observed.children, **pods}
        # Pods of a child that was deleted are not ours any more, but have their labels.
        left = {ChildKey(PODS.kind, pod.metadata.name) for pod in observed.departing}
        missing = [
            (key, view.metadata)
            for key, view in memory.seen.items()
            if key not in now and key not in left and view.metadata.deletion_timestamp is None
        ]
        found = await self._writer.together(
            self._writer.restore_labels(key, request.namespace, metadata.labels, uid=metadata.uid)
            for key, metadata in missing
        )
        memory.seen = now
        restored = False
        for (key, _), stored in zip(missing, found, strict=True):
            if stored is None or "deletionTimestamp" in stored["metadata"]:
                continue
            self._log.warning("labels restored", kind=key.kind, name=key.name)
            self._tracker.note(self._writer.resources[key.kind], stored, request)
            restored = True
        return restored

    async def restore_unseen(
        self, request: Request, job: CustomObject, unseen: Iterable[ChildKey]
    ) -> bool:
        """Restore the label of children that are not in the caches; return whether any exists."""
        restored = False
        for key in unseen:
            labels = {self._kind.label: job.metadata.name}
            stored = await self._writer.restore_labels(
                key, request.namespace, labels, owner=job.metadata.uid
            )
            if stored is not None:
                self._tracker.note(self._writer.resources[key.kind], stored, request)
                restored = True
        return restored

    async def confirm_pods(self, request: Request, observed: Observed) -> Observed:
        """Return the observed state with the pods as the API server lists them now."""
        kind, job = self._kind, observed.job
        found = await self._client.list(
            PODS,
            request.namespace,
            label_selector=f"{kind.selector or kind.label},{kind.label}={request.name}",
        )
        for item in found["items"]:  # the next reconcile waits until the cache has them
            self._tracker.note(PODS, item, request)
        views = msgspec.convert(found["items"], list[ObservedPod], strict=False)
        others = {key: view for key, view in observed.children.items() if key.kind != PODS.kind}
        pods = _pods_of(self._owners(job, others), views)
        children = observed.children
        if PODS.kind in self._children:
            children = {**others, **{ChildKey(PODS.kind, pod.metadata.name): pod for pod in pods}}
        return structs.replace(
            observed,
            pods=pods,
            children=children,
            departing=self._departing(views),
            confirmed=True,
        )

    async def read_objects(
        self, keys: Iterable[ObjectKey], namespace: str
    ) -> dict[ObjectKey, dict[str, Any] | None]:
        """Return what a job refers to, as stored; None for what does not exist."""
        found: dict[ObjectKey, dict[str, Any] | None] = {}
        for key in keys:
            try:
                resource = self._references[key.kind]
                where = namespace if resource.namespaced else None
                found[key] = await self._client.get(resource, key.name, where)
            except NotFoundError:
                found[key] = None
        return found

    async def read_logs(self, request: Request, keys: Iterable[LogKey], memory: JobState) -> None:
        """Read the ends of some logs; only once, even if that fails."""
        for key in keys:
            text = b""
            try:
                async with asyncio.timeout(_LOG_SECONDS):
                    async for chunk in self._client.logs(
                        key.pod,
                        request.namespace,
                        container=key.container,
                        tail=_LOG_LINES,
                        previous=key.previous,
                    ):
                        text = (text + chunk)[-_LOG_BYTES:]
            except (ApiError, TimeoutError) as error:
                self._log.info("log not read", pod=key.pod, error=str(error))
            memory.logs[key] = text.decode(errors="replace")

    async def read_outputs(self, request: Request, query: OutputQuery, memory: JobState) -> None:
        """Read when containers last wrote output.

        One after another, up to the first with recent output, or that cannot be read: the others
        make no difference then.
        """
        for key in query.keys:
            text: str | None = None
            try:
                async with asyncio.timeout(_LOG_SECONDS):
                    chunks = [
                        chunk
                        async for chunk in self._client.logs(
                            key.pod,
                            request.namespace,
                            container=key.container,
                            tail=1,
                            timestamps=True,
                            limit_bytes=_STAMP_BYTES,
                        )
                    ]
                text = b"".join(chunks).decode(errors="replace")
            except (ApiError, TimeoutError) as error:
                self._log.info("output not read", pod=key.pod, error=str(error))
            output = stall.output_after(memory.outputs.get(key), text, self._clock.now())
            memory.outputs[key] = output
            if not output.known or (output.written_at and output.written_at > query.since):
                return


@cache  # indexers are compared by identity when informers are shared
def _job_index(label: str) -> Callable[[Any], list[str]]:
    """Return the indexer by the job that a label names."""

    def index(obj: Any) -> list[str]:
        name = obj.metadata.labels.get(label)
        return [f"{obj.metadata.namespace}/{name}"] if name else []

    return index


def _informer(manager: Manager, resource: Resource, view: type[View], **kw: Any) -> Informer[Any]:
    # Views belong to the plan, which must not import the engine: they satisfy its protocol.
    informer: Informer[Any] = manager.informer(resource, view, **kw)
    return informer


def _owned_by(uids: AbstractSet[str], objects: Iterable[ChildView]) -> set[str]:
    """Return the UIDs of the objects whose controller is one of some others."""
    return {
        each.metadata.uid
        for each in objects
        if each.metadata.controller is not None and each.metadata.controller.uid in uids
    }


def _pods_of(uids: AbstractSet[str], candidates: Iterable[ObservedPod]) -> tuple[ObservedPod, ...]:
    """Return the pods whose controller is one of these."""
    pods = [
        pod
        for pod in candidates
        if pod.metadata.controller is not None and pod.metadata.controller.uid in uids
    ]
    return tuple(sorted(pods, key=lambda pod: pod.metadata.name))


def _drifted(children: Mapping[ChildKey, ChildView], known: dict[str, int]) -> frozenset[ChildKey]:
    """Return the children whose spec has changed since we wrote it or first observed it."""
    drifted = set()
    for key, child in children.items():
        generation = child.metadata.generation
        if generation > known.setdefault(child.metadata.uid, generation):
            drifted.add(key)
    return frozenset(drifted)
