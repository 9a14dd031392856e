"""One run from start to end: cluster, objects, output, summary, cleanup."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any

from traincrew.cli.cluster.embedded import Embedded
from traincrew.cli.cluster.gpus import warn_of_pretended
from traincrew.cli.display.console import Console, ConsoleStream, wants_colour
from traincrew.cli.display.objects import Event, Pod, TrainingJob, Workload
from traincrew.cli.display.records import Line
from traincrew.cli.display.summary import summary
from traincrew.cli.display.text import duration
from traincrew.cli.display.view import View
from traincrew.cli.errors import BadInput
from traincrew.cli.run.catch_up import catch_up
from traincrew.cli.run.interrupt import Interrupt
from traincrew.cli.run.logs import Logs
from traincrew.cli.run.outcome import TIMED_OUT, exit_code, with_outputs
from traincrew.cli.run.preflight import check_bare, check_images, prepare_images
from traincrew.cli.run.readiness import until_ready
from traincrew.cli.run.results import Results
from traincrew.cli.run.scaling import require_scalable, scale
from traincrew.cli.run.submit import Submitter, jobs_among
from traincrew.engine.cache import Informer
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import EVENTS, JOBS, PODS, STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traincrew.cli.cluster.options import Options
    from traincrew.cli.manifest.documents import Document
    from traincrew.cli.run.scaling import Scaling
    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource
    from traincrew.local.node import PodOptions

DRAIN_SECONDS = 3.0
STATUS_EVERY_SECONDS = 0.5


class Session:
    """One `traincrew run`.

    Args:
        documents: The objects to create.
        chosen: Options of the cluster.
        namespace: Namespace of objects that do not set one.
        timeout: Seconds the jobs may take, if limited.
        scalings: Worker counts to scale the job to, and when.
        pods: Additions to every pod.
        results: Saves what pods write.
        keep: Keep the cluster running after the jobs end, until a signal arrives.
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
        pods: PodOptions | None = None,
        results: Results | None = None,
        keep: bool = False,
        verbose: bool = False,
        no_colour: bool = False,
    ) -> None:
        self._documents = documents
        self._chosen = chosen
        self._namespace = namespace
        self._timeout = timeout
        self._scalings = sorted(scalings, key=lambda scaling: scaling.after)
        self._results = results or Results((), namespace or "default")
        self._keep = keep
        self._verbose = verbose
        self._started = time.monotonic()
        self._interrupt = Interrupt()
        self._staying = False
        self._created_any = False
        self._changed = asyncio.Event()
        self._running = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []
        colour = wants_colour(sys.stdout, forbidden=no_colour)
        self._view = View(verbose=verbose, colour=colour)
        self._live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._console = Console(
            colour=colour, live=self._live, on_broken=self._interrupt.reader_left
        )
        self._logs = Logs(self._view, self._console)
        self._embedded = Embedded(chosen, None, self._pulled, pods, self._removed)
        self._client: Client
        self._jobs: list[Document] = []
        self._watched: list[Informer[Any]] = []

    # -- the run ------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run to the end; return the exit code.

        Raises:
            BadInput: An object is refused.
            CommandFailed: The cluster does not start.
        """
        from traincrew.engine.observability import configure_logging

        configure_logging("text", "warning" if self._verbose else "error")
        stderr = sys.stderr
        if self._live and stderr.isatty():
            sys.stderr = ConsoleStream(self._console)
        try:
            return await self._run()
        finally:
            sys.stderr = stderr

    async def _run(self) -> int:
        self._interrupt.listen()
        work = asyncio.create_task(self._work())
        interrupted = asyncio.create_task(self._interrupt.wait())
        try:
            await asyncio.wait({work, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if work.done() or self._staying:  # with --keep, the work ends by the signal itself
                code = await work
            else:
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
                code = self._show_interrupted()
        finally:
            interrupted.cancel()
            self._console.set_status("stopping")
            await self._end()
            self._console.close()
        return with_outputs(code, lost=bool(self._results.problem))

    async def _work(self) -> int:
        self._console.set_status("starting the cluster")
        self._jobs = jobs_among(self._documents)
        require_scalable(self._jobs, self._scalings)
        self._check_images()
        if self._chosen.sandbox == "bare":
            check_bare(self._jobs)
        self._results.prepare()
        await self._embedded.start()
        gc.freeze()
        gc.enable()
        self._results.require_own_files(namespaces=self._embedded.has_namespaces)
        self._client = self._embedded.cluster.client
        serving = asyncio.create_task(self._embedded.run(), name="embedded")
        self._tasks.append(serving)
        self._say(f"cluster ready: {self._describe_cluster()}")
        if text := await asyncio.to_thread(warn_of_pretended, self._chosen.gpus):
            self._show([Line(text, "bad", at=self._now())])
        following = await self._create()
        if self._scalings:
            scaling = asyncio.create_task(self._scale(following[0]), name="scale")
            self._tasks.append(scaling)
        waiting = asyncio.create_task(self._until_finished())
        preparing = asyncio.create_task(
            prepare_images(self._documents, self._embedded.cluster.images, self._pulled),
            name="prepare images",
        )
        self._tasks += [waiting, preparing]
        done, _ = await asyncio.wait(
            {serving, waiting, preparing},
            timeout=self._timeout,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if serving in done:
            serving.result()
        in_time = waiting in done
        if in_time:
            waiting.result()
            await self._drain()
        elif preparing in done:
            preparing.result()
        code = exit_code(self._view) if in_time else TIMED_OUT
        self._console.show(summary(self._view, self._now(), self._console.columns))
        if not in_time:
            limit = duration(self._timeout or 0)
            self._console.show([Line(f"Ended by --timeout after {limit}.", "bad")])
        if self._keep:
            await self._stay(following)
        return code

    def _removed(self, text: str) -> None:
        self._show([Line(text, at=self._now())])

    def _check_images(self) -> None:
        from traincrew.cli.cluster.embedded import image_catalogs
        from traincrew.local.cluster import default_cache
        from traincrew.local.images import CatalogError, ImageStore

        try:
            store = ImageStore(default_cache(), image_catalogs(self._chosen))
        except CatalogError as error:
            raise BadInput(str(error)) from error
        check_images(self._documents, store)

    def _describe_cluster(self) -> str:
        count = self._chosen.nodes
        nodes = f"{count} node" + ("s" if count != 1 else "")
        return f"{nodes}, {self._embedded.describe_sandbox()}"

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
        await self._interrupt.wait()

    async def _until_finished(self) -> None:
        while not self._view.finished:
            self._changed.clear()
            if self._live:
                self._console.set_status(self._view.status(self._now()))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STATUS_EVERY_SECONDS):
                        await self._changed.wait()
            else:
                await self._changed.wait()

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
        """Wait for a limited time until the watches are up to date, and for the last log lines."""
        with contextlib.suppress(TimeoutError, ApiError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await catch_up(self._client, self._watched)
        await self._logs.drain(DRAIN_SECONDS)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._logs.stop()
        try:
            if self._created_any:
                self._console.show(self._results.lines(*await self._embedded.end_pods()))
        finally:
            self._results.remove()
            await self._embedded.stop()

    def _show_interrupted(self) -> int:
        self._console.show(summary(self._view, self._now(), self._console.columns))
        text = f"Ended by {self._interrupt.name}; everything is removed."
        self._console.show([Line(text, "bad")])
        return self._interrupt.exit_code

    # -- objects --------------------------------------------------------------------------------

    async def _create(self) -> list[Resource]:
        """Create all objects, jobs last; return the resources of the jobs."""
        submitter = Submitter(self._client, self._namespace, self._created)
        pods = []
        for document in self._documents:
            if not any(document is job for job in self._jobs):
                metadata = (await submitter.submit(document, again=True))["metadata"]
                if (document.api_version, document.kind) == ("v1", "Pod"):
                    pods.append((metadata["namespace"], metadata["name"]))
        await until_ready(self._client, pods, self._say)
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
        self._created_any = True
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
        self._logs.follow(self._client, pod, gone=new is None)
        if not (lines and self._logs.show_after_logs(pod, lines)):
            self._show(lines)

    # -- showing --------------------------------------------------------------------------------

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _say(self, text: str) -> None:
        self._show([Line(text, at=self._now())])

    def _show(self, lines: list[Line]) -> None:
        self._logs.show(lines)
        if any(job.phase == "Running" for job in self._view.jobs):
            self._running.set()
        if self._live and lines:
            self._console.set_status(self._view.status(self._now()))
        self._changed.set()

    def _pulled(self, image: str, message: str) -> None:
        from traincrew.local.images import Measurement

        lines = self._view.pull(image, message, self._now())
        # A terminal shows them in the status line; elsewhere no output would look like a hang.
        if not (self._live and isinstance(message, Measurement)):
            self._show(lines)
