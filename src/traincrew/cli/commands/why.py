"""`traincrew why`: what a job waits for, or why it failed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from traincrew.cli import options
from traincrew.cli.cluster.selection import target_options

if TYPE_CHECKING:
    from traincrew.cli.watching.gather import Gathered
    from traincrew.cli.watching.target import Target


@click.command("why")
@click.argument("job", metavar="[KIND/]JOB")
@target_options
@options.output_option
def why_command(
    job: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    output: str,
) -> None:
    """Explain what a job waits for, or why it failed, and what to do.

    From its conditions, pods and events, and the nodes and quotas, as far as they may be read.

    Exit code 0 if there is an explanation, also if rights are missing to read all of it; 1 if there
    is no such job, or it may not be read; 2 if an option cannot be used.
    """
    import asyncio

    from msgspec import to_builtins

    from traincrew.cli.display.folding import columns_of, folded, say
    from traincrew.cli.jobview.why import explain
    from traincrew.cli.watching.target import choose

    target = choose(kubeconfig, context)
    if target.doubt:
        say(f"traincrew: {target.name}; {target.doubt}")
    found = asyncio.run(_gather(target, job, namespace or target.config.namespace))
    explanation, about = explain(found.facts), found.facts.job
    if output == "json":
        document = {
            "cluster": target.name,
            "kind": about.kind,
            "namespace": about.metadata.namespace,
            "name": about.metadata.name,
            **to_builtins(explanation),
            "notes": found.notes,
        }
        click.echo(json.dumps(document, indent=2))
        return
    lines = [explanation.text, *(f"  {each}" for each in explanation.evidence)]
    lines += [f"What to do: {explanation.fix}."] if explanation.fix else []
    columns = columns_of(sys.stdout)
    for line in lines:
        click.echo(folded(line, columns))
    for note in found.notes:
        say(f"traincrew: {note}")


async def _gather(target: Target, word: str, namespace: str) -> Gathered:
    from traincrew.cli.watching.gather import gather
    from traincrew.engine.client import Client

    async with Client(target.config, user_agent="traincrew-why") as client:
        return await gather(client, word, namespace)
