"""One run from start to end: cluster, objects, output, summary, cleanup."""

from __future__ import annotations

import asyncio
import gc
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from traincrew.cli.cluster.embedded import Embedded
from traincrew.cli.cluster.gpus import warn_of_missing
from traincrew.cli.cluster.runs import RunJob, announce
from traincrew.cli.cluster.selection import program
from traincrew.cli.display.lines import Line
from traincrew.cli.errors import BadInput
from traincrew.cli.run.additions import without_script
from traincrew.cli.run.lifecycle import Lifecycle
from traincrew.cli.run.preflight import check_bare, check_images, prepare_images
from traincrew.cli.run.results import Results
from traincrew.cli.run.scaling import require_scalable
from traincrew.cli.run.submit import Submitter, jobs_among
from traincrew.cli.watching.ending import Interrupted, until_end
from traincrew.cli.watching.interrupt import Interrupt
from traincrew.cli.watching.live import Live
from traincrew.cli.watching.outcome import with_outputs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from traincrew.cli.cluster.options import Options
    from traincrew.cli.cluster.runs import Run
    from traincrew.cli.manifest.documents import Document
    from traincrew.cli.page.server import PageServer
    from traincrew.cli.run.scaling import Scaling
    from traincrew.cli.terminal.view import TerminalView
    from traincrew.engine.client import Client
    from traincrew.local.node import PodOptions

_NEXT = {
    True: "Next: keep a cluster for kubectl: traincrew up; on yours: run --context NAME",
    False: "Next: correct it and run it again; --keep keeps the cluster to look into",
}
"""What users can do after a run that has succeeded, or failed."""
_FIXES = {
    "insufficient-gpu": "ask for fewer GPUs, or run it with --gpus N: the nodes offer N GPUs,"
    " pretended if this machine has fewer",
    "node-selector": "remove nodeSelector and node affinity: nodes of a run have no such labels",
    "missing-claim": "add the PersistentVolumeClaim to the manifest",
    "unbound-claim": "add a PersistentVolume that fits to the manifest, or remove volumeName,"
    " selector and storageClassName from the claim, which is a directory then",
    "missing-configmap": "add the ConfigMap to the manifest",
    "missing-secret": "add the Secret to the manifest",
    "missing-service-account": "add the ServiceAccount to the manifest, or leave it out",
}
"""What to do in a run, by the cause of `traincrew why`: its cluster has what its manifest has."""


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
        page: Serve a page with the jobs as well, and show its address.
        verbose: Show every step.
        no_colour: Never use colours.
        library: Called by a program: signals and settings of logging are the program's.
        stream: Where everything is written; standard output by default.
        at_end: Called before the cluster ends, if the jobs ended in time.
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
        page: bool = False,
        verbose: bool = False,
        no_colour: bool = False,
        library: bool = False,
        stream: TextIO | None = None,
        at_end: Callable[[Client], Awaitable[None]] | None = None,
    ) -> None:
        self._library = library
        self._at_end = at_end
        self._documents = documents
        self._chosen = chosen
        self._namespace = namespace
        self._timeout = timeout
        self._scalings = scalings
        self._results = results or Results((), namespace or "default")
        self._keep = keep
        self._page = page
        self._server: PageServer | None = None
        self._announced: Run | None = None
        self._interrupt = Interrupt()
        self._created_any = False
        self._tasks: list[asyncio.Task[Any]] = []
        self._live = Live(self._interrupt, verbose=verbose, no_colour=no_colour, stream=stream)
        self._view = self._live.view
        self._console = self._live.console
        mounts = pods.mounts if pods is not None else ()
        self._view.without_script = partial(without_script, mounts=mounts)
        self._embedded = Embedded(chosen, None, self._pulled, pods, self._removed)
        self._client: Client
        self._lifecycle: Lifecycle
        self._jobs: list[Document] = []
        self._next = ""

    # -- the run ------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run to the end; return the exit code.

        Raises:
            BadInput: An object is refused.
            CommandFailed: The cluster does not start.
        """
        if self._library:
            return await self._run()
        with self._live.shown():
            return await self._run()

    @property
    def view(self) -> TerminalView:
        """What has been observed."""
        return self._view

    async def _run(self) -> int:
        if not self._library:
            self._interrupt.listen()
        try:
            code = await self._work()
        finally:
            self._live.end_block("stopping")
            await self._end()
            self._console.close()
        return with_outputs(code, lost=bool(self._results.problem))

    async def _work(self) -> int:
        """Do everything before the cluster ends; return the exit code of the jobs."""
        end: int | Interrupted | None
        end = await until_end(self._start(), self._live, self._interrupt, None)
        if end is None:
            end = await until_end(self._follow(), self._live, self._interrupt, self._timeout)
        if isinstance(end, Interrupted):
            removed = "; everything is removed" if self._interrupt.happened else ""
            self._console.show([Line(f"Ended by {end.cause}{removed}.", "bad")])
        elif self._at_end is not None:
            await self._at_end(self._client)
        if isinstance(end, int) and self._live.live and not self._keep:
            self._next = _NEXT[end == 0]
        if self._keep and not self._interrupt.happened:
            await self._stay()
        return end.code if isinstance(end, Interrupted) else end

    async def _start(self) -> None:
        """Start the cluster, and create everything on it."""
        self._console.set_status("starting the cluster")
        self._jobs = jobs_among(self._documents)
        require_scalable(self._jobs, self._scalings)
        self._check_images()
        if self._chosen.sandbox == "bare":
            check_bare(self._jobs)
        self._results.prepare()
        await self._embedded.start()
        if not gc.isenabled():  # the command has switched it off
            gc.freeze()
            gc.enable()
        self._results.require_own_files(namespaces=self._embedded.has_namespaces)
        self._client = self._embedded.cluster.client
        self._tasks.append(asyncio.create_task(self._embedded.run(), name="embedded"))
        self._live.say(f"cluster ready: {self._describe_cluster()}")
        if text := await asyncio.to_thread(warn_of_missing, self._chosen.gpus):
            self._live.show([Line(text, "bad", at=self._live.now())])
        submitter = Submitter(self._client, self._namespace, self._created)
        self._lifecycle = Lifecycle(self._client, self._live, submitter)
        await self._lifecycle.create(self._documents, self._jobs, watch=True)
        self._live.begin()
        if self._page:
            await self._serve_page()
        if not self._library:
            self._announce()
            if self._embedded.has_namespaces and (warning := self._results.warning):
                self._live.say(warning)

    async def _follow(self) -> int:
        """Show the jobs until they end, or the cluster or an image fails."""
        showing = asyncio.create_task(self._lifecycle.until_shown(self._scalings, _FIXES))
        images = self._embedded.cluster.images
        preparing = prepare_images(self._documents, images, self._pulled)
        self._tasks.append(asyncio.create_task(preparing, name="prepare images"))
        try:
            await asyncio.wait({showing, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()
            return await showing
        finally:
            showing.cancel()

    def _removed(self, text: str) -> None:
        self._live.show([Line(text, at=self._live.now())])

    def _check_images(self) -> None:
        from traincrew.cli.cluster.embedded import image_catalogs
        from traincrew.local.directories import default_cache
        from traincrew.local.images import CatalogError, ImageStore, Source

        try:
            store = ImageStore(
                default_cache(),
                image_catalogs(self._chosen),
                source=Source(self._chosen.image_source),
            )
        except CatalogError as error:
            raise BadInput(str(error)) from error
        check_images(self._documents, store)

    def _describe_cluster(self) -> str:
        count = self._chosen.nodes
        nodes = f"{count} node" + ("s" if count != 1 else "")
        return f"{nodes}, {self._embedded.describe_sandbox()}"

    def _announce(self) -> None:
        """Let other commands find the cluster, and say how to see the job in a browser."""
        from traincrew.cli.watching.target import option_for

        path = self._embedded.cluster.kubeconfig_path
        jobs = tuple(RunJob(job.kind, job.namespace, job.name) for job in self._view.jobs)
        self._announced = announce(path, jobs)
        if self._announced is not None and not self._page:
            words = [program(), "ui", *option_for(self._announced)]
            self._live.say(f"to see it in a browser: {shlex.join(words)}")

    async def _serve_page(self) -> None:
        from traincrew.cli.page.server import PageServer

        def say(address: str) -> None:
            self._live.say(f"page for one more window: {address}")

        self._server = PageServer(self._client, "the cluster of this run", opened=say)
        await self._server.start()
        resource, (first, *others) = self._lifecycle.jobs[0].resource, self._view.jobs
        job = "" if others else f"{resource.kind}.{resource.group}/{first.namespace}/{first.name}"
        self._live.say(f"page: {self._server.address(job)}")

    async def _stay(self) -> None:
        path = shlex.quote(self._embedded.cluster.kubeconfig_path)
        self._console.show(
            [
                Line(""),
                Line("The cluster stays until Ctrl-C. In another terminal:"),
                Line(f"  export KUBECONFIG={path}"),
                Line(f"  kubectl get {self._lifecycle.jobs[0].resource.plural},pods"),
            ]
        )
        self._live.end_block()
        await self._interrupt.wait()

    async def _end(self) -> None:
        if self._announced is not None:
            await self._announced.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.stop()
        await self._live.stop()
        try:
            if self._created_any:
                self._console.show(self._results.lines(*await self._embedded.end_pods()))
            if self._next:
                self._console.show([Line(self._next)])
        finally:
            self._results.remove()
            await self._embedded.stop()

    # -- showing --------------------------------------------------------------------------------

    def _created(self, kind: str, name: str) -> None:
        self._created_any = True
        self._live.say(f"{kind} {name} created")

    def _pulled(self, image: str, message: str) -> None:
        from traincrew.local.images import Measurement

        lines = self._view.pull(image, message, self._live.now())
        # A terminal shows them in the status line; elsewhere no output would look like a hang.
        if not (self._live.live and isinstance(message, Measurement)):
            self._live.show(lines)
