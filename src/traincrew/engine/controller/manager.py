"""Runs the informers, controllers and other tasks of one process."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar, overload

from traincrew.engine.cache import Informer
from traincrew.engine.cache.reflector import LONGEST_RETRY
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.election import LeadershipLost
from traincrew.engine.objects import AnyObject, HasMetadata
from traincrew.engine.observability import Metrics, get_logger
from traincrew.engine.tasks import end_tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from traincrew.engine.cache import Indexer
    from traincrew.engine.client import Client
    from traincrew.engine.controller.controller import Controller
    from traincrew.engine.election import LeaderElector
    from traincrew.engine.resources import Resource

T = TypeVar("T", bound=HasMetadata)

_CANDIDATES_RETRY = 2.5
"""Longest delay in seconds between attempts of the informers of a process that takes part in an
election: as long as its caches are not synced, it cannot lead. Jitter may double it."""


class Manager:
    """Runs informers and controllers, optionally under leader election.

    Informers start at once, so a standby keeps its caches warm. It joins the election only when
    they are synced, so the first reconcile follows within milliseconds of leadership. Controllers,
    and runnables that need leadership, start then.

    When leadership is lost, the process becomes a standby. Nothing of a term is left for the next:
    connections are broken, controllers and such runnables end, their state is dropped, and only
    with caches that were filled after that does it take part in the election again.

    Args:
        client: The API server. With leader election, its connections are broken when the Lease is
            lost; the elector needs another one.
        elector: Leader election; without it this process always leads.
        clock: Source of time.
        metrics: Where everything is recorded; its own by default.
    """

    def __init__(
        self,
        client: Client,
        *,
        elector: LeaderElector | None = None,
        clock: Clock = SYSTEM_CLOCK,
        metrics: Metrics | None = None,
    ) -> None:
        self.client = client
        self.metrics = metrics or Metrics()
        if client.metrics is None:
            client.metrics = self.metrics
        self.elector = elector
        if elector is not None:
            elector.use_metrics(self.metrics)
        self._clock = clock
        self._informers: dict[tuple[Any, ...], Informer[Any]] = {}
        self._controllers: list[Controller] = []
        self._runnables: list[tuple[Callable[[], Awaitable[None]], bool]] = []
        self._group: asyncio.TaskGroup | None = None
        self._reflecting: dict[Informer[Any], asyncio.Task[None]] = {}
        self._ended: list[Callable[[], None]] = []
        self._draining = False

    @overload
    def informer(
        self,
        resource: Resource,
        *,
        namespace: str | None = ...,
        label_selector: str | None = ...,
        field_selector: str | None = ...,
        indexers: Mapping[str, Indexer[AnyObject]] | None = ...,
        metadata_only: bool = ...,
    ) -> Informer[AnyObject]: ...

    @overload
    def informer(
        self,
        resource: Resource,
        type: type[T],
        *,
        namespace: str | None = ...,
        label_selector: str | None = ...,
        field_selector: str | None = ...,
        indexers: Mapping[str, Indexer[T]] | None = ...,
        metadata_only: bool = ...,
    ) -> Informer[T]: ...

    def informer(
        self,
        resource: Resource,
        type: Any = AnyObject,  # noqa: A002 - what the field calls it
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexers: Mapping[str, Indexer[Any]] | None = None,
        metadata_only: bool = False,
    ) -> Informer[Any]:
        """Return the informer with these arguments, one for all callers. See `Informer`."""
        selected = (namespace, label_selector, field_selector, metadata_only)
        key = _key(resource, type, indexers, selected)
        informer = self._informers.get(key)
        if informer is None:
            informer = self._informers[key] = Informer(
                self.client,
                resource,
                type,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                indexers=indexers,
                metadata_only=metadata_only,
                clock=self._clock,
                metrics=self.metrics,
                longest_retry=LONGEST_RETRY if self.elector is None else _CANDIDATES_RETRY,
            )
            if self._group is not None:
                self._reflect(informer, self._group)
        return informer

    def has_informer(
        self, resource: Resource, *, indexers: Mapping[str, Indexer[AnyObject]] | None = None
    ) -> bool:
        """Return whether somebody has asked for the informer of all objects of a resource.

        Args:
            resource: The resource.
            indexers: Further indices of the store.
        """
        return _key(resource, AnyObject, indexers) in self._informers

    def _reflect(self, informer: Informer[Any], group: asyncio.TaskGroup) -> None:
        name = f"informer-{informer.resource.plural}"
        self._reflecting[informer] = group.create_task(informer.run(), name=name)

    def add(self, controller: Controller) -> None:
        """Add a controller to run; must be called before `run`."""
        controller.use_metrics(self.metrics)
        controller.allowed = self._may_act
        self._controllers.append(controller)

    def add_runnable(
        self, run: Callable[[], Awaitable[None]], *, needs_leadership: bool = True
    ) -> None:
        """Add another task, which should run until cancelled; must be called before `run`.

        One that needs leadership is called for each term, and cancelled at its end.
        """
        self._runnables.append((run, needs_leadership))

    def on_end_of_term(self, call: Callable[[], None]) -> None:
        """Add a function that drops the state of reconciles; called when leadership was lost.

        It is called when all work of the term has ended.
        """
        self._ended.append(call)

    @property
    def synced(self) -> bool:
        """Whether every cache has been filled."""
        return all(informer.synced for informer in self._informers.values())

    async def wait_synced(self) -> None:
        """Wait until every cache has been filled."""
        for informer in list(self._informers.values()):
            await informer.wait_synced()

    def _may_act(self) -> bool:
        return not self._draining and (self.elector is None or self.elector.is_leader())

    async def drain(self, limit: float) -> None:
        """Start no further reconciles, and wait for those in progress.

        A planned stop of this process then interrupts nothing.

        Args:
            limit: Maximum seconds to wait.
        """
        self._draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                for controller in self._controllers:
                    await controller.idle()

    async def run(self) -> None:
        """Run everything until cancelled.

        Raises:
            ValueError: A controller watches an informer that is not this manager's.
        """
        own = {id(informer) for informer in self._informers.values()}
        for controller in self._controllers:
            for informer in controller.informers:
                if id(informer) not in own:
                    raise ValueError(
                        f"controller {controller.name} watches an informer of "
                        f"{informer.resource.plural} that is not this manager's; "
                        "get it from manager.informer(...)"
                    )
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for informer in self._informers.values():
                    self._reflect(informer, group)
                for run, needs_leadership in self._runnables:
                    if not needs_leadership:
                        group.create_task(_run(run))
                group.create_task(self._terms(group), name="terms")
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        finally:
            self._group = None
            self._reflecting.clear()
            if self.elector is not None:
                # Only now has all work stopped.
                await self.elector.release()

    async def _terms(self, group: asyncio.TaskGroup) -> None:
        """Work whenever this process leads."""
        while True:
            await self.wait_synced()
            # A task of its own: a task group that fails may lose that its task was cancelled.
            term = asyncio.create_task(self._term(), name="term")
            try:
                await asyncio.wait({term})
            finally:
                await end_tasks(term)
            try:
                term.result()
            except* LeadershipLost as errors:
                get_logger().warning("leadership lost", reason=str(_first(errors)))
            else:
                return  # without election, and with nothing to run
            await self._stand_by(group)

    async def _term(self) -> None:
        """Take part in the election, and work while this process leads.

        Raises:
            BaseExceptionGroup: With `LeadershipLost` at the end, when all work has stopped; with
                something else if a runnable has failed.
        """
        leading = asyncio.Event()
        async with asyncio.TaskGroup() as term:
            if self.elector is not None:
                term.create_task(self._lead(self.elector, leading), name="elector")
                await leading.wait()
            for run, needs_leadership in self._runnables:
                if needs_leadership:
                    term.create_task(_run(run))
            for controller in self._controllers:
                term.create_task(controller.run(), name=controller.name)

    async def _lead(self, elector: LeaderElector, leading: asyncio.Event) -> None:
        try:
            await elector.run(leading.set)
        except LeadershipLost:
            # Before anything else: a write may be on its way, and part of it not sent yet.
            self.client.cut()
            raise

    async def _stand_by(self, group: asyncio.TaskGroup) -> None:
        """Drop what the last term has left; the caches are filled again."""
        assert self.elector is not None
        # Also when a runnable was refused a write before the elector itself woke up.
        self.elector.give_up()
        self.client.cut()
        self.metrics.terms_lost.inc(())
        await end_tasks(*self._reflecting.values())
        for call in self._ended:
            call()
        for controller in self._controllers:
            controller.reset()
        for informer in list(self._informers.values()):
            informer.expire()
            self._reflect(informer, group)


def _key(
    resource: Resource,
    kind: Any,
    indexers: Mapping[str, Indexer[Any]] | None,
    selected: tuple[Any, ...] = (None, None, None, False),
) -> tuple[Any, ...]:
    """Return the key of an informer; by default of one with all objects, bodies included."""
    return (resource, kind, frozenset((indexers or {}).items()), *selected)


async def _run(run: Callable[[], Awaitable[None]]) -> None:
    await run()


def _first(error: BaseException) -> BaseException:
    """Return the exception that ended everything, unwrapped from its task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
