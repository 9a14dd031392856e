"""The logs of a run: follows every container, and shows its last lines before its end."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from traincrew.cli.watching.follow import LogFollower, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traincrew.cli.display.console import Console
    from traincrew.cli.display.lines import Line
    from traincrew.cli.display.objects import Pod
    from traincrew.cli.terminal.view import TerminalView
    from traincrew.engine.client import Client
    from traincrew.engine.errors import ForbiddenError

LAST_LINES_SECONDS = 1.0


class Logs:
    """Follows the containers of all pods, and orders their lines and ours.

    Args:
        view: Converts log lines.
        console: Shows the lines.
        tail: Number of lines with which to begin each log that exists already; None for all.
        refused: Called if a log may not be read.
        begin: Returns the position from which to read a log.
        timestamps: Show the time of each line.

    Attributes:
        read: Positions up to which logs are shown already, by UID and container.
    """

    def __init__(
        self,
        view: TerminalView,
        console: Console,
        tail: int | None = None,
        refused: Callable[[ForbiddenError], None] | None = None,
        *,
        begin: Callable[[], Position] = Position,
        timestamps: bool = False,
    ) -> None:
        self._view = view
        self._console = console
        self._tail = tail
        self._refused = refused
        self._begin = begin
        self._timestamps = timestamps
        self.read: dict[tuple[str, str], Position] = {}
        self._followers: dict[tuple[str, str], tuple[LogFollower, asyncio.Task[None]]] = {}
        self._waiting: list[asyncio.Task[None]] = []
        self._holding = 0
        self._held: list[Line] = []

    def begin(self) -> None:
        """Show the logs of pods that appear from now on from their beginning."""
        self._tail = None

    def follow(self, client: Client, pod: Pod, *, gone: bool) -> None:
        """Record a new state of a pod, and follow its containers."""
        uid = pod.metadata.uid
        for container in self._view.containers_to_follow(pod):
            if (uid, container) not in self._followers:
                self._console.painter.assign_colour(pod.metadata.name)
                self._start(client, pod, container)
        for (other, _), (follower, _) in self._followers.items():
            if other == uid:
                follower.update(pod, gone=gone)

    def _start(self, client: Client, pod: Pod, container: str) -> None:
        uid = pod.metadata.uid
        known = self.read.get((uid, container))
        position = known or self._begin()

        def deliver(text: str) -> None:
            stamp = position.since or ""
            lines = self._view.log(uid, container, text, stamp=stamp, now=time.time())
            self._console.show(lines)

        follower = LogFollower(
            client,
            pod,
            container,
            deliver,
            self._console.room,
            position=position,
            earlier=self._tail is None and known is None,
            tail=self._tail,
            timestamps=self._timestamps,
            refused=self._refused,
        )
        task = asyncio.create_task(follower.run(), name=f"logs {pod.metadata.name}")
        self._followers[uid, container] = (follower, task)

    def show(self, lines: Sequence[Line]) -> None:
        """Show our own lines, after those that are held back."""
        self._held += lines
        self._release()

    def show_after_logs(self, pod: Pod, lines: Sequence[Line]) -> bool:
        """Delay our lines about a pod that has ended until its log is complete.

        Returns:
            Whether there is a log to wait for; if not, the lines are not handled.
        """
        reading = [
            task
            for (uid, _), (_, task) in self._followers.items()
            if uid == pod.metadata.uid and not task.done()
        ]
        if not pod.status.ended or not reading:
            return False
        self._waiting.append(asyncio.create_task(self._wait_for_logs(reading)))
        self._holding += 1
        self._held += lines
        return True

    async def _wait_for_logs(self, reading: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.wait(reading, timeout=LAST_LINES_SECONDS)
        self._holding = max(0, self._holding - 1)
        self._release()

    def _release(self) -> None:
        if not self._holding:
            self._console.show(self._held)
            self._held.clear()

    async def drain(self, limit: float) -> None:
        """Wait at most `limit` seconds for the last lines of pods that have ended or are gone."""
        finished = [
            task
            for (uid, _), (_, task) in self._followers.items()
            if self._view.pods[uid].gone or self._view.pods[uid].pod.status.ended
        ]
        if finished:
            await asyncio.wait(finished, timeout=limit)
        self._holding = 0
        self._release()

    async def stop(self) -> None:
        """Stop following."""
        tasks = [*self._waiting, *(task for _, task in self._followers.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
