"""Waits of tests for what an API server in the same process stores."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Storage


async def until_written(storage: Storage, *, at_most: float, interval: float = 0.01) -> None:
    """Wait until something was written, or some seconds have passed; look now and then.

    Requests in between would answer the same, and are most of what a waiting test costs.

    Args:
        storage: The storage of the API server.
        at_most: Seconds.
        interval: Seconds between two looks.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + at_most
    revision = storage.revision
    while True:
        await asyncio.sleep(interval)
        if storage.revision != revision or loop.time() >= end:
            return
