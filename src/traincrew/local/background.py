"""An event loop on a thread of its own, for callers that have none, or one that runs already."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

CLEANUP_SECONDS = 15.0
"""How long calls that were cancelled may take to clean up when the loop is closed."""


class BackgroundLoop:
    """Runs coroutines on another thread while the caller waits.

    A notebook runs a loop on its main thread, so that `asyncio.run` cannot be used there.
    """

    def __init__(self, name: str) -> None:
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._stop: asyncio.Event | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name=name, daemon=True
        )
        self._thread.start()
        self._loop = started.result()

    async def _serve(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        self._stop = asyncio.Event()
        started.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        if self._calls:  # cancelled; a second cancellation would interrupt their cleanup
            await asyncio.wait(self._calls, timeout=CLEANUP_SECONDS)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; Ctrl-C while waiting cancels it.

        Raises:
            RuntimeError: The loop was closed.
            Exception: What the coroutine raises.
        """
        if not self._thread.is_alive():
            coroutine.close()
            raise RuntimeError("the cluster was stopped")
        future = asyncio.run_coroutine_threadsafe(self._tracked(coroutine), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _tracked(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return await coroutine

    def close(self) -> None:
        """End the loop and its thread."""
        if self._thread.is_alive() and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
