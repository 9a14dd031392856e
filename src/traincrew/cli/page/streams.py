"""Server-sent events: sends a feed to one browser, as fast as that browser reads."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.cli.page.feed import Message
from traincrew.cli.page.usage import UsageCursor

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from traincrew.cli.page.feed import Cursor, Feed
    from traincrew.cli.page.jobfeed import JobFeed
    from traincrew.cli.page.series import Recorder

INTERVAL_SECONDS = 0.1
"""Shortest time between two messages; what changes meanwhile is sent together."""
CHECK_SECONDS = 1.0
"""Without a change it is looked so often whether the browser has left."""
QUIET_SECONDS = 15.0
"""After so long without a message a comment is sent, so that a dead connection is noticed."""


class SeriesCursor:
    """How far one browser is with the metrics of a job."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._points = 0
        self._names = 0
        self._marks: Any = None
        self._thinned = recorder.thinned

    def collect(self) -> list[Message]:
        """Return what has changed since the last call."""
        recorder = self._recorder
        if recorder.thinned != self._thinned:
            self._thinned, self._points, self._names = recorder.thinned, 0, 0
        again = self._names == 0
        points, names = recorder.points[self._points :], recorder.names[self._names :]
        messages = []
        if points or names:
            content = {
                "again": again,
                "names": names,
                "points": points,
                "turnedAway": recorder.turned_away,
            }
            messages.append(Message("series", content))
        self._points, self._names = len(recorder.points), len(recorder.names)
        marks = (len(recorder.marks), recorder.marks[-1:] and recorder.marks[-1])
        if marks != self._marks and recorder.marks:
            self._marks = marks
            messages.append(Message("marks", list(recorder.marks)))
        return messages


class JobCursor:
    """How far one browser is with a job."""

    def __init__(self, feed: JobFeed) -> None:
        self._feed = feed
        self._version = -1
        self._head: Any = None
        self._pods: set[str] = set()
        self._events: Any = []
        self._lines = feed.logs.read - len(feed.logs.lines)
        self._skipped = 0
        self._series = SeriesCursor(feed.recorder)
        self._usage = UsageCursor(feed.usage.recorder)

    def collect(self) -> list[Message]:
        """Return what has changed since the last call."""
        messages = []
        if self._feed.version != self._version:
            messages += self._state()
            self._version = self._feed.version
        return messages + self._series.collect() + self._usage.collect() + self._log()

    def _state(self) -> list[Message]:
        feed, messages = self._feed, []
        if feed.head is None:
            if feed.exists is False:
                return [Message("absent", {"problems": feed.problems})]
            return [Message("problems", feed.problems)] if feed.problems else []
        if feed.head != self._head:
            self._head = feed.head
            messages.append(Message("job", feed.head))
        changed = [row for version, row in feed.rows.values() if version > self._version]
        removed = self._pods - feed.rows.keys()
        if changed or removed:
            self._pods = set(feed.rows)
            messages.append(Message("pods", {"changed": changed, "removed": sorted(removed)}))
        if feed.events != self._events:
            self._events = feed.events
            messages.append(Message("events", feed.events))
        return messages

    def _log(self) -> list[Message]:
        """Return the new lines, as far as they are kept, and how many are missing before them."""
        logs = self._feed.logs
        new, skipped = logs.read - self._lines, logs.skipped - self._skipped
        if not new and not skipped:
            return []
        self._lines, self._skipped = logs.read, logs.skipped
        newest = list(itertools.islice(reversed(logs.lines), new))
        missed = new - len(newest) + skipped
        return [Message("log", {"lines": newest[::-1], "missed": missed})]


async def send(
    response: web.StreamResponse, feed: Feed, cursor: Cursor, has_left: Callable[[], bool]
) -> None:
    """Send a feed until the browser leaves.

    Args:
        response: The stream.
        feed: What is sent.
        cursor: How far the browser is.
        has_left: Whether its connection is known to be closed.

    Raises:
        ConnectionError: The browser has left.
    """
    changed = feed.subscribe()
    encoder = msgspec.json.Encoder()
    try:
        written = time.monotonic()
        while not has_left():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await changed.wait()
            changed.clear()
            for event, content in cursor.collect():
                data = encoder.encode(content)
                await response.write(b"event: %b\ndata: %b\n\n" % (event.encode(), data))
                written = time.monotonic()
            # A feed may change all the time and have nothing for this browser.
            if time.monotonic() - written >= QUIET_SECONDS:
                await response.write(b":\n\n")
                written = time.monotonic()
            await asyncio.sleep(INTERVAL_SECONDS)
    finally:
        feed.unsubscribe(changed)
