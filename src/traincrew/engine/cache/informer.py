"""A store that a reflector keeps up to date, with handlers that are called on every change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from traincrew.engine.cache.reflector import LONGEST_RETRY, Reflector
from traincrew.engine.cache.sharing import adopt
from traincrew.engine.cache.store import Indexer, Store
from traincrew.engine.cache.views import ViewDecoder
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.objects import AnyObject, HasMetadata
from traincrew.engine.observability import get_logger

if TYPE_CHECKING:
    import random

    from traincrew.engine.client import Client
    from traincrew.engine.observability import Metrics
    from traincrew.engine.resources import Resource
from traincrew.engine.cache.store import Key

T = TypeVar("T", bound=HasMetadata)

Handler = Callable[[T | None, T | None], None]
StateHandler = Callable[[Exception | None], None]

# Objects of a list that are processed before other tasks get a turn.
_BATCH = 500


class Informer(Generic[T]):
    """Watches one collection into a `Store`.

    Handlers are called synchronously with (old, new) after the store has changed: old is ``None``
    for a new object, new is ``None`` for a deleted one. An object that was deleted and recreated
    under the same name is reported as both. A relist reports nothing for unchanged objects.

    Args:
        client: The API server.
        resource: What to watch.
        type: The view to decode into: any `msgspec.Struct` with ``metadata``.
        namespace: ``None`` means all namespaces.
        label_selector: Only objects with these labels.
        field_selector: Only objects with these fields.
        indexers: Further indices of the store.
        metadata_only: Fetch only ``metadata``, for kinds whose body is not needed.
        clock: Source of time.
        rng: Source of jitter.
        metrics: Where the watch is recorded, if anywhere.
        on_state: Called with failures of the watch that repeat or that waiting may not cure, and
            with None once the server works again. The watch is retried in any case.
        longest_retry: Longest seconds between attempts, before jitter, which may double them.
    """

    @overload
    def __init__(
        self: Informer[AnyObject],
        client: Client,
        resource: Resource,
        *,
        namespace: str | None = ...,
        label_selector: str | None = ...,
        field_selector: str | None = ...,
        indexers: Mapping[str, Indexer[AnyObject]] | None = ...,
        metadata_only: bool = ...,
        clock: Clock = ...,
        rng: random.Random | None = ...,
        metrics: Metrics | None = ...,
        on_state: StateHandler | None = ...,
        longest_retry: float = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        client: Client,
        resource: Resource,
        type: type[T],
        *,
        namespace: str | None = ...,
        label_selector: str | None = ...,
        field_selector: str | None = ...,
        indexers: Mapping[str, Indexer[T]] | None = ...,
        metadata_only: bool = ...,
        clock: Clock = ...,
        rng: random.Random | None = ...,
        metrics: Metrics | None = ...,
        on_state: StateHandler | None = ...,
        longest_retry: float = ...,
    ) -> None: ...

    def __init__(
        self,
        client: Client,
        resource: Resource,
        type: Any = AnyObject,  # noqa: A002 - what the field calls it
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexers: Mapping[str, Indexer[Any]] | None = None,
        metadata_only: bool = False,
        clock: Clock = SYSTEM_CLOCK,
        rng: random.Random | None = None,
        metrics: Metrics | None = None,
        on_state: StateHandler | None = None,
        longest_retry: float = LONGEST_RETRY,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.label_selector = label_selector
        self.field_selector = field_selector
        self.store: Store[T] = Store(indexers)
        self.delivering_list = False
        """True while handlers are called for objects of a list and not for live changes."""
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()
        self._log = get_logger(resource=resource.plural)
        self._reflector: Reflector[T] = Reflector(
            client,
            resource,
            ViewDecoder(resource, type),
            self,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
            clock=clock,
            rng=rng,
            metrics=metrics,
            on_state=on_state,
            longest_retry=longest_retry,
        )

    @property
    def synced(self) -> bool:
        """Whether the store has been filled, and has not expired."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the store has been filled."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[T]) -> None:
        """Call ``handler(old, new)`` on every change; at once for objects already there."""
        if len(self.store):
            self.delivering_list = True
            try:
                for obj in self.store.list():
                    handler(None, obj)
            finally:
                self.delivering_list = False
        self._handlers.append(handler)

    def expire(self) -> None:
        """Count the store as outdated until it has been filled again; `run` must not be running.

        Objects stay readable meanwhile. Handlers are called for what the next list changes.
        """
        self._synced.clear()
        self._reflector.restart()

    async def run(self) -> None:
        """Keep the store current until cancelled."""
        await self._reflector.run()

    # Called by the reflector

    async def replace(self, objects: dict[Key, T], resource_version: str) -> None:
        """Apply a whole list: add, update, and delete what is no longer there."""
        self.delivering_list = True
        for key in self.store.keys() - objects.keys():
            old = self.store.remove(key)
            if old is not None:
                self._notify(old, None)
        self.delivering_list = False
        for number, obj in enumerate(objects.values(), 1):
            self.delivering_list = True
            self._put(obj)
            self.delivering_list = False
            if number % _BATCH == 0:
                await asyncio.sleep(0)
        self.store.resource_version = resource_version
        self._synced.set()

    def changed(self, obj: T, resource_version: str) -> None:
        """Store an added or modified object."""
        self.store.resource_version = resource_version
        self._put(obj)

    def deleted(self, obj: T, resource_version: str) -> None:
        """Remove an object, unless its name now belongs to another incarnation."""
        self.store.resource_version = resource_version
        metadata = obj.metadata
        current = self.store.get(metadata.namespace, metadata.name)
        if current is not None and current.metadata.uid == metadata.uid:
            self.store.remove((metadata.namespace, metadata.name))
            # The final state, as in client-go; it has the resourceVersion of the deletion.
            self._notify(obj, None)

    def bookmark(self, resource_version: str) -> None:
        """Record that the store is up to date as of this version."""
        self.store.resource_version = resource_version

    def _put(self, obj: T) -> None:
        metadata = obj.metadata
        old = self.store.get(metadata.namespace, metadata.name)
        if old is None:
            self.store.put(obj)
            self._notify(None, obj)
            return
        adopt(obj, old)
        self.store.put(obj)
        if old.metadata.uid != obj.metadata.uid:
            self._notify(old, None)
            self._notify(None, obj)
        elif old.metadata.resource_version != obj.metadata.resource_version:
            self._notify(old, obj)

    def _notify(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception:  # noqa: BLE001 - logged with its traceback
                # A bug in one handler must not stop the cache that all others rely on.
                self._log.exception("handler failed")
