"""Waiting: for work in a thread, for a descriptor, or for work unless it is stopped first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

__all__ = ["StoppedError", "in_thread", "readable", "unless_stopped"]

T = TypeVar("T")


class StoppedError(Exception):
    """The wait was stopped."""


async def in_thread(function: Callable[..., object], *arguments: Any, **options: Any) -> None:
    """Call a function in a thread and wait for its return, even when cancelled meanwhile.

    A thread cannot be cancelled: if it kept running, it would delete directories that the caller
    already uses again.

    Raises:
        Exception: The function raised it.
        asyncio.CancelledError: The caller was cancelled; the function has returned.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **options))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


async def readable(descriptor: int | socket.socket) -> None:
    """Wait until a descriptor can be read (or, if it is a pidfd, until its process has ended)."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def unless_stopped(stop: asyncio.Event, work: Awaitable[T]) -> T:
    """Wait for work unless an event is set first; then the work is cancelled.

    Raises:
        StoppedError: The event was set.
    """
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            raise StoppedError
        return task.result()
    finally:
        for each in (task, stopped):
            each.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)
