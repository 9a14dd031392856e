"""`traincrew logs`: the logs of all pods of a job."""

from __future__ import annotations

import sys

import click

from traincrew.cli import options
from traincrew.cli.cluster.selection import target_options


@click.command("logs")
@click.argument("job", metavar="[KIND/]JOB")
@target_options
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends, with new pods.")
@click.option("--role", metavar="ROLE", help="Only pods of this role, such as worker.")
@click.option("--rank", type=click.IntRange(0), metavar="N",
              help="Only the pod with this rank in its role.")  # fmt: skip
@click.option("--since", type=options.Duration(), metavar="DURATION",
              help="Only lines of the last 90s, 5m, 1h30m.")  # fmt: skip
@click.option("--tail", type=click.IntRange(0), metavar="N",
              help="Only the last N lines of each log.")  # fmt: skip
@click.option(
    "-p",
    "--previous",
    is_flag=True,
    help="Logs of the previous container, as kubectl logs --previous.",
)
@click.option("--timestamps", is_flag=True, help="Show the time of each line.")
@click.option(
    "--no-color", "no_colour", is_flag=True, help="Print without colours (so does NO_COLOR=1)."
)
def logs_command(  # noqa: PLR0917 - click passes by name
    job: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    follow: bool,
    role: str | None,
    rank: int | None,
    since: float | None,
    tail: int | None,
    previous: bool,
    timestamps: bool,
    no_colour: bool,
) -> None:
    """Print the logs of all pods of a job, merged by time.

    Each line is behind the name of its pod. Control sequences that would garble the terminal are
    left out; colours are kept on a terminal.

    Exit code 0 if all logs were printed, 1 if one could not be read or the cluster refused
    something, 2 if an option cannot be used, 130 after Ctrl-C.
    """
    import asyncio

    from traincrew.cli.display.folding import say
    from traincrew.cli.errors import BadInput
    from traincrew.cli.watching.joblogs import Choice, show
    from traincrew.cli.watching.target import choose

    if follow and previous:
        raise BadInput("--follow and --previous are mutually exclusive")
    target = choose(kubeconfig, context)
    if target.doubt:
        say(f"traincrew: {target.name}; {target.doubt}")
    choice = Choice(role, rank, since, tail, previous, follow, timestamps)
    where = namespace or target.config.namespace
    sys.exit(asyncio.run(show(target, job, where, choice, no_colour=no_colour)))
