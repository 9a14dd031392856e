"""One run from start to end: cluster, objects, what is shown meanwhile, summary, nothing left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shlex
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from traincrew.cli.catch_up import catch_up
from traincrew.cli.console import Console, ConsoleStream, wants_colour
from traincrew.cli.embedded import Embedded
from traincrew.cli.follow import LogFollower
from traincrew.cli.main import BadInput
from traincrew.cli.objects import Event, Pod, TrainingJob, Workload
from traincrew.cli.records import Line
from traincrew.cli.scaling import require_scalable, scale
from traincrew.cli.submit import Submitter, jobs_among
from traincrew.cli.summary import summary
from traincrew.cli.text import duration
from traincrew.cli.view import View
from traincrew.engine.errors import ApiError
from traincrew.engine.informer import Informer
from traincrew.engine.resources import EVENTS, JOBS, PODS, STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traincrew.cli.daemon import Options
    from traincrew.cli.manifest import Document
    from traincrew.cli.scaling import Scaling
    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource

TIMED_OUT = 124
DRAIN_SECONDS = 3.0
LAST_WORDS_SECONDS = 1.0
STATUS_EVERY_SECONDS = 0.5


class Session:
    """One `traincrew run`.

    Args:
        documents: The objects to create.
        chosen: What the cluster is made of.
        namespace: Where objects go that name no namespace.
        timeout: Seconds the jobs may take, if limited.
        scalings: Changes of the number of workers of the job.
        keep: Keep the cluster after the end until a signal.
        verbose: Show every step.
        no_colour: Never use colours.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        chosen: Options,
        *,
        namespace: str | None = None,
        timeout: float | None = None,
        scalings: Sequence[Scaling] = (),
        keep: bool = False,
        verbose: bool = False,
        no_colour: bool = False,
    ) -> None:
        self._documents = documents
        self._chosen = chosen
        self._namespace = namespace
        self._timeout = timeout
        self._scalings = sorted(scalings, key=lambda scaling: scaling.after)
        self._keep = keep
        self._verbose = verbose
        self._started = time.monotonic()
        self._signal: int | None = None
        self._staying = False
        self._holding = 0
        self._held: list[Line] = []
        self._news = asyncio.Event()
        self._running = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []
        self._followers: dict[tuple[str, str], tuple[LogFollower, asyncio.Task[None]]] = {}
        colour = wants_colour(sys.stdout, forbidden=no_colour)
        self._view = View(verbose=verbose, colour=colour)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._console = Console(colour=colour, live=self._live, on_broken=self._reader_left)
        self._embedded = Embedded(chosen, None, self._pulled)
        self._client: Client
        self._jobs: list[Document] = []
        self._watched: list[Informer[Any]] = []

    # -- the run ------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run to the end; returns the exit code.

        Raises:
            BadInput: An object is refused.
            CommandFailed: The cluster does not start.
        """
        from traincrew.engine.logs import configure_logging

        configure_logging("text", "warning" if self._verbose else "error")
        stderr = sys.stderr
        if self._live and stderr.isatty():
            sys.stderr = ConsoleStream(self._console)
        try:
            return await self._run()
        finally:
            sys.stderr = stderr

    async def _run(self) -> int:
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, self._interrupt, int(number))
        work = asyncio.create_task(self._work())
        interrupted = asyncio.create_task(self._interrupted())
        try:
            await asyncio.wait({work, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return await work
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
            return self._told_end()
        finally:
            interrupted.cancel()
            self._console.set_status("stopping")
            await self._end()
            self._console.close()

    async def _work(self) -> int:
        self._console.set_status("starting the cluster")
        self._jobs = jobs_among(self._documents)
        require_scalable(self._jobs, self._scalings)
        self._check_images()
        await self._embedded.start()
        gc.freeze()
        gc.enable()
        self._client = self._embedded.cluster.client
        serving = asyncio.create_task(self._embedded.run(), name="embedded")
        self._tasks.append(serving)
        self._say(f"cluster ready: {self._cluster_words()}")
        following = await self._create()
        if self._scalings:
            scaling = asyncio.create_task(self._scale(following[0]), name="scale")
            self._tasks.append(scaling)
        waiting = asyncio.create_task(self._until_finished())
        self._tasks.append(waiting)
        done, _ = await asyncio.wait(
            {serving, waiting}, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if serving in done:
            serving.result()
        in_time = waiting in done
        if in_time:
            waiting.result()
            await self._drain()
        code = self._view.exit_code() if in_time else TIMED_OUT
        self._console.show(summary(self._view, self._now()))
        if not in_time:
            limit = duration(self._timeout or 0)
            self._console.show([Line(f"Ended by --timeout after {limit}.", "bad")])
        if self._keep:
            await self._stay(following)
        return code

    def _check_images(self) -> None:
        from traincrew.cli.embedded import image_catalogs
        from traincrew.cli.preflight import check_images
        from traincrew.local.cluster import default_cache
        from traincrew.local.images import CatalogError, ImageStore

        try:
            store = ImageStore(default_cache(), image_catalogs(self._chosen))
        except CatalogError as error:
            raise BadInput(str(error)) from error
        check_images(self._documents, store)

    def _cluster_words(self) -> str:
        count = self._chosen.nodes
        nodes = f"{count} node" + ("s" if count != 1 else "")
        return f"{nodes}, {self._embedded.sandbox_words()}"

    async def _stay(self, following: Sequence[Resource]) -> None:
        path = shlex.quote(self._embedded.cluster.kubeconfig_path)
        kind = following[0].plural if following else "pods"
        self._console.show(
            [
                Line(""),
                Line("The cluster stays until Ctrl-C. In another terminal:"),
                Line(f"  export KUBECONFIG={path}"),
                Line(f"  kubectl get {kind},pods"),
            ]
        )
        self._console.set_status("")
        self._live = False
        self._staying = True
        self._news.clear()
        while self._signal is None:
            await self._news.wait()
            self._news.clear()

    async def _until_finished(self) -> None:
        while not self._view.finished:
            self._news.clear()
            if self._live:
                self._console.set_status(self._view.status(self._now()))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STATUS_EVERY_SECONDS):
                        await self._news.wait()
            else:
                await self._news.wait()

    async def _scale(self, resource: Resource) -> None:
        (job,) = self._view.jobs
        await self._running.wait()
        began = self._now()
        for replicas, after in self._scalings:
            await asyncio.sleep(began + after - self._now())
            try:
                await scale(self._client, resource, job.namespace, job.name, replicas)
            except ApiError as error:
                text = f"{job.name}: not scaled to {replicas}: {error.message}"
                self._show([Line(text, "bad", at=self._now())])
            else:
                self._say(f"{job.name} scaled to {replicas}")

    async def _drain(self) -> None:
        """Wait, for a bounded time, for all that is known of the end, and pods' last lines."""
        with contextlib.suppress(TimeoutError, ApiError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await catch_up(self._client, self._watched)
        finished = [
            task
            for (uid, _), (_, task) in self._followers.items()
            if self._view.pods[uid].pod.status.phase in {"Succeeded", "Failed"}
        ]
        if finished:
            await asyncio.wait(finished, timeout=DRAIN_SECONDS)
        self._holding = 0
        self._release()

    async def _end(self) -> None:
        tasks = [*self._tasks, *(task for _, task in self._followers.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._embedded.stop()

    # -- signals --------------------------------------------------------------------------------

    def _interrupt(self, number: int) -> None:
        if self._signal is None:
            self._signal = number
        self._news.set()

    def _reader_left(self) -> None:
        """Nobody reads our output any more (``| head``): end as other programs do."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended: so have we
                self._loop.call_soon_threadsafe(self._interrupt, int(signal.SIGPIPE))

    async def _interrupted(self) -> None:
        while self._signal is None or self._staying:
            self._news.clear()
            await self._news.wait()

    def _told_end(self) -> int:
        assert self._signal is not None
        name = {signal.SIGINT: "Ctrl-C", signal.SIGPIPE: "nobody reads the output"}.get(
            signal.Signals(self._signal), signal.Signals(self._signal).name
        )
        self._console.show(summary(self._view, self._now()))
        self._console.show([Line(f"Ended by {name}; everything is removed.", "bad")])
        return 128 + self._signal

    # -- objects --------------------------------------------------------------------------------

    async def _create(self) -> list[Resource]:
        """Create everything, jobs last; returns the resources of what is waited for."""
        submitter = Submitter(self._client, self._namespace, self._created)
        for document in self._documents:
            if not any(document is job for job in self._jobs):
                await submitter.submit(document, again=True)
        resources = [await submitter.resource(job) for job in self._jobs]
        await self._watch(dict.fromkeys(resources))
        for job in self._jobs:
            metadata = (await submitter.submit(job))["metadata"]
            self._view.follow(job.kind, metadata["namespace"], metadata["name"], self._now())
        if len(self._view.jobs) == 1:
            self._console.abbreviate(f"{self._view.jobs[0].name}-")
        for informer in self._informers.values():
            for obj in informer.store.list():
                self._show(self._view.job(obj, self._now()))
        return resources

    def _created(self, kind: str, name: str) -> None:
        self._say(f"{kind} {name} created")

    # -- watching -------------------------------------------------------------------------------

    async def _watch(self, followed: dict[Resource, None]) -> None:
        view = self._view
        self._informers = {
            resource: Informer(self._client, resource, TrainingJob) for resource in followed
        }
        for informer in self._informers.values():
            informer.add_handler(self._handler(view.job))
        pods = Informer(self._client, PODS, Pod)
        pods.add_handler(self._pod_changed)
        events = Informer(self._client, EVENTS, Event)
        events.add_handler(self._event_changed)
        workloads = [Informer(self._client, r, Workload) for r in (JOBS, STATEFUL_SETS)]
        for workload in workloads:
            workload.add_handler(self._handler(view.workload))
        self._watched = [*self._informers.values(), *workloads, pods, events]
        for one in self._watched:
            self._tasks.append(asyncio.create_task(one.run(), name=f"watch {one.resource.plural}"))
        await asyncio.gather(*(one.wait_synced() for one in self._watched))

    def _handler(self, note: Callable[..., list[Line]]) -> Callable[[Any, Any], None]:
        def handle(old: Any, new: Any) -> None:
            self._show(note(new or old, self._now(), deleted=new is None))

        return handle

    def _event_changed(self, _old: Event | None, new: Event | None) -> None:
        if new is not None:
            self._show(self._view.event(new, self._now()))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        lines = self._view.pod(pod, self._now(), deleted=new is None)
        for container in self._view.containers_to_follow(pod):
            key = (pod.metadata.uid, container)
            if key not in self._followers:
                self._console.painter.meet(pod.metadata.name)
                self._follow(pod, container)
        for (uid, _), (follower, _) in self._followers.items():
            if uid == pod.metadata.uid:
                follower.update(pod, gone=new is None)
        if lines and pod.status.phase in {"Succeeded", "Failed"}:
            tasks = [task for (uid, _), (_, task) in self._followers.items()
                     if uid == pod.metadata.uid and not task.done()]  # fmt: skip
            if tasks:
                self._tasks.append(asyncio.create_task(self._last_words_first(tasks)))
                self._holding += 1
                self._held += lines
                return
        self._show(lines)

    def _follow(self, pod: Pod, container: str) -> None:
        uid = pod.metadata.uid

        def deliver(text: str) -> None:
            self._console.show(self._view.log(uid, container, text))

        follower = LogFollower(self._client, pod, container, deliver, self._console.room)
        task = asyncio.create_task(follower.run(), name=f"logs {pod.metadata.name}")
        self._followers[uid, container] = (follower, task)

    # -- showing --------------------------------------------------------------------------------

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _say(self, text: str) -> None:
        self._show([Line(text, at=self._now())])

    async def _last_words_first(self, followers: Sequence[asyncio.Task[None]]) -> None:
        """Hold back what we say of a pod that has ended until it has been heard out."""
        await asyncio.wait(followers, timeout=LAST_WORDS_SECONDS)
        self._holding = max(0, self._holding - 1)
        self._release()

    def _release(self) -> None:
        if not self._holding:
            self._console.show(self._held)
            self._held.clear()

    def _show(self, lines: list[Line]) -> None:
        self._held += lines
        self._release()
        if any(job.phase == "Running" for job in self._view.jobs):
            self._running.set()
        if self._live and lines:
            self._console.set_status(self._view.status(self._now()))
        self._news.set()

    def _pulled(self, image: str, message: str) -> None:
        self._show(self._view.pull(image, message, self._now()))
