"""Watches one job that exists: the live view until its end, or its model as lines of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from traincrew.cli.display.folding import say
from traincrew.cli.display.lines import Line
from traincrew.cli.display.text import seconds_between
from traincrew.cli.watching.ending import Interrupted, until_end
from traincrew.cli.watching.interrupt import Interrupt
from traincrew.cli.watching.kinds import find, scope_of
from traincrew.cli.watching.live import Live, seconds_ago
from traincrew.engine.client import Client

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Job
    from traincrew.cli.watching.kinds import Served
    from traincrew.cli.watching.target import Target

__all__ = ["age_of", "watch"]

JSON_EVERY_SECONDS = 0.2
"""Shortest time between two models of a job that changes all the time."""


def age_of(job: Job) -> float:
    """Return the age of a job in seconds; of one that has ended, how long it took."""
    created, ended = job.metadata.creation_timestamp, job.status.ended_at
    length = seconds_between(created, ended) if ended else None
    return seconds_ago(created) if length is None else max(0.0, length)


async def watch(
    target: Target,
    word: str,
    namespace: str,
    *,
    timeout: float | None,  # noqa: ASYNC109 - of the command, with an exit code of its own
    tail: int,
    verbose: bool,
    no_colour: bool,
    as_json: bool,
) -> int:
    """Show a job until it ends; return the exit code of the command.

    Args:
        target: The cluster.
        word: ``[KIND/]NAME``.
        namespace: Its namespace.
        timeout: Seconds after which to end, if limited.
        tail: Number of lines with which to begin each log.
        verbose: Show every step.
        no_colour: Never use colours.
        as_json: Print the view model instead, one line for each change.

    Raises:
        BadInput: The job is not named clearly.
        CommandFailed: There is no such job, or a right is missing.
    """
    interrupt = Interrupt()
    interrupt.listen()
    with contextlib.ExitStack() as stack:
        muted = stack.enter_context(Path(os.devnull).open("w")) if as_json else None  # noqa: ASYNC230
        live = Live(
            interrupt,
            verbose=verbose,
            no_colour=no_colour,
            tail=tail,
            stream=muted,
            on_note=(lambda text: say(f"traincrew: {text}")) if as_json else None,
        )
        stack.enter_context(live.shown())
        async with Client(target.config, user_agent="traincrew-watch") as client:
            work = _work(client, live, word, namespace, as_json=as_json)
            try:
                end = await until_end(work, live, interrupt, timeout)
                if isinstance(end, Interrupted):
                    live.console.show(
                        [Line(f"Stopped by {end.cause}; the job keeps running.", "bad")]
                    )
                    return end.code
                return end
            finally:
                await live.stop()
                live.console.close()


async def _work(client: Client, live: Live, word: str, namespace: str, *, as_json: bool) -> int:
    served, job = await find(client, word, namespace)
    name = job.metadata.name
    live.follow(served.kind.definition.kind, namespace, name, age_of(job))
    await live.watch(client, [(served.resource, scope_of(served, namespace, name))])
    live.begin()
    if as_json:
        await _print_models(live, served)
    return await live.until_shown(client)


async def _print_models(live: Live, served: Served) -> None:
    """Print the model of the job whenever it has changed, until it ends."""
    printed = None
    while True:
        for found in live.watched.models(served.kind):
            if found != printed:
                printed = found
                click.echo(json.dumps(msgspec.to_builtins(found), separators=(",", ":")))
        if live.view.finished:
            return
        await asyncio.sleep(JSON_EVERY_SECONDS)
        await live.until_changed()
