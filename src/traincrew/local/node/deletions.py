"""Removal of local state of objects that were deleted from the API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError
from traincrew.engine.observability import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from traincrew.engine.cache import Informer
    from traincrew.engine.client import Client
    from traincrew.engine.objects import ObjectMeta

__all__ = ["Deletions"]

_RETRY_SECONDS = 1.0


class Deletions:
    """Removes the local state of deleted objects.

    Args:
        client: The API server, queried where a deletion is not certain.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tasks: set[asyncio.Future[None]] = set()
        self._log = get_logger(component="node")

    def follow(
        self, source: Informer[Any], metadata: ObjectMeta, removal: Callable[[], Awaitable[None]]
    ) -> None:
        """Remove the local state of a deleted object.

        A deletion that a watch reports is certain. An object that a list lacks is queried first:
        killing processes and deleting data cannot be undone.
        """
        if source.delivering_list:
            self._spawn(self._once_gone(source, metadata, removal))
        else:
            self._spawn(removal())

    async def cancel(self) -> None:
        """Cancel pending removals; the next start does them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _once_gone(
        self, source: Informer[Any], metadata: ObjectMeta, removal: Callable[[], Awaitable[None]]
    ) -> None:
        """Query until the object is gone, or the cache has it again."""
        resource, name, namespace = source.resource, metadata.name, metadata.namespace
        described = f"{resource.plural}/{namespace}/{name}"
        while True:
            try:
                if await self._client.is_gone(resource, name, namespace, uid=metadata.uid):
                    await removal()
                    return
            except ApiError as error:
                self._log.warning("deletion not confirmed", object=described, error=str(error))
            await asyncio.sleep(_RETRY_SECONDS)
            known = source.store.get(namespace, name)
            if known is not None and known.metadata.uid == metadata.uid:
                return
