"""What browsers get of the list of jobs, however far behind they are, and what the feed keeps."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from cli.anycluster import job
from harness import Cluster
from traincrew.cli.page.listfeed import ListCursor, ListFeed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PREFIX = "ChainerJob.kubeflow.org/default"
GONE = [f"gone-{number}" for number in range(20)]


class Window:
    """The rows that a browser shows; it reads only when a test calls `read`."""

    def __init__(self, feed: ListFeed) -> None:
        self._cursor = ListCursor(feed)
        self._rows: dict[str, Any] = {}

    def read(self) -> set[str]:
        """Return the names of the jobs that the window shows after reading."""
        for _, content in self._cursor.collect():
            self._rows |= content["changed"]
            for key in content["removed"]:
                del self._rows[key]
        return {key.removeprefix(f"{PREFIX}/") for key in self._rows}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster() as running:
        yield running


@pytest.fixture
async def feed(cluster: Cluster) -> AsyncIterator[ListFeed]:
    watching = ListFeed(cluster.client, None)
    task = asyncio.create_task(watching.run())
    yield watching
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def shows(cluster: Cluster, window: Window, *names: str) -> None:
    async def check() -> bool:
        return window.read() == set(names)

    await cluster.until(check)


async def test_jobs_that_are_gone_are_removed_and_not_remembered(
    cluster: Cluster, feed: ListFeed
) -> None:
    prompt, slow = Window(feed), Window(feed)
    for name in (*GONE, "stays"):
        await cluster.create(job(name))
    await shows(cluster, prompt, *GONE, "stays")
    await shows(cluster, slow, *GONE, "stays")
    for name in GONE:
        await cluster.client.delete(cluster.kind_of(name), name, "default")
        await shows(cluster, prompt, "stays", *GONE[GONE.index(name) + 1 :])
    # What is kept does not grow with the number of jobs that there have been.
    assert all("gone-" not in repr(kept) for kept in vars(feed).values())
    await cluster.create(job(GONE[0]))
    await shows(cluster, prompt, GONE[0], "stays")
    # One that has read nothing meanwhile has the same rows, and so has a new one.
    assert slow.read() == Window(feed).read() == prompt.read()
