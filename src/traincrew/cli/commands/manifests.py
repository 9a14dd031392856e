"""`traincrew manifests`: print or write the manifests that install the operator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traincrew.cli.errors import BadInput, CommandFailed

if TYPE_CHECKING:
    from traincrew.operator.manifests import Format
    from traincrew.operator.manifests.values import Values


@click.command("manifests")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write files into this directory instead of printing.",
)
@click.option("--crds-only", is_flag=True, help="Only the CustomResourceDefinitions.")
@click.option(
    "--format",
    "layout",
    type=click.Choice(["plain", "kustomize", "helm"]),
    default="plain",
    show_default=True,
    help="For kubectl create and apply, for kubectl apply -k, or a Helm chart.",
)
@click.option(
    "--chart",
    type=click.Choice(["traincrew", "mx-job-operator-chart", "mx_job", "kube-openmpi"]),
    help="Which Helm chart; the last three have the values of mxnet-operator and kube-openmpi.  "
    "[default: traincrew]",
)
@click.option(
    "--values",
    "values_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What is to differ from the defaults, as for Helm: see charts/traincrew/values.yaml.",
)
@click.option("--namespace", metavar="NAME", help="Where to install.  [default: chainer-operator]")
def manifests_command(  # noqa: PLR0917 - click passes by name
    directory: Path | None,
    crds_only: bool,
    layout: Format,
    chart: str | None,
    values_file: Path | None,
    namespace: str | None,
) -> None:
    """Print or write what installs the operator.

    \b
      traincrew manifests | kubectl apply -f -
      traincrew manifests --directory deploy && kubectl create -f deploy/
      traincrew manifests --format helm --directory charts/traincrew
    """  # noqa: D301 - click's mark for text it must not wrap
    from traincrew.operator.manifests import NAMESPACE, documents, write
    from traincrew.predecessors.manifests import render

    if layout != "plain" and (directory is None or crds_only):
        missing = "--directory DIR" if directory is None else "no --crds-only"
        raise BadInput(f"--format {layout} is a tree of files: it needs {missing}")
    if chart is not None and layout != "helm":
        raise BadInput("--chart is for charts: it needs --format helm")
    if layout == "helm" and (values_file or namespace):
        raise BadInput("a chart takes its values and namespace when it is installed: helm install")
    values = _values(values_file)
    namespace = namespace or NAMESPACE
    try:
        files = render(values, namespace, layout, chart or "traincrew")
        if crds_only:
            files = {
                name: files[name]
                for name, contents in documents(values, namespace).items()
                if all(document["kind"] == "CustomResourceDefinition" for document in contents)
            }
    except ValueError as error:
        raise BadInput(f"{values_file}: {error}") from error
    if directory is None:
        click.echo("---\n".join(files.values()), nl=False)
        return
    try:
        for path in write(directory, files):
            click.echo(f"{path}", err=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandFailed(f"cannot write {error.filename}: {reason}") from error


def _values(path: Path | None) -> Values:
    from traincrew.engine import yamlreader
    from traincrew.operator.manifests.values import DEFAULTS, parse

    if path is None:
        return DEFAULTS
    try:
        return parse(yamlreader.read(path.read_bytes()) or {})
    except OSError as error:
        raise BadInput(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except yamlreader.YamlError as error:
        raise BadInput(yamlreader.explain(str(path), error)) from error
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from error
