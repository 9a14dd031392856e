"""`traincrew run`: one shot, from a manifest to the outcome of its job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

import click

from traincrew.cli import options
from traincrew.cli.main import BadInput
from traincrew.cli.scaling import Scaling, ScalingOption

if TYPE_CHECKING:
    from pathlib import Path


@click.command("run")
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    metavar="FILE",
    help="Manifest, directory of manifests, or - for standard input; may be repeated.",
)
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of objects that name none.")
@click.option(
    "--timeout",
    type=options.Duration(),
    metavar="DURATION",
    help="End the run after this long (90s, 5m, 1h30m), with exit code 124.",
)
@click.option(
    "--scale",
    "scalings",
    type=ScalingOption(),
    multiple=True,
    metavar="N@DURATION",
    help="Scale an ElasticJob to N workers this long after it began to run; may be repeated.",
)
@click.option("--keep", is_flag=True, help="Afterwards keep the cluster until Ctrl-C.")
@options.cluster_options
@click.option("-v", "--verbose", is_flag=True, help="Show every step, init containers, events.")
@click.option("--no-color", is_flag=True, help="Print without colours (so does NO_COLOR=1).")
def run_command(  # noqa: PLR0917 - click passes by name
    paths: tuple[str, ...],
    namespace: str | None,
    timeout: float | None,
    scalings: tuple[Scaling, ...],
    keep: bool,
    nodes: int,
    gpus: int | None,
    images: tuple[Path, ...],
    sandbox: Literal["auto", "namespaces", "bare"],
    verbose: bool,
    no_color: bool,
) -> None:
    """Run a training job here, watch it, and end with its outcome.

    Starts a cluster in this process, creates the objects of the manifests (training jobs last),
    shows what happens and what the pods print, and leaves nothing behind.

    \b
    Exit code:
      0    every job succeeded
      N    a job failed: the exit code of its master, or 1
      2    a manifest or option cannot be used
      124  --timeout was reached
      130  Ctrl-C
    """  # noqa: D301 - click's mark for text it must not wrap
    from traincrew.cli.daemon import Options
    from traincrew.cli.manifest import load

    if not paths:
        raise BadInput("which manifest? traincrew run -f FILE")
    documents = load(paths)
    chosen = Options(
        nodes=nodes,
        gpus=gpus,
        images=tuple(str(path.absolute()) for path in images),
        sandbox=sandbox,
        verbose=verbose,
    )
    import asyncio
    import gc

    # Nothing that is loaded here is garbage; looking for it costs a tenth of the start.
    gc.disable()
    from traincrew.cli.session import Session

    session = Session(
        documents,
        chosen,
        namespace=namespace,
        timeout=timeout,
        scalings=scalings,
        keep=keep,
        verbose=verbose,
        no_colour=no_color,
    )
    sys.exit(asyncio.run(session.run()))
