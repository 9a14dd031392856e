"""All jobs of a cluster, or of one namespace, as rows that change.

Jobs that were deleted stay, with their last state, as long as the server lives and within a bound.
That an object is missing from a list is not said to be its end: the API server is asked, and only
its answer 404, or a watch that reports the deletion, counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import structs

from traincrew.cli.display import states
from traincrew.cli.display.objects import Job
from traincrew.cli.display.text import one_line
from traincrew.cli.page.feed import Feed, Message, problem_of
from traincrew.cli.page.jobrows import JobRow, row_of
from traincrew.cli.page.trends import Course, Trend, main_metric
from traincrew.cli.watching.kinds import ALL, BY_NAME, Served
from traincrew.engine.cache import Informer
from traincrew.engine.errors import ApiError, ForbiddenError, NotFoundError
from traincrew.engine.times import format_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.client import Client

__all__ = ["ListCursor", "ListFeed", "kind_key", "served_by"]

MOST_DELETED = 100
"""Deleted jobs that are remembered; the one that was deleted first is forgotten first."""
RETRY_SECONDS = 5.0
"""Pause before a question that the API server could not answer is asked again."""


def kind_key(served: Served) -> str:
    """Return how the page names a kind: ``KIND.GROUP``, because two groups may have the same."""
    return f"{served.resource.kind}.{served.resource.group}"


def served_by(key: str) -> Served | None:
    """Return the kind of a `kind_key`."""
    return next((one for one in (*ALL, *BY_NAME) if kind_key(one) == key), None)


class ListFeed(Feed):
    """Watches the jobs of all kinds.

    Args:
        client: The API server.
        namespace: Only this namespace; None for all.
    """

    def __init__(self, client: Client, namespace: str | None) -> None:
        super().__init__()
        self._client = client
        self._namespace = namespace
        self.rows: dict[str, tuple[int, JobRow]] = {}
        """Rows by key, each with the number of its last change."""
        self._deleted: dict[str, None] = {}
        """Keys of deleted jobs, in the order of their deletion."""
        self._courses: dict[str, tuple[str, Course]] = {}
        """What programs have reported, by key, each with the time of the last report."""
        self._uids: dict[str, str] = {}
        self._missing: asyncio.Queue[tuple[Served, str, Job]] = asyncio.Queue()
        self.problems: dict[str, str] = {}
        self.version = 0
        self._known: set[str] = set()

    @property
    def synced(self) -> bool:
        """Whether the jobs of each kind are known, or why they are not."""
        return len(self._known) == len(ALL)

    async def run(self) -> None:
        """Watch until cancelled."""
        informers = {kind_key(served): self._informer(served) for served in ALL}
        async with asyncio.TaskGroup() as tasks:
            for key, informer in informers.items():
                tasks.create_task(informer.run())
                tasks.create_task(self._until_synced(key, informer))
            tasks.create_task(self._ask_for_missing())

    async def _until_synced(self, key: str, informer: Informer[Any]) -> None:
        await informer.wait_synced()
        self._known.add(key)
        self.changed()

    def _informer(self, served: Served) -> Informer[Any]:
        resource, key = served.resource, kind_key(served)

        def state(error: Exception | None) -> None:
            told = served.is_needed or not isinstance(error, ForbiddenError)
            text = problem_of(error, resource, self._namespace) if told else ""
            self._known.add(key)
            if text != self.problems.get(key, ""):
                self.problems[key] = text
                self._next()
            else:
                self.changed()

        informer: Informer[Any] = Informer(
            self._client, resource, Job, namespace=self._namespace, on_state=state
        )
        informer.add_handler(self._handler(served, informer))
        return informer

    def _handler(self, served: Served, informer: Informer[Any]) -> Callable[[Any, Any], None]:
        prefix = kind_key(served)

        def handle(old: Job | None, new: Job | None) -> None:
            job = new or old
            assert job is not None
            if job.is_part:
                return
            key = f"{prefix}/{job.metadata.namespace}/{job.metadata.name}"
            if new is not None:
                self._show(served, key, new)
            elif informer.delivering_list:
                self._missing.put_nowait((served, key, job))
            else:
                self._mark_deleted(key)

        return handle

    def _show(self, served: Served, key: str, job: Job) -> None:
        known = self.rows.get(key)
        again = key in self._deleted
        if again:
            del self._deleted[key]
            self._courses.pop(key, None)
        trend = self._reported(key, job)
        if trend is None and known is not None and not again:
            trend = known[1].trend
        self._uids[key] = job.metadata.uid
        self.rows[key] = self._next(), row_of(served.kind, job, trend)

    def _reported(self, key: str, job: Job) -> Trend | None:
        """Record what the program has reported; its values are texts, and need not be numbers."""
        at, course = self._courses.get(key, ("", None))
        progress = job.status.progress
        if progress is not None and progress.last_update_time != at:
            values = {}
            for metric in progress.metrics:
                with contextlib.suppress(ValueError):
                    values[one_line(metric.name)] = float(metric.value)
            name = course.metric if course is not None else main_metric(values)
            value = values.get(name, math.nan) if name is not None else math.nan
            if name is not None and math.isfinite(value):
                course = course or Course(name)
                course.add(value)
                self._courses[key] = progress.last_update_time, course
        return None if course is None else course.trend()

    def printed(self, key: str, trend: Trend | None) -> None:
        """Show what a program prints, which is known of jobs whose logs are followed.

        Args:
            key: ``KIND.GROUP/NAMESPACE/NAME`` of the job.
            trend: The course of its main metric. What the program reports goes before it.
        """
        known = self.rows.get(key)
        if trend is None or known is None or known[1].trend == trend or key in self._courses:
            return
        self.rows[key] = self._next(), structs.replace(known[1], trend=trend)

    # -- jobs that were deleted -------------------------------------------------------------------

    async def _ask_for_missing(self) -> None:
        """Ask for each job that a list lacks whether it does not exist any more."""
        while True:
            served, key, job = await self._missing.get()
            metadata = job.metadata
            try:
                found = await self._client.get(served.resource, metadata.name, metadata.namespace)
            except NotFoundError:
                gone = True
            except ForbiddenError:  # it stays unknown, so nothing is said of it
                self._forget(key, metadata.uid)
                continue
            except ApiError:
                await asyncio.sleep(RETRY_SECONDS)
                self._missing.put_nowait((served, key, job))
                continue
            else:
                gone = found["metadata"].get("uid") != metadata.uid
            if gone and self._uids.get(key) == metadata.uid:
                self._mark_deleted(key)

    def _mark_deleted(self, key: str) -> None:
        known = self.rows.get(key)
        if known is None or key in self._deleted:
            return
        now = format_time(datetime.now(UTC))
        self.rows[key] = (
            self._next(),
            structs.replace(known[1], deleted_at=now, sign=states.PHASES[states.GONE].sign.name),
        )
        self._deleted[key] = None
        self._courses.pop(key, None)
        while len(self._deleted) > MOST_DELETED:
            oldest = next(iter(self._deleted))
            self._forget(oldest, self._uids[oldest])

    def _forget(self, key: str, uid: str) -> None:
        if self._uids.get(key) == uid:
            self._deleted.pop(key, None)
            self._courses.pop(key, None)
            del self._uids[key], self.rows[key]
            self._next()

    def deleted(self, key: str) -> JobRow | None:
        """Return the last state of a job that was deleted; None if it was not, or is forgotten."""
        return self.rows[key][1] if key in self._deleted else None

    def _next(self) -> int:
        self.version += 1
        self.changed()
        return self.version


class ListCursor:
    """How far one browser is with the list.

    It knows which rows the browser has, so that jobs that are gone need not be remembered.
    """

    def __init__(self, feed: ListFeed) -> None:
        self._feed = feed
        self._seen = -1
        self._keys: set[str] = set()

    def collect(self) -> list[Message]:
        """Return the rows that have changed, all of them the first time."""
        feed, seen = self._feed, self._seen
        if not feed.synced or feed.version == seen:
            return []
        keys = set(feed.rows)
        removed = sorted(self._keys - keys)
        self._seen, self._keys = feed.version, keys
        content = {
            "changed": {key: row for key, (version, row) in feed.rows.items() if version > seen},
            "removed": removed,
            "problems": sorted({text for text in feed.problems.values() if text}),
        }
        return [Message("rows", content)]
