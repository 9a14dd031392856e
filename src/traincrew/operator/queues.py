"""Reads, writes and watches the Workloads of jobs that ask for a queue of Kueue.

Nothing waits for Kueue: a cluster may begin or cease to serve its API at any time. A task that is
not a part of the start or of a change of leadership looks once whether the API is served, and again
when a job asks. It then watches the Workloads of the operator and requeues the jobs of those that
change. The Workload itself is read from the API server: it decides whether pods may run.
"""

from __future__ import annotations

# Over 400 lines: reading, writing and letting go of one kind of object; they share what is cached.
import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from traincrew.engine.cache import Informer
from traincrew.engine.controller import Request
from traincrew.engine.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
)
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import PODS, Resource
from traincrew.operator.children import FIELD_MANAGER
from traincrew.plan.shared.model import Priority, QueueState
from traincrew.plan.shared.queueing import admission, kueue, workloads
from traincrew.plan.shared.views import ChildView, ObservedPod, WorkloadView

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from traincrew.engine.client import Client
    from traincrew.engine.clock import Clock
    from traincrew.operator.jobstate import JobState
    from traincrew.operator.kind import OperatedKind
    from traincrew.plan.shared.model import QueueQuery, QueueWrite

WORKLOADS = Resource(kueue.GROUP, kueue.VERSION, "workloads", kueue.WORKLOAD)
FLAVORS = Resource(kueue.GROUP, kueue.VERSION, "resourceflavors", "ResourceFlavor", False)
CLASSES = Resource(
    kueue.GROUP, kueue.VERSION, "workloadpriorityclasses", "WorkloadPriorityClass", False
)
POD_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)

LOOK_SECONDS = 10.0
"""Seconds after which it is looked up again whether the API is served, if a job asks."""
READ_SECONDS = 5.0
"""Seconds for which a Workload that was read is used while no watch reports changes."""
WATCHED_SECONDS = 60.0
"""The same while a watch does."""
NOT_SERVED = (
    f"the job has the label {kueue.QUEUE}, and the cluster does not serve"
    f" {kueue.API_VERSION}: install Kueue 0.17 or later, or remove the label"
)


class _Leaving(NamedTuple):
    """A Workload that is being deleted, and the UID of the job that it belongs to."""

    name: str
    owner: str


class KueueApi:
    """The API of Kueue, as far as the cluster serves it; one for all kinds.

    Args:
        client: The API server.
        clock: Source of time.
        namespace: Only Workloads of this namespace are watched; all by default.
    """

    def __init__(self, client: Client, clock: Clock, namespace: str | None = None) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._log = get_logger()
        self._wanted = asyncio.Event()
        self._kinds: dict[tuple[str, str], Callable[[ChildView, bool], None]] = {}
        self._informer: Informer[Any] | None = None

    @property
    def is_watched(self) -> bool:
        """Whether changes of Workloads are reported."""
        return self._informer is not None and self._informer.synced

    def want(self) -> None:
        """Begin to watch as soon as the API is served."""
        self._wanted.set()

    def add(self, resource: Resource, changed: Callable[[ChildView, bool], None]) -> None:
        """Report changes of the Workloads of a kind of jobs.

        Args:
            resource: The kind.
            changed: Called with a Workload, and whether it still exists.
        """
        self._kinds[resource.group, resource.kind] = changed

    async def run(self) -> None:
        """Watch Workloads until cancelled, once the API is served."""
        while True:
            self._wanted.clear()
            due = self._clock.monotonic() + LOOK_SECONDS
            if await self._may_watch():
                break
            await self._wanted.wait()
            await asyncio.sleep(max(0.0, due - self._clock.monotonic()))
        informer: Informer[Any] = Informer(
            self._client,
            WORKLOADS,
            ChildView,
            namespace=self._namespace,
            label_selector=kueue.MANAGED,
            clock=self._clock,
        )
        informer.add_handler(self._changed)
        self._informer = informer
        try:
            await informer.run()
        finally:
            self._informer = None

    async def _may_watch(self) -> bool:
        """Return whether the API is served, and Workloads may be listed."""
        try:
            await self._client.request("GET", f"/apis/{kueue.API_VERSION}")
            await self._client.request("GET", WORKLOADS.path(self._namespace), params={"limit": 1})
        except ApiError as error:
            if not isinstance(error, NotFoundError):
                self._log.info("workloads are not watched", error=str(error))
            return False
        return True

    def _changed(self, old: ChildView | None, new: ChildView | None) -> None:
        view = new or old
        owner = view.metadata.controller if view is not None else None
        if view is None or owner is None:
            return
        kind = (owner.api_version.rpartition("/")[0], owner.kind)
        if (report := self._kinds.get(kind)) is not None:
            report(view, new is not None)


class Queues:
    """The Workloads of the jobs of one kind.

    Args:
        client: The API server.
        api: What the cluster serves.
        kind: The kind.
        enqueue: Requeues a job.
        clock: Source of time.
    """

    def __init__(
        self,
        client: Client,
        api: KueueApi,
        kind: OperatedKind,
        enqueue: Callable[[Request], None],
        clock: Clock,
    ) -> None:
        self._client = client
        self._api = api
        self._kind = kind
        self._enqueue = enqueue
        self._clock = clock
        self._log = get_logger()
        self._dirty: set[Request] = set()
        self._leaving: dict[Request, set[_Leaving]] = {}
        self._flavors: dict[str, tuple[float, dict[str, Any]]] = {}
        api.add(kind.resource, self._changed)

    def forget(self) -> None:
        """Drop what is remembered: another operator may change it now."""
        self._dirty.clear()
        self._leaving.clear()
        self._flavors.clear()

    def _changed(self, view: ChildView, exists: bool) -> None:
        owner = view.metadata.controller
        assert owner is not None
        request = Request(view.metadata.namespace, owner.name)
        self._dirty.add(request)
        leaving = _Leaving(view.metadata.name, owner.uid)
        if exists and view.metadata.deletion_timestamp is not None:
            self._leaving.setdefault(request, set()).add(leaving)
        elif (found := self._leaving.get(request)) is not None:
            found.discard(leaving)
        self._enqueue(request)

    # -- reading ------------------------------------------------------------------------------

    async def answer(self, query: QueueQuery, request: Request, memory: JobState) -> QueueState:
        """Return what is known about a job in its queue.

        Raises:
            ApiError: The Workload could not be read.
        """
        self._api.want()
        now = self._clock.monotonic()
        is_recent = request not in self._dirty and now < memory.queue_due
        of = f"{query.name}/{query.job_uid}"
        if memory.queue is not None and is_recent and memory.queue_of == of:
            return memory.queue
        self._dirty.discard(request)  # a change that is reported from now on makes it old again
        memory.queue = None
        state = await self._read(query, request)
        seconds = WATCHED_SECONDS if self._api.is_watched and not state.problem else READ_SECONDS
        memory.queue, memory.queue_of, memory.queue_due = state, of, now + seconds
        return state

    async def _read(self, query: QueueQuery, request: Request) -> QueueState:
        try:
            found = await self._workloads(query, request)
        except NotFoundError as error:
            if query.job_uid or not error.is_about(query.name):
                return QueueState(problem=NOT_SERVED, served=False)
            return await self._with_priority(QueueState(), query)
        except ForbiddenError as error:
            return QueueState(problem=_without_rights(error.message))
        view = found.pop(query.name, None)
        state = QueueState(workload=view, slices=tuple(found.values()))
        views = [each for each in (view, *state.slices) if each is not None]
        admitted = [each for each in views if workloads.holds(each, kueue.QUOTA_RESERVED)]
        if not admitted:
            return await self._with_priority(state, query)
        names = {name for each in admitted for name in admission.flavors_of(each)}
        try:
            flavors = {name: await self._flavor(name) for name in sorted(names)}
        except ForbiddenError as error:
            return QueueState(problem=_without_rights(error.message))
        except NotFoundError as error:
            return QueueState(
                problem=f"the queue has admitted the job with a flavor that is gone:"
                f" {error.message}"
            )
        return msgspec.structs.replace(state, flavors=flavors)

    async def _workloads(self, query: QueueQuery, request: Request) -> dict[str, WorkloadView]:
        """Return the Workload of a job, or all of them if they are asked for, by name."""
        if not query.job_uid:
            read = await self._client.get(WORKLOADS, query.name, request.namespace)
            return {query.name: _view(read)}
        selector = f"{kueue.JOB_UID}={query.job_uid}"
        listed = await self._client.list(WORKLOADS, request.namespace, label_selector=selector)
        return {each["metadata"]["name"]: _view(each) for each in listed["items"]}

    async def _flavor(self, name: str) -> dict[str, Any]:
        now = self._clock.monotonic()
        due, spec = self._flavors.get(name, (0.0, {}))
        if now >= due:
            spec = (await self._client.get(FLAVORS, name)).get("spec") or {}
            self._flavors[name] = (now + WATCHED_SECONDS, spec)
        return spec

    async def _with_priority(self, state: QueueState, query: QueueQuery) -> QueueState:
        """Add the priority of a job that has no quota yet; it is kept afterwards."""
        chosen: Resource | None = None
        name = query.priority_class or query.pod_priority_class
        if name:
            chosen = CLASSES if query.priority_class else POD_CLASSES
        elif state.workload is not None:
            return state  # the default was found when the Workload was created
        try:
            priority = await self._priority(chosen, name)
        except ForbiddenError as error:
            return QueueState(problem=_without_rights(error.message))
        except NotFoundError as error:
            if chosen is None or not error.is_about(name):
                raise
            label = f"the label {kueue.PRIORITY_CLASS}" if chosen == CLASSES else "the template"
            return QueueState(
                problem=f"{chosen.kind} {name} does not exist: create it, or name another one in"
                f" {label}"
            )
        return msgspec.structs.replace(state, priority=priority)

    async def _priority(self, resource: Resource | None, name: str) -> Priority:
        if resource is not None:
            found = await self._client.get(resource, name)
            value = int(found.get("value") or 0)
            return Priority(value=value, group=resource.group, kind=resource.kind, name=name)
        listed = (await self._client.list(POD_CLASSES))["items"]
        default = min(
            (each for each in listed if each.get("globalDefault")),
            key=lambda each: int(each.get("value") or 0),
            default=None,
        )
        if default is None:
            return Priority()
        return Priority(
            value=int(default.get("value") or 0),
            group=POD_CLASSES.group,
            kind=POD_CLASSES.kind,
            name=default["metadata"]["name"],
        )

    # -- writing ------------------------------------------------------------------------------

    async def write(
        self, writes: Sequence[QueueWrite], request: Request, memory: JobState
    ) -> QueueState | None:
        """Write Workloads of a job; each write requires the version that the last of it made.

        Returns:
            Why it is refused; None if everything was written.

        Raises:
            ApiError: A request failed; the Workload has changed meanwhile, for example.
        """
        memory.queue = None
        versions: dict[str, str] = {}
        try:
            for each in writes:
                name = each.found.metadata.name if each.found is not None else ""
                versions[name] = await self._write(each, request, versions.get(name, ""))
        except AlreadyExistsError:
            return None  # it is read again
        except ForbiddenError as error:
            if _is_authorization(error.message):
                return QueueState(problem=_without_rights(error.message))
            return QueueState(problem=f"Kueue refuses the Workload of the job: {error.message}")
        except (InvalidError, BadRequestError) as error:
            return QueueState(problem=f"Kueue refuses the Workload of the job: {error.message}")
        except ServerError as error:
            if "webhook" not in error.message:
                raise
            return QueueState(
                problem=f"Kueue does not answer; is its controller running? {error.message}"
            )
        return None

    async def _write(self, write: QueueWrite, request: Request, version: str) -> str:
        """Send one write; return the version of the Workload after it."""
        if write.create is not None:
            await self._client.create(
                WORKLOADS, write.create, request.namespace, field_manager=FIELD_MANAGER
            )
            return ""
        assert write.found is not None
        metadata = write.found.metadata
        version = version or metadata.resource_version
        if write.delete:
            # Kueue may have admitted meanwhile one that is to replace another.
            await self._unless_gone(
                self._client.delete(
                    WORKLOADS,
                    metadata.name,
                    metadata.namespace,
                    uid=metadata.uid,
                    resource_version=version,
                )
            )
            return ""
        patch = write.patch or {"status": write.status}
        meta = {**(patch.get("metadata") or {}), "resourceVersion": version, "uid": metadata.uid}
        written = await self._unless_gone(
            self._client.patch(
                WORKLOADS,
                metadata.name,
                metadata.namespace,
                patch={**patch, "metadata": meta},
                subresource=None if write.patch is not None else "status",
                field_manager=FIELD_MANAGER,
            )
        )
        return str(written["metadata"]["resourceVersion"]) if written is not None else ""

    @staticmethod
    async def _unless_gone(request: Any) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = await request
        except NotFoundError:
            return None  # it is read again
        return found

    # -- jobs that are gone -------------------------------------------------------------------

    async def let_go(
        self, request: Request, owner: str, children: Collection[ChildView] = ()
    ) -> float | None:
        """Let go of Workloads of earlier jobs of a name, when none of their pods is left.

        Args:
            request: The name.
            owner: UID of the job of that name; empty if there is none.
            children: Its children.

        Returns:
            Seconds until it is to be tried again; None if nothing is left.
        """
        found = [each for each in self._leaving.get(request, ()) if each.owner != owner]
        if not found:
            if not self._leaving.get(request):
                self._leaving.pop(request, None)
            return None
        listed = await self._client.list(
            PODS,
            request.namespace,
            label_selector=f"{self._kind.selector or self._kind.label},"
            f"{self._kind.label}={request.name}",
        )
        pods = msgspec.convert(listed["items"], list[ObservedPod], strict=False)
        mine = {owner, *(child.metadata.uid for child in children)}
        if any(
            pod.active
            for pod in pods
            if pod.metadata.controller is None or pod.metadata.controller.uid not in mine
        ):
            return 1.0
        for each in found:
            await self._let_go(each, request)
        return None

    async def _let_go(self, leaving: _Leaving, request: Request) -> None:
        try:
            read = await self._client.get(WORKLOADS, leaving.name, request.namespace)
        except NotFoundError:
            self._leaving.get(request, set()).discard(leaving)
            return
        view = _view(read)
        controller = view.metadata.controller
        if controller is None or controller.uid != leaving.owner:
            return
        try:
            for write in workloads.let_go(view):
                await self._write(write, request, "")
        except ConflictError:
            self._enqueue(request)
        self._log.info("workload let go", name=leaving.name)


def _view(found: Mapping[str, Any]) -> WorkloadView:
    view = msgspec.convert(found, WorkloadView, strict=False)
    names = tuple(found["metadata"].get("finalizers") or ())
    return msgspec.structs.replace(view, finalizers=names)


def _is_authorization(message: str) -> bool:
    """Return whether a refusal is for want of a right, and not by admission."""
    return 'User "' in message and " cannot " in message


def _without_rights(message: str) -> str:
    return (
        f"the operator may not use Workloads of Kueue: {message}; give it the rules of"
        f" {kueue.GROUP} that its chart and deploy/2-rbac.yaml have"
    )
