"""Server-sent events: sends a feed to one browser, as fast as that browser reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.cli.page.feed import Message

if TYPE_CHECKING:
    from aiohttp import web

    from traincrew.cli.page.feed import Cursor, Feed
    from traincrew.cli.page.jobfeed import JobFeed

INTERVAL_SECONDS = 0.1
"""Shortest time between two messages; what changes meanwhile is sent together."""
QUIET_SECONDS = 15.0
"""After so long without a message a comment is sent, so that a dead connection is noticed."""
LINES_AT_ONCE = 500
"""Log lines of one message. A browser that gets more in an interval is told how many it missed."""


class JobCursor:
    """How far one browser is with a job."""

    def __init__(self, feed: JobFeed) -> None:
        self._feed = feed
        self._version = -1
        self._head: Any = None
        self._pods: dict[str, Any] = {}
        self._events: Any = None
        self._lines = max(0, feed.line_count - len(feed.lines))
        self._points = 0
        self._names = 0
        self._marks: Any = None
        self._thinned = feed.recorder.thinned

    def collect(self) -> list[Message]:
        """Return what has changed since the last call."""
        messages = []
        if self._feed.version != self._version:
            self._version = self._feed.version
            messages += self._state()
        return messages + self._series() + self._log()

    def _state(self) -> list[Message]:
        feed, messages = self._feed, []
        if feed.exists is False and feed.view is None:
            return [Message("absent", {"problems": _problems(feed)})]
        view = feed.view
        if view is None:
            text = _problems(feed)
            return [Message("problems", text)] if text else []
        head = {
            "job": view.job,
            "exists": feed.exists,
            "progress": view.progress,
            "conditions": view.conditions,
            "roles": [
                {"name": role.name, "desired": role.desired, "ready": role.ready}
                for role in view.roles
            ],
            "problems": _problems(feed),
            "unfollowed": feed.unfollowed,
        }
        if head != self._head:
            self._head = head
            messages.append(Message("job", head))
        rows = feed.rows
        changed = [row for uid, row in rows.items() if self._pods.get(uid) != row]
        removed = [uid for uid in self._pods if uid not in rows]
        if changed or removed:
            self._pods = dict(rows)
            messages.append(Message("pods", {"changed": changed, "removed": removed}))
        events = feed.said()
        if events != self._events:
            self._events = events
            messages.append(Message("events", events))
        return messages

    def _series(self) -> list[Message]:
        recorder = self._feed.recorder
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

    def _log(self) -> list[Message]:
        feed = self._feed
        new = feed.line_count - self._lines
        if new <= 0:
            return []
        sent = min(new, LINES_AT_ONCE, len(feed.lines))
        first = self._lines == 0 or new == feed.line_count
        if first:  # what the page begins with may be all that is kept
            sent = min(new, len(feed.lines))
        lines = list(feed.lines)[len(feed.lines) - sent :]
        self._lines = feed.line_count
        return [Message("log", {"lines": lines, "missed": new - sent})]


def _problems(feed: JobFeed) -> list[str]:
    return sorted({text for text in feed.problems.values() if text})


async def send(response: web.StreamResponse, feed: Feed, cursor: Cursor) -> None:
    """Send a feed until the browser leaves.

    Raises:
        ConnectionError: The browser has left.
    """
    changed = feed.subscribe()
    encoder = msgspec.json.Encoder()
    try:
        while True:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    await changed.wait()
            except TimeoutError:
                await response.write(b":\n\n")
                continue
            changed.clear()
            for event, content in cursor.collect():
                data = encoder.encode(content)
                await response.write(b"event: %b\ndata: %b\n\n" % (event.encode(), data))
            await asyncio.sleep(INTERVAL_SECONDS)
    finally:
        feed.unsubscribe(changed)
