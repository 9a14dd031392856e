"""Runs the informers, controllers and other tasks of one process."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar, overload

from traincrew.engine.cache import Informer
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.objects import AnyObject, HasMetadata
from traincrew.engine.observability import Metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from traincrew.engine.cache import Indexer
    from traincrew.engine.client import Client
    from traincrew.engine.controller.controller import Controller
    from traincrew.engine.election import LeaderElector
    from traincrew.engine.resources import Resource

T = TypeVar("T", bound=HasMetadata)


class Manager:
    """Runs informers and controllers, optionally under leader election.

    Informers start at once, so a standby keeps its caches warm. It joins the election only when
    they are synced, so the first reconcile follows within milliseconds of leadership. Controllers,
    and runnables that need leadership, start then.

    Args:
        client: The API server.
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
        key = (
            resource,
            type,
            namespace,
            label_selector,
            field_selector,
            frozenset((indexers or {}).items()),
            metadata_only,
        )
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
            )
            if self._group is not None:
                self._group.create_task(informer.run(), name=f"informer-{resource.plural}")
        return informer

    def add(self, controller: Controller) -> None:
        """Add a controller to run; must be called before `run`."""
        controller.use_metrics(self.metrics)
        controller.allowed = self._may_act
        self._controllers.append(controller)

    def add_runnable(
        self, run: Callable[[], Awaitable[None]], *, needs_leadership: bool = True
    ) -> None:
        """Add another task, which should run until cancelled; must be called before `run`."""
        self._runnables.append((run, needs_leadership))

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
            LeadershipLost: Another process may act now; this one should exit.
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
        leading = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for informer in self._informers.values():
                    group.create_task(informer.run(), name=f"informer-{informer.resource.plural}")
                for run, needs_leadership in self._runnables:
                    group.create_task(_after(leading if needs_leadership else None, run))
                await self.wait_synced()
                if self.elector is None:
                    leading.set()
                else:
                    group.create_task(self.elector.run(leading.set), name="elector")
                await leading.wait()
                for controller in self._controllers:
                    group.create_task(controller.run(), name=controller.name)
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        finally:
            self._group = None
            if self.elector is not None:
                # Only now has all work stopped.
                await self.elector.release()


async def _after(start: asyncio.Event | None, run: Callable[[], Awaitable[None]]) -> None:
    if start is not None:
        await start.wait()
    await run()


def _first(error: BaseException) -> BaseException:
    """Return the exception that ended everything, unwrapped from its task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
