"""`traincrew manifests`: the YAML that installs the operator on a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from traincrew.cli.main import CommandFailed


@click.command("manifests")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write files into this directory instead of printing.",
)
@click.option("--crds-only", is_flag=True, help="Only the CustomResourceDefinitions.")
def manifests_command(directory: Path | None, crds_only: bool) -> None:
    """Print or write the YAML that installs the operator.

    \b
      traincrew manifests | kubectl apply -f -
      traincrew manifests --directory deploy && kubectl create -f deploy/
    """  # noqa: D301 - click's mark for text it must not wrap
    from traincrew.operator.manifests import documents, render

    files = render()
    if crds_only:
        kept = {
            name
            for name, contents in documents().items()
            if all(document["kind"] == "CustomResourceDefinition" for document in contents)
        }
        files = {name: text for name, text in files.items() if name in kept}
    if directory is None:
        click.echo("---\n".join(files.values()), nl=False)
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text)
            click.echo(f"{directory / name}", err=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandFailed(f"cannot write {error.filename}: {reason}") from error
