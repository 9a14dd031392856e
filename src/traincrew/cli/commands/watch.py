"""`traincrew watch`: the live view of a job that exists."""

from __future__ import annotations

import sys

import click

from traincrew.cli import options
from traincrew.cli.cluster.selection import target_options


@click.command("watch")
@click.argument("job", metavar="[KIND/]JOB")
@target_options
@click.option(
    "--timeout",
    type=options.Duration(),
    metavar="DURATION",
    help="End after this long (90s, 5m, 1h30m), with exit code 124.",
)
@click.option("--tail", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="Begin with the last N lines of each log.")  # fmt: skip
@click.option("--verbose", is_flag=True, help="Show every step, init containers, events.")
@click.option(
    "--no-color", "no_colour", is_flag=True, help="Print without colours (so does NO_COLOR=1)."
)
@options.output_option
def watch_command(  # noqa: PLR0917 - click passes by name
    job: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    timeout: float | None,
    tail: int,
    verbose: bool,
    no_colour: bool,
    output: str,
) -> None:
    """Watch a job until it ends, and end with its outcome.

    Shows what `traincrew run` shows, for a job that exists, on any cluster. With -o json, each
    change is a line of JSON.

    \b
    Exit code:
      0      the job succeeded
      N      the job failed: the exit code of its master, else of the pod that
             failed first, or 1
      1      there is no such job, or it may not be watched; or the job failed, and
             its pods may not be watched
      2      an option cannot be used
      124    timed out; the job keeps running
      128+N  ended by signal N, as 130 by Ctrl-C; the job keeps running
    """  # noqa: D301 - click's mark for text it must not wrap
    import asyncio

    from traincrew.cli.display.folding import say
    from traincrew.cli.watching.target import choose
    from traincrew.cli.watching.watch import watch

    target = choose(kubeconfig, context)
    if target.doubt:
        say(f"traincrew: {target.name}; {target.doubt}")
    where = namespace or target.config.namespace
    code = asyncio.run(
        watch(
            target,
            job,
            where,
            timeout=timeout,
            tail=tail,
            verbose=verbose,
            no_colour=no_colour,
            as_json=output == "json",
        )
    )
    sys.exit(code)
