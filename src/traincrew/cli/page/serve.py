"""`traincrew ui` from start to end: a client, the server, addresses that are printed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from traincrew.cli.display.text import plain
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.cli.page.firstjob import first_job
from traincrew.cli.page.listfeed import kind_key
from traincrew.cli.page.server import PageServer
from traincrew.cli.watching.interrupt import Interrupt
from traincrew.cli.watching.kinds import find
from traincrew.cli.watching.rights import no_answer
from traincrew.engine.client import Client
from traincrew.engine.errors import ApiError

if TYPE_CHECKING:
    from traincrew.cli.cluster.runs import Run
    from traincrew.cli.watching.target import Target

__all__ = ["serve"]

_POLL_SECONDS = 0.2
_ENDED = "The run has ended, and its cluster with it."


async def serve(
    target: Target, job: str | None, namespace: str | None, *, port: int, open_browser: bool
) -> int:
    """Serve the page until a signal arrives; return the exit code of the command.

    Args:
        target: The cluster.
        job: ``[KIND/]NAME`` of the job to show first.
        namespace: Only jobs of this namespace; None for all.
        port: The port; 0 for a free one.
        open_browser: Whether to open the page.

    Raises:
        CommandFailed: The port is taken, the cluster does not answer or accept the credentials,
            there is no such job, or a right is missing.
    """
    from traincrew.engine.limits import raise_file_limit
    from traincrew.engine.observability import configure_logging

    raise_file_limit()
    configure_logging("text", "error")
    interrupt = Interrupt()
    interrupt.listen()
    async with Client(target.config, user_agent="traincrew-ui") as client:
        await _require_answer(client)
        first = ""
        if job is not None:
            served, found = await find(client, job, namespace or target.config.namespace)
            first = f"{kind_key(served)}/{found.metadata.namespace}/{found.metadata.name}"
        elif target.run is not None:
            first = await _only_job(client, target.run)
        server = PageServer(
            client,
            target.name,
            namespace,
            opened=_say_next,
            follow=target.run is not None,
            first_job=first_job(target.options, namespace),
        )
        try:
            await server.start(port)
        except OSError as error:
            raise CommandFailed(
                f"port {port} cannot be used: {plain(error.strerror or str(error))};"
                " choose another --port"
            ) from error
        try:
            address = server.address(first)
            click.echo(
                f"{target.name}\n\n  {address}\n\nThe address can be opened once. Ctrl-C ends."
            )
            if open_browser:
                await asyncio.to_thread(click.launch, address)
            ending = asyncio.create_task(_until_ended(target.run, server))
            await interrupt.wait()
            ending.cancel()
            return 0
        finally:
            await server.stop()


async def _require_answer(client: Client) -> None:
    """Refuse to show a cluster of which nothing can be shown: a page could only repeat that."""
    try:
        await client.server_version()
    except ApiError as error:
        if failure := no_answer(error):
            raise failure from error


async def _only_job(client: Client, run: Run) -> str:
    """Return the address of the job of a run that has only one; else an empty text: the list."""
    if len(run.jobs) != 1:
        return ""
    (job,) = run.jobs
    try:
        served, found = await find(client, f"{job.kind}/{job.name}", job.namespace)
    except (BadInput, CommandFailed):  # the page shows no Pods, and says what goes wrong
        return ""
    return f"{kind_key(served)}/{found.metadata.namespace}/{found.metadata.name}"


async def _until_ended(run: Run | None, server: PageServer) -> None:
    """Let the page keep what it shows when the run ends whose cluster it is."""
    if run is None:
        return
    with run.watched():
        while run.lives():  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(_POLL_SECONDS)
        await server.until_read(len(run.jobs))
    await server.cluster_ended(f"{_ENDED} This is what was seen last.")
    click.echo(f"{_ENDED} The page keeps what it has shown. Ctrl-C ends.")


def _say_next(address: str) -> None:
    click.echo(f"Opened, also for new tabs there. For another browser:\n\n  {address}\n")
