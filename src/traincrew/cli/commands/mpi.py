"""`traincrew mpi`: turn values of the chart kube-openmpi into an MPICluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from traincrew.cli.errors import BadInput, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.api.meta import Problem
    from traincrew.cli.manifest.valuesfiles import ValuesFile


@click.command("mpi")
@click.argument(
    "files", nargs=-1, type=click.Path(dir_okay=False, allow_dash=True), metavar="[FILE]..."
)
@click.option(
    "-f",
    "--values",
    "paths",
    type=click.Path(dir_okay=False, allow_dash=True),
    multiple=True,
    metavar="FILE",
    help="Values, or - for standard input; `-f` may be left out. Of several, later ones win.",
)
@click.option(
    "--name",
    default="kube-openmpi",
    show_default=True,
    metavar="NAME",
    help="Name of the cluster: the Helm release name.",
)
@click.option("-n", "--namespace", metavar="NAME", help="Namespace.  [default: none is written]")
def mpi_command(
    files: tuple[str, ...], paths: tuple[str, ...], name: str, namespace: str | None
) -> None:
    """Turn values of the chart kube-openmpi into an MPICluster.

    \b
      traincrew mpi -f values.yaml | kubectl create -f -
      traincrew mpi -f values.yaml -f ssh-key.yaml --name mine | traincrew run -

    The manifest goes to standard output: an MPICluster, and a Secret before it if the values have
    keys. Exit code 1 if a value is wrong: a line for each, with the place and the key.
    """  # noqa: D301 - click's mark for text it must not wrap
    from traincrew.api.kinds.mpicluster.convert import documents
    from traincrew.api.kinds.mpicluster.values import merged
    from traincrew.api.kinds.mpicluster.valuescheck import problems
    from traincrew.cli.manifest.valuesfiles import load_values

    given = [*files, *paths]
    if not given:
        raise BadInput("no values file: write traincrew mpi -f values.yaml")
    found = load_values(given)
    values = merged(*(file.content for file in found))
    if wrong := problems(values, name):
        raise CommandFailed("\n".join(_line(found, problem) for problem in wrong))
    click.echo(_yaml(documents(values, name, namespace)), nl=False)


def _line(files: Sequence[ValuesFile], problem: Problem) -> str:
    """Return a problem as one line, with the place of its key."""
    from traincrew.cli.manifest.valuesfiles import place_of

    place = place_of(files, problem.field)
    return f"{place}: {problem}" if place else str(problem)


def _yaml(manifest: Sequence[dict[str, Any]]) -> str:
    """Return objects as YAML, with commands of several lines as they were written."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts of several lines as blocks."""

    Dumper.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
        ),
    )
    return str(yaml.dump_all(manifest, Dumper=Dumper, sort_keys=False, width=100))
