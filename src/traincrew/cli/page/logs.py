"""The logs of a job for the page: which of them are followed, their lines, and the metrics in them.

Each log that is followed is a connection to the API server, so only some of them are: logs that a
browser has asked for, and those of containers that have failed, go before the others. What is
written faster than it can be shown is counted, not kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.cli.display.metrics import MetricReader
from traincrew.cli.display.text import clean, moment, uncoloured
from traincrew.cli.watching.follow import LogFollower, Position
from traincrew.cli.watching.loglines import LogLines, split_stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.cli.display.objects import ContainerStatus, Pod
    from traincrew.cli.page.series import Recorder
    from traincrew.engine.client import Client

__all__ = ["JobLogs", "LogLine"]

MOST_LINES = 5000
"""Log lines that are kept for browsers that open the page later, or read slowly."""
MOST_BYTES = 4 * 2**20
"""Of the log of an earlier run."""
LONGEST_LINE = 4096
FIRST_LINES = 20_000
"""Lines of a log that exists already with which to begin; they are never skipped."""
MOST_LINES_A_SECOND = 5000
"""Lines of all logs together that are read in a second, or at once; others are counted only."""
MOST_LOGS = 64
"""Logs that are followed at the same time."""
MOST_ASKED = 8
"""Pods whose logs were asked for and therefore go first; the last ones."""
SCHEDULE_SECONDS = 0.05


class LogLine(Struct, frozen=True, array_like=True):
    """A line of a log: when (seconds since 1970), which pod, what, with its colours."""

    at: float
    pod: str
    text: str


class _Log:
    """The log of one container."""

    def __init__(self, pod: Pod, container: str) -> None:
        self.pod = pod
        self.container = container
        several = len(pod.spec.containers) > 1
        self.source = f"{pod.metadata.name}/{container}" if several else pod.metadata.name
        self.reader = MetricReader()
        self.position = Position()
        self.first = FIRST_LINES
        self.follower: LogFollower | None = None
        self.task: asyncio.Task[None] | None = None
        self.ended = False
        """Whether it was read to its end, or its pod is gone."""

    @property
    def waits(self) -> bool:
        """Whether there is something to read, and nobody reads it."""
        status = self.status
        return self.task is None and not self.ended and status is not None and status.has_run

    @property
    def status(self) -> ContainerStatus | None:
        """The state of its container."""
        return self.pod.status.container(self.container)

    @property
    def restarted(self) -> bool:
        """Whether its container has run before the present run."""
        return self.status is not None and self.status.restart_count > 0

    @property
    def failed(self) -> bool:
        """Whether the last run of its container has failed."""
        return self.status is not None and self.status.has_failed


class JobLogs:
    """Follows the logs of a job's pods, within bounds.

    Args:
        client: The API server.
        recorder: Gets the metrics that programs print.
        changed: Called when there are new lines, or another number of logs is followed.

    Attributes:
        lines: The newest lines that were read.
        read: How many lines were read.
        skipped: How many more lines were written, but came too fast to be read.
        unfollowed: How many logs are not followed because there are too many.
    """

    def __init__(self, client: Client, recorder: Recorder, changed: Callable[[], None]) -> None:
        self._client = client
        self._recorder = recorder
        self._changed = changed
        self.lines: deque[LogLine] = deque(maxlen=MOST_LINES)
        self.read = 0
        self.skipped = 0
        self.unfollowed = 0
        self._logs: dict[str, list[_Log]] = {}
        self._asked: deque[str] = deque(maxlen=MOST_ASKED)
        self._followed: dict[asyncio.Task[None], _Log] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._room = float(MOST_LINES_A_SECOND)
        self._refilled = time.monotonic()

    def update(self, pod: Pod, *, gone: bool) -> None:
        """Record a new state of a pod."""
        uid = pod.metadata.uid
        logs = self._logs.get(uid)
        if logs is None:
            logs = self._logs[uid] = [_Log(pod, each.name) for each in pod.spec.containers]
        for log in logs:
            log.pod = pod
            if log.follower is not None:
                log.follower.update(pod, gone=gone)
            elif gone:
                log.ended = True
        if gone or any(log.waits for log in logs):
            self._schedule_soon()

    @property
    def all_read(self) -> bool:
        """Whether each log of a container that has run was read to its end."""
        return not any(log.task or log.waits for logs in self._logs.values() for log in logs)

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._logs.pop(uid, None)

    def ask(self, name: str) -> bool:
        """Let the logs of a pod go before others; return whether there is such a pod."""
        uids = [
            uid for uid, logs in self._logs.items() if logs and logs[0].pod.metadata.name == name
        ]
        for uid in uids:
            if uid in self._asked:
                self._asked.remove(uid)
            self._asked.append(uid)
        self._schedule_soon()
        return bool(uids)

    async def previous(self, name: str) -> list[LogLine]:
        """Return the end of what the containers of a pod have printed before their last restart.

        Raises:
            LookupError: There is no such pod, or none of its containers was restarted.
            ApiError: The log cannot be read.
        """
        found = [
            log
            for logs in self._logs.values()
            for log in logs
            if log.pod.metadata.name == name and log.restarted
        ]
        if not found:
            raise LookupError(name)
        lines: list[LogLine] = []
        for log in found:
            parts, split = [], LogLines()
            chunks = self._client.logs(
                name,
                log.pod.metadata.namespace,
                container=log.container,
                follow=False,
                timestamps=True,
                previous=True,
                tail=MOST_LINES,
                limit_bytes=MOST_BYTES,
            )
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    parts += split.feed(chunk)
            parts.append(split.rest())
            entries = (_entry(part, log.source) for part in parts if part)
            lines += [entry for entry in entries if entry is not None]
        return lines

    async def stop(self) -> None:
        """Stop following."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._followed)
        for task in tasks:
            task.remove_done_callback(self._ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- which logs are followed ------------------------------------------------------------------

    def _schedule_soon(self) -> None:
        """Decide once about everything that changes in a moment: pods start in bursts."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SCHEDULE_SECONDS, self._schedule)

    def _schedule(self) -> None:
        self._timer = None
        waiting = [log for logs in self._logs.values() for log in logs if log.waits]
        waiting.sort(key=self._urgency, reverse=True)
        for log in waiting:
            if len(self._followed) < MOST_LOGS or self._make_room(self._urgency(log)):
                self._start(log)
        unfollowed = sum(log.waits for logs in self._logs.values() for log in logs)
        if unfollowed != self.unfollowed:
            self.unfollowed = unfollowed
            self._changed()

    def _urgency(self, log: _Log) -> int:
        return 2 if log.pod.metadata.uid in self._asked else 1 if log.failed else 0

    def _make_room(self, urgency: int) -> bool:
        """Stop following the newest of the least urgent logs, if it is less urgent."""
        task, log = min(reversed(self._followed.items()), key=lambda each: self._urgency(each[1]))
        if self._urgency(log) >= urgency:
            return False
        del self._followed[task]
        log.task = log.follower = None
        task.cancel()
        return True

    def _start(self, log: _Log) -> None:
        def deliver(line: str) -> None:
            self._take(log, line)

        log.follower = LogFollower(
            self._client,
            log.pod,
            log.container,
            deliver,
            room=_yield,
            position=log.position,
            tail=FIRST_LINES,
            timestamps=True,
        )
        log.task = asyncio.create_task(log.follower.run(), name=f"logs {log.source}")
        self._followed[log.task] = log
        log.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        log = self._followed.pop(task, None)
        if log is not None:  # else it has made room for another one, and will be read on later
            log.task = log.follower = None
            log.ended = True
            self._schedule_soon()

    # -- lines ------------------------------------------------------------------------------------

    def _take(self, log: _Log, line: str) -> None:
        if log.first > 0:
            log.first -= 1
        elif not self._has_time():
            self.skipped += 1
            self._changed()
            return
        entry = _entry(line.encode(), log.source)
        if entry is None:
            return
        self.lines.append(entry)
        self.read += 1
        at, reading = entry.at, log.reader.read(uncoloured(entry.text))
        if reading is not None:
            for metric, value in reading.metrics.items():
                self._recorder.add(metric, log.source, at, value)
            if reading.counted is not None and reading.counted[0] not in reading.metrics:
                self._recorder.add(reading.counted[0], log.source, at, reading.counted[1])
            if reading.done is not None:
                self._recorder.add("done", log.source, at, reading.done)
        self._changed()

    def _has_time(self) -> bool:
        """Return whether one more line may be read: a second's lines at once, then their rate."""
        now = time.monotonic()
        more = (now - self._refilled) * MOST_LINES_A_SECOND
        self._room = min(float(MOST_LINES_A_SECOND), self._room + more)
        self._refilled = now
        if self._room < 1:
            return False
        self._room -= 1
        return True


def _entry(line: bytes, source: str) -> LogLine | None:
    stamp, text = split_stamp(line)
    shown = clean(text.decode(errors="replace")[:LONGEST_LINE], colour=True)
    return None if shown is None else LogLine(round(_seconds(stamp), 3), source, shown)


async def _yield() -> None:
    """Let others run between two parts of a log: one that never pauses must not stop the server."""
    await asyncio.sleep(0)


def _seconds(stamp: tuple[str, str] | None) -> float:
    """Return the time of a log line in seconds since 1970; now if it has none."""
    then = moment(f"{stamp[0]}Z") if stamp is not None else None
    if then is None or stamp is None:
        return time.time()
    return then.timestamp() + int(stamp[1]) / 1e9
