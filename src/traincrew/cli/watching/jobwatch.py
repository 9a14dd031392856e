"""Watches jobs with their pods, children and events: the same for every view of a job.

Called by the terminal (`live`), the page (`page.jobfeed`) and `logs --follow` (`joblogs`); lists
also by `gather` and `kinds`. What a cluster reports passes through as typed views. It must never
know what is shown of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from traincrew.cli.display.objects import Event, Job, Pod, Workload
from traincrew.cli.jobview import model
from traincrew.cli.jobview.pods import known
from traincrew.engine.cache import Informer
from traincrew.engine.cache.views import ViewDecoder
from traincrew.engine.client import Pages
from traincrew.engine.errors import ForbiddenError
from traincrew.engine.objects import View
from traincrew.engine.resources import EVENTS, JOBS, PODS, STATEFUL_SETS
from traincrew.operator.kinds import between

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from traincrew.cli.jobview.kinds import JobKind
    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource

T = TypeVar("T", bound=View)
Handler = Callable[[Any, Any], None]

__all__ = ["EVERYTHING", "JobWatch", "Scope", "listed", "stored"]


class Scope(NamedTuple):
    """What to watch.

    Attributes:
        namespace: The namespace; None for all of them.
        name: Name of the only job; empty for all.
        labels: Label selector of pods, Jobs and StatefulSets; None for all.
    """

    namespace: str | None = None
    name: str = ""
    labels: str | None = None


EVERYTHING = Scope()
PAGE = 500
"""Objects in one answer of a list, which bounds the memory."""


class JobWatch:
    """The watches behind a view of jobs; each is retried until it is cancelled.

    Jobs with the same labels share the watches of pods and children, and those of a namespace the
    watch of events.

    Args:
        client: The API server.
        jobs: Resources of jobs, each with what to watch of it.
        on_state: Called with a watch and why it fails, or None once it works again.

    Attributes:
        jobs, pods, events: The watches of each.
        children: Those of Jobs and StatefulSets, and of what is between these and a job.
    """

    def __init__(
        self,
        client: Client,
        jobs: Iterable[tuple[Resource, Scope]],
        on_state: Callable[[Informer[Any], Exception | None], None],
    ) -> None:
        self._client = client
        self._on_state = on_state
        self._pods_refused = asyncio.Event()
        scopes = dict.fromkeys(jobs)
        parts = dict.fromkeys((scope.namespace, scope.labels) for _, scope in scopes)
        namespaces = dict.fromkeys(namespace for namespace, _ in parts)
        self.jobs = [
            self._informer(resource, Job, scope.namespace, name=scope.name)
            for resource, scope in scopes
        ]
        self.pods = [self._informer(PODS, Pod, *part) for part in parts]
        self.children = [
            self._informer(each, Workload, *part)
            for part in parts
            for each in (JOBS, STATEFUL_SETS)
        ]
        self.children += [
            self._informer(each, Workload, *part)
            for each, part in dict.fromkeys(
                (each, (scope.namespace, scope.labels))
                for resource, scope in scopes
                for each in between(resource)
            )
        ]
        self.events = [self._informer(EVENTS, Event, namespace) for namespace in namespaces]

    def _informer(
        self,
        resource: Resource,
        view: type[Any],
        namespace: str | None,
        labels: str | None = None,
        *,
        name: str = "",
    ) -> Informer[Any]:
        def state(error: Exception | None) -> None:
            if isinstance(error, ForbiddenError) and made in self.pods:
                self._pods_refused.set()
            self._on_state(made, error)

        made: Informer[Any] = Informer(
            self._client,
            resource,
            view,
            namespace=namespace,
            label_selector=labels,
            field_selector=f"metadata.name={name}" if name else None,
            on_state=state,
        )
        return made

    @property
    def all(self) -> list[Informer[Any]]:
        """All watches."""
        return [*self.jobs, *self.children, *self.pods, *self.events]

    def add_handlers(self, *, job: Handler, child: Handler, pod: Handler, event: Handler) -> None:
        """Call a function with the old and the new state of each object that changes."""
        watches = self.jobs, self.children, self.pods, self.events
        for informers, handler in zip(watches, (job, child, pod, event), strict=True):
            for informer in informers:
                informer.add_handler(handler)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.all:
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")

    async def until_known(self) -> None:
        """Wait until the jobs are known, and their pods, or that these may not be read."""
        for informer in self.jobs:
            await informer.wait_synced()
        known = [asyncio.ensure_future(informer.wait_synced()) for informer in self.pods]
        refused = asyncio.ensure_future(self._pods_refused.wait())
        try:
            for each in known:
                await asyncio.wait((each, refused), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*known, refused):
                task.cancel()

    def models(self, kind: JobKind) -> list[model.JobView]:
        """Return the view model of every job that exists, all of one kind."""
        pods = [known(pod) for pod in stored(self.pods)]
        events, children = stored(self.events), stored(self.children)
        return [model.view(kind, job, pods, events, children) for job in stored(self.jobs)]


def stored(informers: Iterable[Informer[Any]]) -> list[Any]:
    """Return the objects that watches know."""
    return [obj for informer in informers for obj in informer.store.list()]


async def listed(
    client: Client,
    resource: Resource,
    view: type[T],
    namespace: str | None,
    labels: str | None = None,
) -> AsyncGenerator[T]:
    """Yield the objects of a resource.

    Args:
        client: The API server.
        resource: What to list.
        view: The view to decode each object into.
        namespace: The namespace; None for all of them.
        labels: Label selector of the objects; None for all.

    Raises:
        ApiError: A request was refused, or the list does not end.
        DecodeError: An answer is not what was asked for.
    """
    decoder: ViewDecoder[Any] = ViewDecoder(resource, view)
    token, pages = "", Pages()
    while True:
        params = {"limit": PAGE, "continue": token or None, "labelSelector": labels}
        body = await client.request("GET", resource.path(namespace), params=params)
        items, raw, metadata = decoder.page(body)
        token = metadata.continue_
        pages.add(len(items) + len(raw), token)
        for item in items:
            yield item
        for one in raw:
            yield decoder.object(one)
        if not token:
            return
