"""Waits until several watches are up to date, because they are not synchronized with each other.

The watch of a job may report its failure, for example, before the watch of pods reports the cause.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.cache import Informer
    from traincrew.engine.client import Client


async def catch_up(client: Client, informers: Iterable[Informer[Any]]) -> None:
    """Wait until each cache contains everything that exists by now.

    Versions of a resource are compared as numbers (KEP-5504, comparable resource versions).

    Raises:
        ApiError: A list request failed.
    """
    changed = asyncio.Event()
    for informer in informers:
        informer.add_handler(lambda _old, _new: changed.set())
        while True:
            changed.clear()
            # List again after each change, because objects may have been deleted since.
            listed = await client.list(
                informer.resource,
                informer.namespace,
                label_selector=informer.label_selector,
                field_selector=informer.field_selector,
            )
            if not any(_is_newer(informer, item["metadata"]) for item in listed["items"]):
                break
            await changed.wait()


def _is_newer(informer: Informer[Any], metadata: dict[str, Any]) -> bool:
    known = informer.store.get(metadata.get("namespace", ""), metadata["name"])
    return known is None or int(known.metadata.resource_version) < int(metadata["resourceVersion"])
