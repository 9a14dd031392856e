"""Watches every resource the server has, custom ones included, and maintains the graph."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.engine.cache import Informer
from traincrew.engine.errors import ApiError
from traincrew.engine.objects import MetadataOnly
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS
from traincrew.local.controllers.discovery import Discovery, discover, is_collected
from traincrew.local.controllers.garbage.graph import Graph, Item
from traincrew.local.controllers.informers import informer, is_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.engine.controller import Manager
    from traincrew.engine.objects import HasMetadata
    from traincrew.engine.resources import Resource

RETRY = 1.0
"""Seconds until discovery is retried after a failure."""
DRAIN = 30.0
"""Seconds a resource that is no longer served stays watched, to receive outstanding events.

A CRD's objects are deleted before the CRD, but their DELETED events may arrive after the CRD's.
"""
_NEEDED = frozenset({"list", "watch", "delete"})


class _Watch(NamedTuple):
    resource: Resource
    informer: Informer[Any]
    task: asyncio.Task[None] | None
    """None if the manager runs the informer."""


class Watches:
    """One watch per resource, whatever the number of its versions, into one graph.

    Args:
        manager: Runs the watches that other controllers share.
        due: Called with UIDs that have to be reconciled.
        removed: Called with every deleted object.
        added: Called with every new object.
        discovered: Called when the server has new kinds.
    """

    def __init__(
        self,
        manager: Manager,
        due: Callable[[Iterable[str]], None],
        removed: Callable[[Item], None],
        added: Callable[[Resource, HasMetadata], None],
        discovered: Callable[[], None],
    ) -> None:
        self.graph = Graph()
        self.discovery = Discovery()
        """The result of the latest discovery."""
        self._manager, self._due, self._removed, self._added = manager, due, removed, added
        self._discovered = discovered
        self._asked_at = float("-inf")
        self._refreshing = asyncio.Lock()
        self._complete = asyncio.Event()
        self._changed = asyncio.Event()
        self._watches: dict[tuple[str, str], _Watch] = {}
        """Keyed by group and plural, since objects are the same in every version."""
        self._draining: dict[Resource, tuple[_Watch, asyncio.Task[None]]] = {}
        # Schemas are large and not needed here.
        self._definitions = manager.informer(
            CUSTOM_RESOURCE_DEFINITIONS, MetadataOnly, metadata_only=True
        )
        self._definitions.add_handler(lambda _old, _new: self._changed.set())

    async def complete(self) -> None:
        """Wait until all objects of the server are in the graph."""
        await self._complete.wait()

    async def settle(self) -> None:
        """Wait until every watch has synced; no longer than `DRAIN`."""
        informers = [watch.informer for watch in self._watches.values()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                for each in informers:
                    await each.wait_synced()

    async def find(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind in exactly this version; None if not known to be served.

        For an unknown kind discovery is repeated, once a second at most.

        Raises:
            ApiError: The server refused.
        """
        resource = self.discovery.find(api_version, kind)
        if resource is None:
            async with self._refreshing:
                if asyncio.get_running_loop().time() - self._asked_at >= RETRY:
                    await self._refresh()
            resource = self.discovery.find(api_version, kind)
        return resource

    async def refresh(self) -> Discovery:
        """Repeat discovery, and watch what the server has.

        Raises:
            ApiError: The server refused.
        """
        async with self._refreshing:  # or an older response could overwrite a newer one
            await self._refresh()
            return self.discovery

    async def _refresh(self) -> None:
        self._asked_at = asyncio.get_running_loop().time()
        known = self.discovery.kinds
        self.discovery = discovery = await discover(self._manager.client)
        for key, watch in tuple(self._watches.items()):
            if not discovery.serves(watch.resource):
                del self._watches[key]
                self._retire(watch)
        for resource in discovery.preferred(_NEEDED):
            key = (resource.group, resource.plural)
            if key not in self._watches and is_collected(resource):
                self._watches[key] = self._start(resource)
        if discovery.kinds - known:
            self._discovered()

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                self._changed.clear()
                try:
                    discovery = await self.refresh()
                except ApiError:
                    await asyncio.sleep(RETRY)
                    continue
                if await self._filled():
                    self._complete.set()
                    await self._next_change(RETRY if discovery.failed else None)
        finally:
            tasks = [watch.task for watch in self._watches.values()]
            for watch, drain in self._draining.values():
                tasks += [watch.task, drain]
            running = [task for task in tasks if task is not None]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _next_change(self, seconds: float | None) -> None:
        """Wait for a definition to change, for at most this many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _filled(self) -> bool:
        """Wait until every watch has synced; False if the server's kinds change before that.

        A kind that is removed before its watch begins would never sync.
        """
        informers = [watch.informer for watch in self._watches.values()]

        async def all_synced() -> bool:
            for each in informers:
                await each.wait_synced()
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

    def _start(self, resource: Resource) -> _Watch:
        draining = self._draining.pop(resource, None)
        if draining is not None:  # it was removed and is back
            watch, drain = draining
            drain.cancel()
            return watch
        watched: Informer[Any]
        task = None
        if resource == CUSTOM_RESOURCE_DEFINITIONS:
            watched = self._definitions
        elif is_shared(self._manager, resource):
            watched = informer(self._manager, resource)
        else:
            # Not the manager's: a custom resource is removed with its definition.
            watched = Informer(
                self._manager.client,
                resource,
                MetadataOnly,
                metadata_only=True,
                metrics=self._manager.metrics,
            )
            task = asyncio.create_task(watched.run(), name=f"garbage-{resource.plural}")
        watched.add_handler(lambda old, new: self._handle(resource, watched, old, new))
        return _Watch(resource, watched, task)

    def _retire(self, watch: _Watch) -> None:
        drain = asyncio.create_task(self._drain(watch), name=f"drain-{watch.resource.plural}")
        self._draining[watch.resource] = (watch, drain)

    async def _drain(self, watch: _Watch) -> None:
        """End a watch whose version is no longer served, once it has reported outstanding events.

        Objects it still has then are not deleted: another version's watch has them, or their state
        is unknown.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DRAIN
        key = (watch.resource.group, watch.resource.plural)
        while len(watch.informer.store) and loop.time() < deadline:
            successor = self._watches.get(key)
            if successor is not None and successor.informer.synced:
                break
            await asyncio.sleep(0.05)
        if watch.task is not None:
            watch.task.cancel()
        del self._draining[watch.resource]
        for obj in watch.informer.store.list():
            self._forget(watch.resource, obj.metadata.uid, deleted=False)

    def _handle(self, resource: Resource, source: Informer[Any], old: Any, new: Any) -> None:
        if new is not None:
            self._due(self.graph.put(Item(resource, new.metadata)))
            if old is None:
                self._added(resource, new)
        elif old is not None:
            # The collector checks objects that are missing from a list with the server.
            self._forget(resource, old.metadata.uid, deleted=not source.delivering_list)
            self._removed(Item(resource, old.metadata))

    def _forget(self, resource: Resource, uid: str, *, deleted: bool) -> None:
        item = self.graph.get(uid)
        if item is not None and (deleted or item.resource == resource):
            self._due(self.graph.remove(uid, deleted=deleted))
