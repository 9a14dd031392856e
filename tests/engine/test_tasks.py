"""Tasks end before whoever started them does."""

import asyncio
import contextlib

import pytest

from traincrew.engine.tasks import end_tasks


async def test_tasks_have_ended_even_if_their_owner_is_cancelled_twice() -> None:
    cancelled = 0
    started, ended = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        """Clean up for as long as nobody insists."""
        nonlocal cancelled
        started.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        cancelled += 1
        try:
            await asyncio.Event().wait()
        finally:
            cancelled += 1
            ended.set()

    task = asyncio.create_task(stubborn())
    await started.wait()
    ending = asyncio.create_task(end_tasks(task))
    while cancelled < 1:
        await asyncio.sleep(0)
    ending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await ending
    assert (ended.is_set(), cancelled) == (True, 2)


async def test_a_failure_is_no_failure_of_who_ends_it() -> None:
    async def broken() -> None:
        raise ValueError

    task = asyncio.create_task(broken())
    await asyncio.sleep(0)
    await end_tasks(task)
    assert task.done()
