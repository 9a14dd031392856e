"""`traincrew list`: the jobs of a cluster."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from traincrew.cli import options
from traincrew.cli.cluster.selection import target_options
from traincrew.cli.errors import BadInput, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from traincrew.cli.display.states import Sign
    from traincrew.cli.jobview.model import JobSummary
    from traincrew.cli.watching.target import Target


@click.command("list")
@target_options
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="In all namespaces.")
@options.output_option
def list_command(
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    everywhere: bool,
    output: str,
) -> None:
    """List the training jobs of a cluster.

    Jobs that report their progress show how much of their training is done.

    Exit code 0 if they were listed, also if there are none; 1 if the cluster does not answer, or
    refused to list a kind, the others being listed; 2 if an option cannot be used.
    """
    import asyncio
    from datetime import UTC, datetime

    from msgspec import to_builtins

    from traincrew.cli.display.console import has_signs
    from traincrew.cli.display.folding import columns_of, say
    from traincrew.cli.jobview.tables import table
    from traincrew.cli.watching.target import choose

    if namespace and everywhere:
        raise BadInput("--namespace and --all-namespaces: choose one of them")
    target = choose(kubeconfig, context)
    if target.doubt:
        say(f"traincrew: {target.name}; {target.doubt}")
    where = None if everywhere else namespace or target.config.namespace
    listed, absent, refusals = asyncio.run(_list(target, where))
    found = [job for job, _ in listed]
    if output == "json":
        document = {
            "cluster": target.name,
            "namespace": where,
            "jobs": [to_builtins(job) for job in found],
            "kindsNotInstalled": absent,
            "notes": refusals,
        }
        click.echo(json.dumps(document, indent=2))
    elif found:
        now, columns = datetime.now(UTC), columns_of(sys.stdout)
        if columns is None:
            lines = list(table(found, now, namespaces=where is None))
        else:
            plain = not has_signs(sys.stdout)
            lines = _fitting(
                found,
                now,
                columns,
                namespaces=where is None,
                phases=[sign.before(job.phase, plain=plain) for job, sign in listed],
            )
        click.echo("\n".join(lines))
    elif not refusals:
        place = f"in namespace {where}" if where else "in any namespace"
        say(f"there is no job {place} of {target.name}")
    if refusals:
        raise CommandFailed("\n".join(refusals))


def _fitting(
    jobs: Sequence[JobSummary],
    now: datetime,
    columns: int,
    *,
    namespaces: bool,
    phases: Sequence[str] = (),
) -> list[str]:
    """Return a table for a terminal: narrow ones get fewer columns; only reasons are shortened."""
    from traincrew.cli.display.rows import cut
    from traincrew.cli.jobview.tables import left_out, table

    for without in left_out(jobs):
        header, *rows = table(jobs, now, namespaces=namespaces, without=without, phases=phases)
        if "REASON" not in without:
            rows = [cut(row, max(columns, len(header))) for row in rows]
        if max(map(len, (header, *rows))) <= columns:
            break
    return [header, *rows]


async def _list(
    target: Target, namespace: str | None
) -> tuple[list[tuple[JobSummary, Sign]], list[str], list[str]]:
    """Return the jobs and signs, the kinds that are not installed, and which rights are missing."""
    from traincrew.cli.jobview.jobstate import job_state
    from traincrew.cli.jobview.model import summary
    from traincrew.cli.watching.kinds import ALL, is_served, jobs, not_installed
    from traincrew.cli.watching.rights import RightMissing
    from traincrew.engine.client import Client
    from traincrew.engine.errors import NotFoundError

    found, absent, refusals = [], [], []
    async with Client(target.config, user_agent="traincrew-list") as client:
        for served in ALL:
            try:
                found += [
                    (summary(served.kind, job), job_state(job).sign)
                    async for job in jobs(client, served, namespace)
                    if not job.is_part
                ]
            except NotFoundError:
                absent.append(served)
            except RightMissing as error:
                if served.is_needed and await is_served(client, served):
                    refusals.append(error.message)
                else:
                    absent.append(served)
    if len(absent) == len(ALL):
        raise CommandFailed(f"{target.name}: {not_installed(absent)}")
    found.sort(key=lambda one: (one[0].namespace, one[0].name, one[0].kind))
    names = [f"{each.resource.plural}.{each.resource.group}" for each in absent]
    return found, names, refusals
