"""What is shown of jobs while they run: watches feed the view, lines and logs go to the console."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import ChainMap
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from traincrew.cli.display.console import Console, ConsoleStream, wants_colour
from traincrew.cli.display.lines import Line
from traincrew.cli.display.text import seconds_since
from traincrew.cli.jobview.events import EventFilter
from traincrew.cli.terminal.block import block
from traincrew.cli.terminal.summary import summary
from traincrew.cli.terminal.view import TerminalView
from traincrew.cli.watching.catch_up import catch_up
from traincrew.cli.watching.jobwatch import JobWatch, stored
from traincrew.cli.watching.logs import Logs
from traincrew.cli.watching.outcome import exit_code
from traincrew.cli.watching.redraw import Redraw
from traincrew.cli.watching.rights import missing_right
from traincrew.cli.watching.watcherrors import WatchErrors
from traincrew.engine.errors import ApiError, ForbiddenError
from traincrew.engine.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from traincrew.cli.display.objects import Event, Job, Pod, Workload
    from traincrew.cli.watching.interrupt import Interrupt
    from traincrew.cli.watching.jobwatch import Scope
    from traincrew.engine.cache import Informer
    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource

DRAIN_SECONDS = 3.0
STATUS_EVERY_SECONDS = 0.5
SILENCE_EVERY_SECONDS = 5.0
"""How often the block is drawn while nothing changes but the time."""
BLOCK_SECONDS = 0.05
"""Shortest time between two drawings of the block: each looks at every pod."""
EARLY_EVENTS = 1000
"""Number of objects of which events are kept until it is known whose they are."""


def seconds_ago(timestamp: str | None) -> float:
    """Return how long ago a time of the cluster was; 0 if it is missing, or in the future."""
    return seconds_since(timestamp, datetime.now(UTC))


class Live:
    """The view of jobs while they run.

    Args:
        interrupt: Ends the command when nobody reads its output.
        verbose: Show every step.
        no_colour: Never use colours.
        tail: Number of lines with which to begin each log that exists already; None for all.
        stream: Where everything is written; standard output by default.
        on_note: Called with each right that is missing, where nobody sees the stream.
    """

    def __init__(
        self,
        interrupt: Interrupt,
        *,
        verbose: bool = False,
        no_colour: bool = False,
        tail: int | None = None,
        stream: TextIO | None = None,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        stream = stream or sys.stdout
        colour = wants_colour(stream, forbidden=no_colour)
        self.live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        """Whether there is a block at the bottom."""
        self.console = Console(
            stream, colour=colour, live=self.live, on_broken=interrupt.reader_left
        )
        self.view = TerminalView(
            verbose=verbose, colour=colour, progress=not self.live, started=time.time()
        )
        self.logs = Logs(self.view, self.console, tail, self._log_refused)
        self.running = asyncio.Event()
        """Set when a job runs for the first time."""
        self._verbose = verbose
        self._started = time.monotonic()
        self._changed = asyncio.Event()
        self._redraw = Redraw(self._draw_block, BLOCK_SECONDS)
        self.watched: JobWatch
        self._watching: asyncio.Future[None] | None = None
        self._errors = WatchErrors(self._show_problem, self.say, on_note)
        self._only_own_events = False
        self._early: dict[str, list[Event]] = {}

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Show log messages and warnings of this process above the block."""
        from traincrew.engine.observability import configure_logging

        configure_logging("text", "warning" if self._verbose else "error")
        stderr = sys.stderr
        if self.live and stderr.isatty():
            sys.stderr = ConsoleStream(self.console)
        try:
            yield
        finally:
            sys.stderr = stderr

    # -- watching -------------------------------------------------------------------------------

    async def watch(self, client: Client, jobs: Iterable[tuple[Resource, Scope]]) -> None:
        """Watch jobs, their pods, events and children; return when all of it is known.

        Args:
            client: The API server.
            jobs: Resources of jobs, each with what to watch of it.

        Raises:
            CommandFailed: The jobs may not be watched.
        """
        jobs = list(jobs)
        self._only_own_events = all(scope.name for _, scope in jobs)
        self.watched = JobWatch(client, jobs, self._watch_state)
        self.watched.add_handlers(
            job=self._job_changed,
            child=self._workload_changed,
            pod=partial(self._pod_changed, client),
            event=self._event_changed,
        )
        self._watching = asyncio.create_task(self.watched.run(), name="watch")
        await self._errors.unless_failed(self.watched.until_known())
        self.logs.begin()

    def _watch_state(self, informer: Informer[Any], error: Exception | None) -> None:
        required = informer in self.watched.jobs
        self._errors.report(error, informer.resource, informer.namespace, required=required)
        if isinstance(error, ForbiddenError) and informer in self.watched.pods:
            self.view.pods_known = False

    def _show_problem(self, text: str) -> None:
        self.show([Line(text, "bad", at=self.now())])

    def _log_refused(self, error: ForbiddenError) -> None:
        namespaces = {informer.namespace for informer in self.watched.pods}
        namespace = namespaces.pop() if len(namespaces) == 1 else None
        right = missing_right("get", PODS, namespace, "log", error=error)
        self._errors.report_missing_right(f"no logs: {right}")

    def follow(self, kind: str, namespace: str, name: str, age: float = 0.0) -> None:
        """Wait for a job that has been created, or was `age` seconds ago."""
        self.view.follow(kind, namespace, name, self.now() - age)

    async def until_changed(self) -> None:
        """Wait until something has changed since the last call.

        Raises:
            CommandFailed: A watch is refused for good.
        """
        await self._errors.unless_failed(self._changed.wait())
        self._changed.clear()

    def begin(self) -> None:
        """Show the state of the jobs that are followed."""
        if len(self.view.jobs) == 1:
            self.console.abbreviate(f"{self.view.jobs[0].name}-")
        for obj in stored(self.watched.jobs):
            self._show_job(obj)

    async def until_finished(self) -> None:
        """Wait until every job that is followed has ended.

        Raises:
            CommandFailed: A watch is refused for good.
        """
        await self._errors.unless_failed(self._until_finished())

    async def _until_finished(self) -> None:
        self._request_block()
        while not self.view.finished:
            self._changed.clear()
            every = STATUS_EVERY_SECONDS if self.live else SILENCE_EVERY_SECONDS
            try:
                async with asyncio.timeout(every):
                    await self._changed.wait()
            except TimeoutError:
                self._request_block()
                if not self.live:
                    self.console.show(self.view.silences(self.now()))
        if self.live:
            self._redraw.now()

    async def drain(self, client: Client) -> None:
        """Wait for a limited time until the watches are up to date, and for the last log lines."""
        with contextlib.suppress(TimeoutError, ApiError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await catch_up(client, [one for one in self.watched.all if one.synced])
        await self.logs.drain(DRAIN_SECONDS)

    async def until_shown(self, client: Client) -> int:
        """Show the jobs until they have ended, and their outcome; return the exit code.

        Raises:
            CommandFailed: A watch is refused for good.
        """
        await self.until_finished()
        await self.drain(client)
        self.show_summary()
        return exit_code(self.view)

    async def stop(self) -> None:
        """Stop watching and following logs."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.logs.stop()
        self._redraw.cancel()

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        assert job is not None
        self._show_job(job, deleted=new is None)

    def _show_job(self, job: Job, *, deleted: bool = False) -> None:
        self.show(self.view.job(job, self.now(), deleted=deleted))
        if any(record.uid == job.metadata.uid for record in self.view.jobs):
            self._show_early_events(job.metadata.uid)

    def _event_changed(self, _old: Event | None, new: Event | None) -> None:
        if new is None:
            return
        if self._only_own_events and not self._is_own(new):
            # The object may be one of ours that its own watch has not reported yet.
            if len(self._early) < EARLY_EVENTS:
                self._early.setdefault(new.involved_object.uid, []).append(new)
            return
        self.show(self.view.event(new, self.now()))

    def _is_own(self, event: Event) -> bool:
        view = self.view
        uids = ChainMap[str, Any](view.pods, view.workloads, {job.uid: job for job in view.jobs})
        return EventFilter(uids, {(job.kind, job.name) for job in view.jobs}).covers(event)

    def _show_early_events(self, uid: str) -> None:
        for event in self._early.pop(uid, ()):
            self.show(self.view.event(event, self.now()))

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        workload = new or old
        assert workload is not None
        self.show(self.view.workload(workload, self.now(), deleted=new is None))
        self._show_early_events(workload.metadata.uid)

    def _pod_changed(self, client: Client, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        known = pod.metadata.uid in self.view.pods
        lines = self.view.pod(pod, self.now(), deleted=new is None)
        if not known and self._only_own_events:
            # It may have started long before this command.
            since = seconds_ago(pod.status.start_time)
            self.view.pods[pod.metadata.uid].first_seen -= since
        self.logs.follow(client, pod, gone=new is None)
        if lines and self.logs.show_after_logs(pod, lines):
            self._note_change()
        else:
            self.show(lines)
        self._show_early_events(pod.metadata.uid)

    # -- showing --------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started

    def say(self, text: str) -> None:
        """Show a line of our own."""
        self.show([Line(text, at=self.now())])

    def show(self, lines: list[Line]) -> None:
        """Show lines of our own, and the block."""
        # First, so that no line is above a block that does not know of it yet.
        self._note_change()
        self.logs.show(lines)

    def _note_change(self) -> None:
        if any(job.phase == "Running" for job in self.view.jobs):
            self.running.set()
        self._request_block()
        self._changed.set()

    def _request_block(self) -> None:
        if self.live:
            self._redraw.request()

    def _draw_block(self) -> None:
        self.console.set_block(block(self.view, self.now()))

    def end_block(self, text: str = "") -> None:
        """Say in place of the block what this command is doing; the block does not come back."""
        self.live = False
        self._redraw.cancel()
        self.console.set_status(text)

    def show_summary(self) -> None:
        """Show the outcome of each job and pod, and why a job failed."""
        self._redraw.flush()
        self.console.show(summary(self.view, self.now(), self.console.columns))
