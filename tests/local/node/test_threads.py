"""Callers of threads continue only after the threads have ended."""

from __future__ import annotations

import asyncio
import threading

import pytest

from traincrew.local.node.waiting import in_thread


async def test_a_cancelled_caller_waits_for_the_thread() -> None:
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert may_end.wait(60)
        ended.set()

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(began.wait, 60)
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_exceptions_of_the_thread_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)
