"""Follows the log of one container through reconnections and restarts.

Each line of a Kubernetes log has the time at which it was written. Reading resumes at the time of
the last received line, and known lines are skipped by time and number, so that no line is lost or
shown twice, however often the connection or the container is interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from traincrew.cli.watching.loglines import LogLines, as_time, split_stamp
from traincrew.engine.errors import ApiError, ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from traincrew.cli.display.objects import ContainerStatus, Pod
    from traincrew.engine.client import Client

RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 3.0


class Position:
    """The position up to which a log has been read.

    Args:
        since: The time before which lines are of no interest, in the form of `split_stamp`.
    """

    def __init__(self, since: tuple[str, str] | None = None) -> None:
        self.last = since
        self._at_last = 0
        self._resume: tuple[str, str] | None = None
        self._skip = 0

    @property
    def since(self) -> str | None:
        """The time to resume from, in the format of the API."""
        return None if self.last is None else as_time(self.last)

    def resume(self) -> None:
        """Prepare for reading a stream that starts at or before `since`."""
        self._resume, self._skip = self.last, self._at_last

    def is_new(self, stamp: tuple[str, str] | None) -> bool:
        """Return whether a line of the current stream is new, and record it."""
        if stamp is None:
            return True
        if self._resume is not None:
            if stamp < self._resume:
                return False
            if stamp == self._resume and self._skip > 0:
                self._skip -= 1
                return False
        if stamp == self.last:
            self._at_last += 1
        elif self.last is None or stamp > self.last:
            self.last, self._at_last = stamp, 1
        return True


class LogFollower:
    """Delivers every line that a container writes, once.

    Args:
        client: The API server.
        pod: The pod; `update` reports its changes.
        container: Name of the container.
        deliver: Called with each line, without its line break.
        room: Awaited between chunks, to let a slow reader catch up.
        position: The position from which to read; the beginning by default.
        earlier: Also deliver the log of an earlier run that has not been read, if it still exists.
        tail: Number of lines of the first log with which to begin; None for all.
        timestamps: Deliver each line with its time.
        refused: Called once if the log may not be read; following ends then.
    """

    def __init__(
        self,
        client: Client,
        pod: Pod,
        container: str,
        deliver: Callable[[str], None],
        room: Callable[[], Awaitable[None]] | None = None,
        *,
        position: Position | None = None,
        earlier: bool = True,
        tail: int | None = None,
        timestamps: bool = False,
        refused: Callable[[ForbiddenError], None] | None = None,
    ) -> None:
        self._client = client
        self._pod = pod
        self._container = container
        self._deliver = deliver
        self._room = room
        self._gone = False
        self._changed = asyncio.Event()
        self._position = position or Position()
        self._earlier = earlier
        self._tail = tail
        self._timestamps = timestamps
        self._refused = refused
        self.settled = asyncio.Event()
        """Set when everything has been delivered and the container is not running."""

    def update(self, pod: Pod, *, gone: bool = False) -> None:
        """Record a new state of the pod."""
        self._pod, self._gone = pod, self._gone or gone
        self._changed.set()

    async def run(self) -> None:
        """Deliver lines until the container has ended and will not be restarted."""
        complete = self._before_first()  # the last run of which the log was read to its end
        delay = RETRY_SECONDS
        while True:
            status = self._status()
            if status is None or not status.has_run:
                if self._gone or self._over():
                    break
                await self._wait(None)
                continue
            current = status.restart_count
            ended = status.state.running is None
            if current <= complete:
                self.settled.set()
                if self._gone or self._over():
                    break
                await self._wait(None)
                continue
            self.settled.clear()
            try:
                if current > complete + 1 and current > 0:
                    # An earlier run was not read to its end; only the last one still has a log.
                    await self._read(previous=True, follow=False, to_end=True)
                    complete = current - 1
                if ended and status.state.waiting is not None:
                    # Between runs the log is that of the run that ended.
                    await self._read(previous=False, follow=False, to_end=True)
                    complete = current
                    continue
                await self._read(previous=False, follow=not ended, to_end=ended)
                delay = RETRY_SECONDS
                if ended:
                    complete = current
                elif self._status() is status and not self._gone:
                    # The stream ended, but the watch has not reported the end of the container.
                    # Get the pod, so that the log of the next run is not mistaken for this one's.
                    await self._wait(RETRY_SECONDS)
                    await self._refresh_pod()
            except ApiError as error:
                if self._gone or self._is_refused(error):
                    break
                await self._wait(delay)
                if not isinstance(error, NotFoundError):
                    delay = min(delay * 2, LONGEST_RETRY_SECONDS)
            if self._gone:
                break
        self.settled.set()

    def _before_first(self) -> int:
        """Return the number of the run before the first one to deliver."""
        status = None if self._earlier else self._status()
        return -1 if status is None else status.restart_count - 1

    def _is_refused(self, error: ApiError) -> bool:
        """Return whether trying again is useless, after reporting it."""
        if not isinstance(error, ForbiddenError):
            return False
        if self._refused is not None:
            self._refused(error)
        return True

    async def _read(self, *, previous: bool, follow: bool, to_end: bool) -> None:
        """Deliver the new lines of one stream.

        A line without a line break is delivered only if the stream is known to contain the whole
        log; otherwise it may continue.
        """
        position = self._position
        position.resume()
        lines = LogLines()
        metadata = self._pod.metadata
        chunks = self._client.logs(
            metadata.name,
            metadata.namespace,
            container=self._container,
            follow=follow,
            since_time=position.since,
            timestamps=True,
            previous=previous,
            tail=self._tail,
        )
        self._tail = None
        # Closed also if following ends between two chunks.
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    self._take(line)
                if self._room is not None:
                    await self._room()
        if to_end and (rest := lines.rest()):
            self._take(rest)

    async def _refresh_pod(self) -> None:
        if self._changed.is_set() or self._gone:
            return
        from traincrew.cli.display.objects import Pod, decode
        from traincrew.engine.resources import PODS

        known = self._pod.metadata
        document = await self._client.get(PODS, known.name, known.namespace)
        if self._changed.is_set():
            return  # the watch has reported a newer state meanwhile
        if document["metadata"].get("uid") == known.uid:
            self._pod = decode(document, Pod)
        else:
            self._gone = True

    def _take(self, line: bytes) -> None:
        stamp, text = split_stamp(line)
        if self._position.is_new(stamp):
            self._deliver((line if self._timestamps else text).decode(errors="replace"))

    def _status(self) -> ContainerStatus | None:
        return self._pod.status.container(self._container)

    def _over(self) -> bool:
        return self._pod.status.ended

    async def _wait(self, seconds: float | None) -> None:
        """Wait for a change of the pod, for a limited time."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()
