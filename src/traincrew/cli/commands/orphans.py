"""`traincrew orphans`: find, and delete, what an older mxnet-operator left behind."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from traincrew.cli.display.folding import say
from traincrew.cli.display.text import plain
from traincrew.cli.errors import BadInput, CommandFailed

if TYPE_CHECKING:
    from traincrew.engine.client import Client
    from traincrew.engine.config import ClientConfig
    from traincrew.predecessors.orphans import Findings, Orphan


@click.command("orphans")
@click.option("--kubeconfig", metavar="FILE",
              help="Which cluster.  [default: KUBECONFIG, in-cluster, ~/.kube/config]")  # fmt: skip
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option("-n", "--namespace", metavar="NAME", help="Where to look.  [default: the context's]")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Look everywhere.")
@click.option("--delete", "deletes", is_flag=True, help="Delete what is found.")
def orphans_command(
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    everywhere: bool,
    deletes: bool,
) -> None:
    """Find what mxnet-operator left behind; delete it with --delete.

    These are Jobs, Services and pods of MxJobs that do not exist any more. Without --delete they
    are only listed, with the reason.

    Exit code 0 if all was listed, and deleted if asked for; 1 if the cluster refused something, or
    an object has changed in between; 2 if an option cannot be used.
    """
    import asyncio

    from traincrew.engine.config import load_config
    from traincrew.engine.errors import ConfigError

    if namespace and everywhere:
        raise BadInput("--namespace and --all-namespaces: choose one of them")
    try:
        config = load_config(kubeconfig, context)
    except ConfigError as error:
        raise BadInput(plain(str(error))) from error
    where = None if everywhere else namespace or config.namespace
    asyncio.run(_find(config, where, deletes))


async def _find(config: ClientConfig, namespace: str | None, deletes: bool) -> None:
    from traincrew.engine.client import Client
    from traincrew.predecessors.orphans import CannotTellError, find

    async with Client(config, user_agent="traincrew-orphans") as client:
        try:
            findings = await find(client, namespace)
        except CannotTellError as error:
            raise CommandFailed(plain(f"{config.server}: {error}; nothing was deleted")) from error
        _print_table(findings.orphans)
        place = f"in namespace {namespace}" if namespace else "in all namespaces"
        for reason, count in sorted(findings.kept.items()):
            say(f"kept {place}: {_objects(count)} {reason}")
        if not findings.orphans:
            say(f"nothing is orphaned {place}")
        elif deletes:
            await _delete(client, findings)
        else:
            found = _objects(len(findings.orphans))
            say(f"orphaned {place}: {found}; nothing was deleted. To delete: {_repeat()}")


def _repeat() -> str:
    """Return the command line that deletes what this one has found."""
    given = click.get_current_context().params
    words = ["traincrew", "orphans"]
    for name in ("kubeconfig", "context", "namespace"):
        if given[name]:
            words += [f"--{name}", given[name]]
    if given["everywhere"]:
        words.append("--all-namespaces")
    return plain(shlex.join([*words, "--delete"]))


def _print_table(orphans: tuple[Orphan, ...]) -> None:
    from traincrew.cli.display.rows import aligned

    if not orphans:
        return
    rows: list[tuple[str, ...]] = [("KIND", "NAMESPACE", "NAME", "CREATED", "WHY")]
    for orphan in orphans:
        found = orphan.found
        texts = (found.resource.kind, found.namespace, found.name, found.created, orphan.reason)
        rows.append(tuple(map(plain, texts)))
    click.echo("\n".join(aligned(rows)))


async def _delete(client: Client, findings: Findings) -> None:
    from traincrew.engine.errors import ApiError, UnreachableError
    from traincrew.predecessors.orphans import delete

    deleted = failed = 0
    for orphan in findings.orphans:
        found = orphan.found
        name = plain(f"{found.resource.kind} {found.namespace}/{found.name}")
        try:
            outcome = await delete(client, orphan)
        except UnreachableError as error:
            raise CommandFailed(
                plain(f"{name}: {error.message}; {deleted} deleted so far, run it again")
            ) from error
        except ApiError as error:
            click.echo(f"{name}: refused: {plain(error.message)}")
            failed += 1
            continue
        click.echo(f"{name}: {outcome}")
        deleted += outcome == "deleted"
        failed += outcome.startswith("kept")
    say(f"{_objects(deleted)} deleted")
    if failed:
        raise CommandFailed(f"{_objects(failed)} could not be deleted; run it again to see why")


def _objects(count: int) -> str:
    return f"{count} object" if count == 1 else f"{count} objects"
