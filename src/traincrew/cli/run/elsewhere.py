"""``traincrew run --kubeconfig``: create the job on another cluster, and show it from here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.cli.display.lines import Line
from traincrew.cli.display.text import plain
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.cli.run.lifecycle import Lifecycle, served
from traincrew.cli.run.scaling import require_scalable
from traincrew.cli.run.submit import Submitter, jobs_among
from traincrew.cli.watching.ending import Interrupted, until_end
from traincrew.cli.watching.interrupt import Interrupt
from traincrew.cli.watching.jobwatch import Scope
from traincrew.cli.watching.kinds import scope_of
from traincrew.cli.watching.live import Live
from traincrew.cli.watching.rights import credentials_refused, missing_right, refused
from traincrew.engine.client import Client
from traincrew.engine.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.cli.manifest.documents import Document
    from traincrew.cli.run.lifecycle import Created
    from traincrew.cli.run.scaling import Scaling
    from traincrew.cli.watching.target import Target
    from traincrew.engine.resources import Resource

__all__ = ["Ending", "require_possible", "run_elsewhere"]

MOST_JOBS = 16
"""Jobs that are shown; each needs four watches of its own."""
_OF_THE_NODE = "the node of the embedded cluster does it"
_OF_THE_CLUSTER = "it is an option of the embedded cluster"
EMBEDDED_ONLY = {
    "volumes": ("--volume", f"{_OF_THE_NODE}; write a volume into the manifest"),
    "variables": ("--env", f"{_OF_THE_NODE}; write env into the manifest"),
    "outputs": ("--output", f"{_OF_THE_NODE}; use a PersistentVolumeClaim, and kubectl cp"),
    "keep": ("--keep", "nothing is started here that could be kept"),
    "nodes": ("--nodes", _OF_THE_CLUSTER),
    "gpus": ("--gpus", _OF_THE_CLUSTER),
    "images": ("--images", f"{_OF_THE_CLUSTER}; nodes pull the images of the manifest"),
    "image_source": ("--image-source", _OF_THE_CLUSTER),
    "sandbox": ("--sandbox", _OF_THE_CLUSTER),
    "scheduler_name": ("--scheduler-name", _OF_THE_CLUSTER),
    "controller_config_file": (
        "--controller_config_file",
        "the operator of that cluster has its own; see traincrew operator",
    ),
    "admin_in_pods": ("--admin-in-pods", f"{_OF_THE_CLUSTER}; give the pods a ServiceAccount"),
    "progress": ("--progress", "the operator of that cluster decides; see its --progress-address"),
    "page": ("--ui", "use traincrew ui beside it"),
}
"""Parameters of the command that do not apply to another cluster, and why."""


class Ending(NamedTuple):
    """What happens when the view of a job ends before the job.

    Attributes:
        delete: Delete what the run has created, without asking.
        detach: Only create the objects, and end.
        options: Those by which another command finds the cluster, and their values.
    """

    delete: bool
    detach: bool
    options: Sequence[str] = ()


def require_possible(given: Sequence[str]) -> None:
    """Check that no option is given that only makes sense with the embedded cluster.

    Raises:
        BadInput: Such an option, with the reason.
    """
    problems = [
        f"{EMBEDDED_ONLY[name][0]} cannot be used with --kubeconfig or --context: "
        f"{EMBEDDED_ONLY[name][1]}"
        for name in given
        if name in EMBEDDED_ONLY
    ]
    if problems:
        raise BadInput("\n".join(problems))


async def run_elsewhere(
    documents: Sequence[Document],
    target: Target,
    namespace: str | None,
    ending: Ending,
    *,
    timeout: float | None,  # noqa: ASYNC109 - of the command, with an exit code of its own
    scalings: Sequence[Scaling],
    verbose: bool,
    no_colour: bool,
) -> int:
    """Create the objects, show the jobs until they end, and return the exit code.

    Args:
        documents: The objects.
        target: The cluster.
        namespace: Namespace of objects that do not set one; that of the context if None.
        ending: What happens if the view ends early.
        timeout: Seconds after which to end, if limited.
        scalings: Worker counts to scale the job to, and when.
        verbose: Show every step.
        no_colour: Never use colours.

    Raises:
        BadInput: An object is refused, or there are too many jobs to watch.
        CommandFailed: A right is missing, or the cluster does not answer.
    """
    jobs = jobs_among(documents)
    require_scalable(jobs, scalings)
    if jobs[0].kind == "Pod":
        raise BadInput(
            f"{jobs[0].where}: there is no job in the manifest; for pods on another cluster use"
            " kubectl create, and kubectl logs -f"
        )
    if len(jobs) > MOST_JOBS and not ending.detach:
        raise BadInput(
            f"there are {len(jobs)} jobs in the manifest, and at most {MOST_JOBS} are shown on "
            "another cluster: add --detach, then traincrew watch each of them, or traincrew ui"
        )
    interrupt = Interrupt()
    interrupt.listen()
    live = Live(interrupt, verbose=verbose, no_colour=no_colour)
    with live.shown():
        async with Client(target.config, user_agent="traincrew-run") as client:
            run = _Run(client, live, target, namespace)
            try:
                for job in jobs:  # whether the cluster takes them, before anything is created
                    await run.submit(job, dry_run=True)
                await run.create(documents, jobs)
                if ending.detach:
                    run.show_next_steps(ending.options)
                    return 0
                return await run.watch(interrupt, ending, timeout, scalings)
            finally:
                await live.stop()
                live.console.close()


class _Run(Lifecycle):
    def __init__(self, client: Client, live: Live, target: Target, namespace: str | None) -> None:
        submitter = Submitter(
            client,
            namespace,
            self._say_created,
            own_cluster=False,
            default_namespace=target.config.namespace,
        )
        super().__init__(client, live, submitter)
        self._target = target

    def _say_created(self, kind: str, name: str) -> None:
        self._live.say(f"{kind} {name} created on {self._target.name}")

    # -- creating -------------------------------------------------------------------------------

    async def submit(
        self, document: Document, *, again: bool = False, dry_run: bool = False
    ) -> Created:
        """Create one object; see `Submitter.submit`."""
        resource = await self._resource(document)
        try:
            return await super().submit(document, again=again, dry_run=dry_run)
        except BadInput as error:
            cause = error.__cause__
            if isinstance(cause, ForbiddenError):
                raise refused(cause, "create", resource, document.namespace) from cause
            if isinstance(cause, UnreachableError):
                raise refused(cause, "create", resource, None) from cause
            raise BadInput(f"{error.message}{self._leftovers()}") from error

    async def _resource(self, document: Document) -> Resource:
        try:
            return await self._submitter.resource(document)
        except UnreachableError as error:
            raise CommandFailed(
                f"{self._target.name} does not answer: {plain(error.message)}"
            ) from error
        except UnauthorizedError as error:
            raise credentials_refused(error) from error

    def _leftovers(self) -> str:
        if not self.created:
            return ""
        return f"\ncreated before that: {', '.join(each.title for each in self.created)}"

    # -- watching -------------------------------------------------------------------------------

    async def watch(
        self,
        interrupt: Interrupt,
        ending: Ending,
        timeout: float | None,  # noqa: ASYNC109
        scalings: Sequence[Scaling],
    ) -> int:
        """Show the jobs until they end, or until the user or a time limit ends the view."""
        end = await until_end(self._work(scalings), self._live, interrupt, timeout)
        if not isinstance(end, Interrupted):
            return end
        asks = interrupt.happened and interrupt.is_from_keyboard
        self._live.end_block()
        delete = ending.delete or (asks and await self._asks_to_delete(interrupt))
        self._live.console.show([Line(f"Ended by {end.cause}.", "bad")])
        if delete:
            await self._delete()
        else:
            self.show_next_steps(ending.options)
        return end.code

    async def _work(self, scalings: Sequence[Scaling]) -> int:
        live = self._live
        await live.watch(self._client, [(job.resource, _scope(job)) for job in self.jobs])
        live.begin()
        return await self.until_shown(scalings)

    # -- an early end ---------------------------------------------------------------------------

    async def _asks_to_delete(self, interrupt: Interrupt) -> bool:
        """Ask whether to delete what was created; Ctrl-C again means no."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return False
        names = ", ".join(each.title for each in self.created if each.is_new)
        self._live.console.show([Line(f"Delete {names}? [y/N]")])
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            with contextlib.suppress(asyncio.InvalidStateError):
                answer.set_result(os.read(sys.stdin.fileno(), 100))

        interrupt.forget()
        again = asyncio.create_task(interrupt.wait())
        loop.add_reader(sys.stdin.fileno(), read)
        try:
            both: tuple[asyncio.Future[Any], ...] = (answer, again)
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(sys.stdin.fileno())
            again.cancel()
        return answer.done() and answer.result().strip().lower() in {b"y", b"yes"}

    async def _delete(self) -> None:
        lines = []
        for each in reversed([one for one in self.created if one.is_new]):
            try:
                await self._client.delete(each.resource, each.name, each.namespace)
            except NotFoundError:
                continue
            except ForbiddenError:
                right = missing_right("delete", each.resource, each.namespace)
                lines.append(Line(f"{each.title} is not deleted: {right}", "bad"))
            except ApiError as error:
                text = f"{each.title} is not deleted: {plain(error.message)}"
                lines.append(Line(text, "bad"))
            else:
                lines.append(Line(f"{each.title} deleted"))
        self._live.console.show(lines)

    def show_next_steps(self, options: Sequence[str]) -> None:
        """Show how to see the jobs, and how to delete them."""
        for job in self.jobs:
            where = ["-n", job.namespace or "default"]
            kind = f"{job.resource.plural}.{job.resource.group}"
            see = ["traincrew", "watch", f"{job.resource.kind.lower()}/{job.name}", *options]
            if kind == "jobs.batch":
                see = ["kubectl", "logs", "-f", f"job/{job.name}", *options]
            delete = ["kubectl", "delete", f"{kind}/{job.name}", *options]
            follow = plain(shlex.join([*see, *where]))
            self._live.console.show(
                [
                    Line(f"{job.title} is still running. To follow it: {follow}"),
                    Line(f"To delete it: {plain(shlex.join([*delete, *where]))}"),
                ]
            )


def _scope(job: Created) -> Scope:
    """Return what to watch for one job."""
    namespace, kind = job.namespace or "", served(job)
    if kind is not None:
        return scope_of(kind, namespace, job.name)
    return Scope(namespace, job.name, f"batch.kubernetes.io/job-name={job.name}")
