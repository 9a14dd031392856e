"""The logs of all pods of a job: merged, then followed through restarts and new pods."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.cli.display.console import Console, wants_colour
from traincrew.cli.display.folding import say
from traincrew.cli.display.objects import Job, Pod, decode
from traincrew.cli.display.text import plain
from traincrew.cli.errors import BadInput
from traincrew.cli.jobview.pods import place_of
from traincrew.cli.jobview.why import explain
from traincrew.cli.terminal.view import TerminalView
from traincrew.cli.watching.follow import Position
from traincrew.cli.watching.gather import gather
from traincrew.cli.watching.interrupt import Interrupt
from traincrew.cli.watching.jobwatch import JobWatch
from traincrew.cli.watching.kinds import find, scope_of
from traincrew.cli.watching.loglines import split_stamp
from traincrew.cli.watching.logs import Logs
from traincrew.cli.watching.merge import Reading, Source, merged
from traincrew.cli.watching.rights import refused
from traincrew.cli.watching.watcherrors import WatchErrors
from traincrew.engine.client import Client
from traincrew.engine.errors import ApiError, ForbiddenError
from traincrew.engine.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.cli.watching.kinds import Served
    from traincrew.cli.watching.target import Target
    from traincrew.engine.cache import Informer

__all__ = ["Choice", "show"]

DRAIN_SECONDS = 3.0


class Choice(NamedTuple):
    """Which logs, and which lines of them.

    Attributes:
        role: Only pods of this role, in any case of letters.
        rank: Only pods of this rank within their role.
        since: Only lines of the last seconds.
        tail: Only the last lines of each log.
        previous: The log of the previous run of each container.
        follow: Continue until the job ends.
        timestamps: Show the time of each line.
    """

    role: str | None = None
    rank: int | None = None
    since: float | None = None
    tail: int | None = None
    previous: bool = False
    follow: bool = False
    timestamps: bool = False

    def begin(self) -> Position:
        """Return the position from which to read a log."""
        if self.since is None:
            return Position()
        when = datetime.now(UTC) - timedelta(seconds=self.since)
        stamp, _ = split_stamp(when.strftime("%Y-%m-%dT%H:%M:%S.%fZ ").encode())
        return Position(stamp)


async def show(
    target: Target, word: str, namespace: str, choice: Choice, *, no_colour: bool
) -> int:
    """Show the logs of a job; return the exit code of the command.

    Args:
        target: The cluster.
        word: ``[KIND/]NAME``.
        namespace: Its namespace.
        choice: Which logs.
        no_colour: Never use colours.

    Raises:
        BadInput: The job is not named clearly, or has no such role or rank.
        CommandFailed: There is no such job, or a right is missing.
    """
    from traincrew.engine.limits import raise_file_limit
    from traincrew.engine.observability import configure_logging

    raise_file_limit()
    configure_logging("text", "error")
    interrupt = Interrupt()
    interrupt.listen()
    async with Client(target.config, user_agent="traincrew-logs") as client:
        served, job = await find(client, word, namespace)
        colour = wants_colour(sys.stdout, forbidden=no_colour)
        console = Console(colour=colour, on_broken=interrupt.reader_left)
        logs = _JobLogs(client, served, job, choice, console, colour=colour)
        work = asyncio.create_task(logs.run())
        interrupted = asyncio.create_task(interrupt.wait())
        try:
            await asyncio.wait({work, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else interrupt.exit_code
        finally:
            for task in (work, interrupted):
                task.cancel()
            await asyncio.gather(work, interrupted, return_exceptions=True)
            await logs.stop()
            console.close()


def _say(text: str) -> None:
    say(f"traincrew: {text}")


class _JobLogs:
    def __init__(
        self,
        client: Client,
        served: Served,
        job: Job,
        choice: Choice,
        console: Console,
        *,
        colour: bool,
    ) -> None:
        self._client = client
        self._served = served
        self._job = job
        self._choice = choice
        self._console = console
        self._view = TerminalView(colour=colour)
        self._unreadable = False
        self._logs = Logs(
            self._view,
            console,
            refused=self._log_refused,
            begin=choice.begin,
            timestamps=choice.timestamps,
        )
        self._watches: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()
        self._errors = WatchErrors(_say, _say)

    async def run(self) -> int:
        """Show what there is, and follow if wanted."""
        pods = await self._pods()
        sources = [source for pod in pods for source in self._sources(pod)]
        choice = self._choice
        if not sources and not (choice.previous and pods):
            await self._say_why_not(pods)
        how = Reading(choice.tail, choice.previous, whole_lines=choice.follow)
        shown = False
        async for _, source, line in merged(self._client, sources, how, self._failed):
            shown = True
            self._console.show(self._view.log(source.uid, source.container, self._text(line)))
            await self._console.room()
        if choice.previous and pods and not shown and not self._unreadable:
            say(f"traincrew: no container of {self._name} has an earlier log")
        self._logs.read = {(source.uid, source.container): source.position for source in sources}
        if self._choice.follow:
            await self._follow()
        return int(self._unreadable)

    async def _say_why_not(self, pods: list[Pod]) -> None:
        """Say why there is no log, as `traincrew why` does.

        Raises:
            CommandFailed: The job is gone.
        """
        resource, metadata = self._served.resource, self._job.metadata
        word = f"{resource.plural}.{resource.group}/{metadata.name}"
        found = explain((await gather(self._client, word, metadata.namespace)).facts)
        what = "no container of it has run" if pods else "it has no pods now"
        _say(f"{self._name} has no logs, because {what}. {found.text}")
        if found.fix:
            _say(f"what to do: {found.fix}")

    @property
    def _name(self) -> str:
        return plain(f"{self._job.kind} {self._job.metadata.name}")

    async def _pods(self) -> list[Pod]:
        """Return the pods that exist and were asked for.

        Raises:
            BadInput: There is no such role or rank.
            CommandFailed: The request was refused.
        """
        metadata, choice = self._job.metadata, self._choice
        selector = self._served.selector_of(metadata.name)
        try:
            listed = await self._client.list(PODS, metadata.namespace, label_selector=selector)
        except ApiError as error:
            raise refused(error, "list", PODS, metadata.namespace) from error
        pods = [decode(item, Pod) for item in listed["items"]]
        roles = self._served.kind.roles(self._job.spec)
        names = dict.fromkeys([*roles, *(place_of(self._served.kind, pod).role for pod in pods)])
        if choice.role is not None and choice.role.lower() not in {name.lower() for name in names}:
            raise BadInput(
                f"--role {plain(choice.role)}: {self._name} has {plain(', '.join(names))}"
            )
        chosen = [pod for pod in pods if self._is_chosen(pod)]
        if choice.rank is not None and not chosen and not choice.follow:
            raise BadInput(f"--rank {choice.rank}: {self._name} has no pod of this rank now")
        return chosen

    def _is_chosen(self, pod: Pod) -> bool:
        place, choice = place_of(self._served.kind, pod), self._choice
        return (choice.role is None or place.role.lower() == choice.role.lower()) and (
            choice.rank is None or place.rank == choice.rank
        )

    def _sources(self, pod: Pod) -> Iterator[Source]:
        self._view.pod(pod, 0.0)
        self._console.painter.assign_colour(pod.metadata.name)
        for name in self._view.containers_to_follow(pod):
            status = pod.status.container(name)
            ran = status is not None and (
                status.restart_count > 0 if self._choice.previous else status.has_run
            )
            if ran:
                metadata = pod.metadata
                place = metadata.name, metadata.uid, metadata.namespace
                yield Source(*place, name, self._choice.begin())

    def _failed(self, source: Source, error: ApiError) -> None:
        if isinstance(error, ForbiddenError):
            raise refused(error, "get", PODS, source.namespace, "log")
        self._unreadable = True
        _say(f"no log of pod {plain(source.pod)}: {plain(error.message)}")

    def _text(self, line: bytes) -> str:
        text = line if self._choice.timestamps else split_stamp(line)[1]
        return text.decode(errors="replace")

    # -- following ------------------------------------------------------------------------------

    async def _follow(self) -> None:
        metadata = self._job.metadata
        scope = scope_of(self._served, metadata.namespace, metadata.name)
        watch = JobWatch(self._client, [(self._served.resource, scope)], self._watch_state)
        (pods,), (jobs,) = watch.pods, watch.jobs
        pods.add_handler(self._pod_changed)
        self._watches = [asyncio.create_task(informer.run()) for informer in (pods, jobs)]
        await self._errors.unless_failed(watch.until_known())
        jobs.add_handler(self._job_changed)
        if not jobs.store.list():
            self._over.set()
        await self._errors.unless_failed(self._over.wait())
        # Logs of ended pods are read to their end; pods that still run have lost their job.
        await self._logs.drain(DRAIN_SECONDS)

    def _watch_state(self, informer: Informer[Any], error: Exception | None) -> None:
        self._errors.report(error, informer.resource, informer.namespace)

    def _job_changed(self, _old: Job | None, new: Job | None) -> None:
        if new is None or new.status.end:
            self._over.set()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if self._is_chosen(pod):
            self._view.pod(pod, 0.0, deleted=new is None)
            self._logs.follow(self._client, pod, gone=new is None)

    def _log_refused(self, error: ForbiddenError) -> None:
        namespace = self._job.metadata.namespace
        self._errors.fail(refused(error, "get", PODS, namespace, "log"))

    async def stop(self) -> None:
        """Stop watching and following."""
        for task in self._watches:
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        await self._logs.stop()
