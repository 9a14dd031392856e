"""What browsers get of the list of jobs, however far behind they are, and what the feed keeps."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from cli.anycluster import job
from harness import Cluster
from traincrew.cli.page import listfeed
from traincrew.cli.page.listfeed import ListCursor, ListFeed
from traincrew.cli.page.trends import Trend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from traincrew.cli.page.jobrows import JobRow

PREFIX = "ChainerJob.kubeflow.org/default"
GONE = [f"gone-{number}" for number in range(20)]


class Window:
    """The rows that a browser shows; it reads only when a test calls `read`."""

    def __init__(self, feed: ListFeed) -> None:
        self._cursor = ListCursor(feed)
        self._rows: dict[str, Any] = {}

    def read(self) -> set[str]:
        """Return the names of the jobs that the window shows, without deleted ones."""
        return {name for name, row in self.rows().items() if row.deleted_at is None}

    def rows(self) -> dict[str, JobRow]:
        """Return all rows that the window shows after reading, by the names of their jobs."""
        for _, content in self._cursor.collect():
            self._rows |= content["changed"]
            for key in content["removed"]:
                del self._rows[key]
        return {key.removeprefix(f"{PREFIX}/"): row for key, row in self._rows.items()}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(controllers=False) as running:
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


async def test_jobs_that_are_deleted_are_marked_and_remembered_within_a_bound(
    cluster: Cluster, feed: ListFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listfeed, "MOST_DELETED", 3)
    prompt, slow = Window(feed), Window(feed)
    for name in (*GONE, "stays"):
        await cluster.create(job(name))
    await shows(cluster, prompt, *GONE, "stays")
    await shows(cluster, slow, *GONE, "stays")
    for name in GONE:
        await cluster.client.delete(cluster.kind_of(name), name, "default")
        await shows(cluster, prompt, "stays", *GONE[GONE.index(name) + 1 :])
    # What is kept does not grow with the number of jobs that there have been.
    kept = {f"gone-{number}" for number in (17, 18, 19)}
    assert set(prompt.rows()) == {"stays", *kept}
    for forgotten in set(GONE) - kept:
        assert all(f"/{forgotten}'" not in repr(each) for each in vars(feed).values())
    assert feed.deleted(f"{PREFIX}/gone-19") is not None
    assert feed.deleted(f"{PREFIX}/stays") is None
    await cluster.create(job(GONE[0]))
    await shows(cluster, prompt, GONE[0], "stays")
    # One that has read nothing meanwhile has the same rows, and so has a new one.
    assert slow.read() == Window(feed).read() == prompt.read()
    assert slow.rows() == Window(feed).rows() == prompt.rows()


async def test_a_job_of_the_same_name_replaces_one_that_was_deleted(
    cluster: Cluster, feed: ListFeed
) -> None:
    window = Window(feed)
    await cluster.create(job("again"))
    await shows(cluster, window, "again")
    await cluster.client.delete(cluster.kind_of("again"), "again", "default")
    await shows(cluster, window)
    assert window.rows()["again"].deleted_at is not None
    await cluster.create(job("again"))
    await shows(cluster, window, "again")
    assert feed.deleted(f"{PREFIX}/again") is None


async def test_what_a_program_reports_is_a_course(cluster: Cluster, feed: ListFeed) -> None:
    window = Window(feed)
    await cluster.create(job("trains"))
    await shows(cluster, window, "trains")
    for number, loss in enumerate(("3.5", "nan", "1.5", "0.5"), 1):
        progress = {
            "lastUpdateTime": f"2026-01-01T00:00:0{number}Z",
            "metrics": [{"name": "step", "value": str(number)}, {"name": "loss", "value": loss}],
        }
        await cluster.client.patch(
            cluster.kind_of("trains"),
            "trains",
            "default",
            patch={"status": {"progress": progress}},
            subresource="status",
        )

        async def reads(expected: str = loss) -> bool:
            trend = window.rows()["trains"].trend
            return trend is not None and (expected == "nan" or trend.value == float(expected))

        await cluster.until(reads)
    # What its lines say is not drawn as well.
    feed.printed(f"{PREFIX}/trains", Trend("accuracy", 0.5, (0, 99)))
    assert window.rows()["trains"].trend == Trend("loss", 0.5, (99, 33, 0))
