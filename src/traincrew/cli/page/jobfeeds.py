"""The jobs that are watched for browsers: each as long as one looks at it, and some that are gone.

A job that is deleted has nothing to be read again, so what was seen of it is kept, within a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from traincrew.cli.page.jobfeed import JobFeed
from traincrew.cli.page.listfeed import ListFeed, kind_key, served_by
from traincrew.cli.page.trends import TrendReader

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from traincrew.cli.watching.kinds import Served
    from traincrew.engine.client import Client

__all__ = ["JobFeeds", "NotWatchedError", "TooManyJobsError"]

MOST_FEEDS = 16
MOST_FOLLOWED = 8
"""Jobs that are followed although nobody looks at them, if the server is to follow jobs."""
MOST_PAST = 8
"""Deleted jobs of which all is kept that was seen; of others the list has the last state."""
IDLE_SECONDS = 30.0
"""How long a job is watched after the last browser has left it."""
READ_SECONDS = 2.0
"""Seconds that may be spent at the end of a cluster to read what it still says."""
_READ_POLL_SECONDS = 0.05

Key = tuple[str, str, str]


class TooManyJobsError(Exception):
    """More jobs are looked at than can be watched."""


class NotWatchedError(Exception):
    """The cluster has ended, and the job was not watched before."""


class JobFeeds:
    """Watches jobs.

    Args:
        client: The API server.
        jobs: The list, which shows what programs print.
        start: Starts a task that ends with the server.
        follow: Follow jobs from the start, whether or not somebody looks at them.
    """

    def __init__(
        self,
        client: Client,
        jobs: ListFeed,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        follow: bool,
    ) -> None:
        self._client = client
        self._list = jobs
        self._start = start
        self._follow = follow
        self._frozen = False
        self._feeds: dict[Key, tuple[JobFeed, asyncio.Task[None]]] = {}
        self._past: dict[Key, JobFeed] = {}

    def of(self, served: Served, namespace: str, name: str) -> JobFeed:
        """Return the feed of a job, which is watched from now on.

        Raises:
            TooManyJobsError: There are `MOST_FEEDS` others.
            NotWatchedError: The cluster has ended.
        """
        key = (kind_key(served), namespace, name)
        known = self._feeds.get(key)
        if known is not None and (self._frozen or not known[1].done()):
            return known[0]
        last = self._list.deleted("/".join(key))
        past = self._past.get(key)
        if past is not None and (last is not None or self._frozen):
            return past
        if self._frozen:
            raise NotWatchedError
        if len(self._feeds) >= MOST_FEEDS:
            raise TooManyJobsError
        self._past.pop(key, None)
        feed = JobFeed(self._client, served, namespace, name, last=last.job if last else None)
        self._feeds[key] = feed, self._start(self._while_used(key, feed))
        return feed

    def known(self, key: Key) -> JobFeed | None:
        """Return the feed of a job that is watched."""
        known = self._feeds.get(key)
        return known[0] if known is not None else self._past.get(key)

    async def follow_jobs(self) -> None:
        """Follow the first jobs of the list, each from when it appears; never returns."""
        changed = self._list.subscribe()
        while True:
            await changed.wait()
            changed.clear()
            for key, (_, row) in list(self._list.rows.items()):
                kind, namespace, name = key.split("/")
                served = served_by(kind)
                there = row.deleted_at is None and served is not None
                if there and served is not None and len(self._feeds) < MOST_FOLLOWED:
                    self.of(served, namespace, name)

    async def until_read(self, jobs: int) -> None:
        """Wait, for a short time, until the jobs that are followed and their logs were read.

        Args:
            jobs: How many jobs the cluster has.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                while not self._has_read(min(jobs, MOST_FOLLOWED)):  # noqa: ASYNC110 - of several feeds
                    await asyncio.sleep(_READ_POLL_SECONDS)

    def _has_read(self, jobs: int) -> bool:
        feeds = [feed for feed, _ in self._feeds.values()]
        return len(feeds) >= jobs and all(
            feed.head is not None and feed.head.job.ended_at and feed.logs.all_read
            for feed in feeds
        )

    async def freeze(self) -> None:
        """Watch no more; what was seen stays."""
        self._frozen = True
        watching = [task for _, task in self._feeds.values()]
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        for feed, _ in self._feeds.values():
            feed.changed()

    async def _while_used(self, key: Key, feed: JobFeed) -> None:
        work = asyncio.create_task(feed.run())
        idle, trends = 0.0, TrendReader(feed.recorder)
        try:
            while idle < IDLE_SECONDS and not work.done():
                await asyncio.wait({work}, timeout=1.0)
                self._list.printed("/".join(key), trends.read())
                idle = 0.0 if feed.subscribers or self._follow else idle + 1.0
        finally:
            if not self._frozen:
                self._feeds.pop(key, None)
                if feed.was_deleted:
                    self._remember(key, feed)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _remember(self, key: Key, feed: JobFeed) -> None:
        self._past[key] = feed
        while len(self._past) > MOST_PAST:
            del self._past[next(iter(self._past))]
