"""Watches every resource the server has, custom ones included, and keeps the graph."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError
from traincrew.engine.informer import Informer
from traincrew.engine.objects import MetadataOnly
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS
from traincrew.local.controllers.discovery import discover, is_collected
from traincrew.local.controllers.garbage.graph import Graph, Item
from traincrew.local.controllers.informers import SHARED, informer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.engine.manager import Manager
    from traincrew.engine.objects import HasMetadata
    from traincrew.engine.resources import Resource

RETRY = 1.0
"""Seconds until the server is asked again for what it has, if it did not answer."""


class Watches:
    """One watch per resource, into one graph.

    Args:
        manager: Runs the watches other controllers share.
        due: Called with UIDs that have to be looked at.
        removed: Called with every object that is gone.
        added: Called with every object that is new.
    """

    def __init__(
        self,
        manager: Manager,
        due: Callable[[Iterable[str]], None],
        removed: Callable[[Item], None],
        added: Callable[[Resource, HasMetadata], None],
    ) -> None:
        self.graph = Graph()
        self.resources: dict[tuple[str, str], Resource] = {}
        """By group and kind, as owner references name them."""
        self.former: set[tuple[str, str]] = set()
        """Kinds the server had once."""
        self._manager, self._due, self._removed, self._added = manager, due, removed, added
        self._asked_at = float("-inf")
        self._complete = asyncio.Event()
        self._changed = asyncio.Event()
        self._informers: dict[Resource, Informer[Any]] = {}
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        # Schemas are large, and nobody here reads them.
        self._definitions = manager.informer(
            CUSTOM_RESOURCE_DEFINITIONS, MetadataOnly, metadata_only=True
        )
        self._definitions.add_handler(lambda _old, _new: self._changed.set())

    async def complete(self) -> None:
        """Wait until everything the server has is in the graph."""
        await self._complete.wait()

    async def find(self, group: str, kind: str) -> Resource | None:
        """The resource of a kind; one that is unknown is asked for, once a second at most.

        Raises:
            ApiError: The server refused.
        """
        now = asyncio.get_running_loop().time()
        if (group, kind) not in self.resources and now - self._asked_at >= RETRY:
            await self.refresh()
        return self.resources.get((group, kind))

    async def refresh(self) -> None:
        """Ask the server what it has, and watch that.

        Raises:
            ApiError: The server refused.
        """
        self._asked_at = asyncio.get_running_loop().time()
        found = await discover(self._manager.client)
        known = {(resource.group, resource.kind): resource for resource in found}
        self.former = (self.former | self.resources.keys()) - known.keys()
        self.resources = known
        wanted = [resource for resource in found if is_collected(resource)]
        for resource in set(self._informers) - set(wanted):
            self._stop(resource)
        for resource in wanted:
            if resource not in self._informers:
                self._start(resource)

    async def run(self) -> None:
        """Keep watching until cancelled."""
        try:
            while True:
                self._changed.clear()
                try:
                    await self.refresh()
                except ApiError:
                    await asyncio.sleep(RETRY)
                    continue
                if await self._filled():
                    self._complete.set()
                    await self._changed.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _filled(self) -> bool:
        """Wait until every watch has delivered; False if the server's kinds change before that.

        A kind that goes again before its watch began would never deliver.
        """
        watches = list(self._informers.values())

        async def all_synced() -> bool:
            for watch in watches:
                await watch.wait_synced()
            return True

        changed = asyncio.create_task(self._changed.wait())
        synced = asyncio.create_task(all_synced())
        try:
            await asyncio.wait({changed, synced}, return_when=asyncio.FIRST_COMPLETED)
            return synced.done()
        finally:
            for waiting in (changed, synced):
                waiting.cancel()
            await asyncio.gather(changed, synced, return_exceptions=True)

    def _start(self, resource: Resource) -> None:
        watch: Informer[Any]
        if resource == CUSTOM_RESOURCE_DEFINITIONS:
            watch = self._definitions
        elif resource in SHARED:
            watch = informer(self._manager, resource)
        else:
            # Not the manager's: a custom resource goes when its definition does.
            watch = Informer(
                self._manager.client,
                resource,
                MetadataOnly,
                metadata_only=True,
                metrics=self._manager.metrics,
            )
            self._tasks[resource] = asyncio.create_task(
                watch.run(), name=f"garbage-{resource.plural}"
            )
        self._informers[resource] = watch
        watch.add_handler(lambda old, new: self._handle(resource, old, new))

    def _stop(self, resource: Resource) -> None:
        watch = self._informers.pop(resource)
        task = self._tasks.pop(resource, None)
        if task is not None:
            task.cancel()
        for obj in watch.store.list():
            self._handle(resource, obj, None)

    def _handle(self, resource: Resource, old: Any, new: Any) -> None:
        if new is not None:
            self._due(self.graph.put(Item(resource, new.metadata)))
            if old is None:
                self._added(resource, new)
        elif old is not None:
            item = Item(resource, old.metadata)
            self._due(self.graph.remove(item.uid))
            self._removed(item)
