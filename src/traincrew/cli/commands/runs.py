"""`traincrew runs`: what pods of the last runs wrote."""

from __future__ import annotations

import json
import time

import click

from traincrew.cli import options


@click.command("runs")
@click.option("--remove", is_flag=True, help="Remove all that is kept.")
@options.output_option
def runs_command(remove: bool, output: str) -> None:
    """List the files that pods of `traincrew run` wrote, and that no --output has saved.

    They are kept for a day: of the last 3 runs, at most 512 MiB of each. Only you can read them.
    Copy what you need.
    """
    from msgspec import to_builtins

    from traincrew.cli.display.text import byte_size, duration, plain
    from traincrew.cli.run.kept import kept_runs, remove_kept

    if remove:
        count = remove_kept()
        click.echo(f"removed the files of {count} run{'s' if count != 1 else ''}")
        return
    found = kept_runs()
    if output == "json":
        click.echo(json.dumps([to_builtins(run) for run in found], indent=2))
        return
    if not found:
        click.echo("no files of runs are kept")
    for run in found:
        ago = duration(max(0.0, time.time() - run.ended))
        files = f"{run.files} file{'s' if run.files != 1 else ''}"
        click.echo(f"{plain(run.job)}, {ago} ago: {files}, {byte_size(run.bytes)}")
        click.echo(f"  {run.directory}")
