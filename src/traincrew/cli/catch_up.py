"""Watches are not in step with each other: what one tells may be news of what another one has seen.

A job says that it has failed, for instance, before the watch of pods tells which one did, and how.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.client import Client
    from traincrew.engine.informer import Informer


async def catch_up(client: Client, informers: Iterable[Informer[Any]]) -> None:
    """Wait until each cache has been told of everything that is there by now.

    Versions of a resource are compared as numbers (KEP-5504, comparable resource versions).

    Raises:
        ApiError: A list could not be had.
    """
    changed = asyncio.Event()
    for informer in informers:
        informer.add_handler(lambda _old, _new: changed.set())
        while True:
            changed.clear()
            # Asked again after each change, for what was there may have been deleted since.
            listed = await client.list(informer.resource)
            if not any(_is_news(informer, item["metadata"]) for item in listed["items"]):
                break
            await changed.wait()


def _is_news(informer: Informer[Any], metadata: dict[str, Any]) -> bool:
    known = informer.store.get(metadata.get("namespace", ""), metadata["name"])
    return known is None or int(known.metadata.resource_version) < int(metadata["resourceVersion"])
