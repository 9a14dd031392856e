"""Work of the file system beside the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


async def in_thread(function: Callable[..., object], *arguments: Any, **options: Any) -> None:
    """Call a function in a thread, and return when it has: also when cancelled meanwhile.

    A thread cannot be cancelled. Whoever goes on without it finds directories disappearing under
    their hands.

    Raises:
        Exception: What the function raised.
        asyncio.CancelledError: Whoever waits here was cancelled; the function has ended.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **options))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise
