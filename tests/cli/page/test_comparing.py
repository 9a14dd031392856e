"""Several jobs in one stream: what each message is about, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cli.anycluster import job
from cli.page.test_server import COMPARED, opened
from harness import Cluster
from traincrew.cli.page.comparing import MOST_COMPARED, CompareCursor, ComparedFeed
from traincrew.cli.page.jobfeed import JobFeed
from traincrew.cli.watching.kinds import ALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from traincrew.cli.page.feed import Message

CHAINER = next(served for served in ALL if served.resource.kind == "ChainerJob")
JOB = "job=ChainerJob.kubeflow.org/default/j"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(controllers=False) as running:
        yield running


@pytest.mark.parametrize(
    "query", ["", "job=", "job=x", "job=a/b/c/d", "&".join(f"{JOB}{n}" for n in range(9))]
)
async def test_what_cannot_be_compared(cluster: Cluster, query: str) -> None:
    async with opened(cluster) as browser:
        status, text = await browser.get(f"/compare?{query}")
        assert status == 400
        assert json.loads(text)["error"].startswith(f"job: name 1 to {MOST_COMPARED} jobs")


async def test_a_kind_that_does_not_exist_is_not_found(cluster: Cluster) -> None:
    async with opened(cluster) as browser:
        status, _ = await browser.get("/compare?job=Pod.v1/default/x")
        assert status == 404


async def test_each_message_has_the_number_of_its_job(cluster: Cluster) -> None:
    await cluster.create(job("b"))
    async with opened(cluster) as browser:
        first = await browser.until(
            COMPARED, lambda seen: seen.get("compared", {}).get("exists") is False
        )
        assert first["compared"]["job"] == 0
        second = await browser.until(
            COMPARED, lambda seen: seen.get("compared", {}).get("exists") is True
        )
        assert second["compared"]["job"] == 1


def series(messages: list[Message]) -> list[Any]:
    return [content for event, content in messages if event == "series"]


async def test_only_what_is_new_is_sent(cluster: Cluster) -> None:
    jobs = [JobFeed(cluster.client, CHAINER, "default", name) for name in "ab"]
    cursor, feed = CompareCursor(jobs), ComparedFeed(jobs)
    changed = feed.subscribe()
    changed.clear()
    assert [content["job"] for _, content in cursor.collect()] == [0, 1]
    assert cursor.collect() == []
    jobs[1].recorder.add("loss", "b-0", 1, 0.5)
    jobs[1].changed()
    assert changed.is_set()
    (content,) = series(cursor.collect())
    assert (content["job"], content["names"], content["again"]) == (1, [("loss", "b-0")], True)
    jobs[1].recorder.add("loss", "b-0", 2, 0.25)
    (content,) = series(cursor.collect())
    assert [point.value for point in content["points"]] == [0.25]
    assert content["again"] is False
    assert all(each.subscribers == 1 for each in jobs)
    feed.unsubscribe(changed)
    assert all(each.subscribers == 0 for each in jobs)
