"""`traincrew run`: run the jobs of manifests to their end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

import click

from traincrew.cli import options
from traincrew.cli.errors import BadInput
from traincrew.cli.run.additions import (
    VariableOption,
    Volume,
    VolumeOption,
    reports_elsewhere,
    require_free,
)
from traincrew.cli.run.results import Output, OutputOption, Results, require_separate
from traincrew.cli.run.scaling import Scaling, ScalingOption

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.node import PodOptions


@click.command("run")
@click.argument("files", nargs=-1, type=click.Path(allow_dash=True), metavar="[FILE]...")
@click.option(
    "-f",
    "--filename",
    "paths",
    type=click.Path(allow_dash=True),
    multiple=True,
    metavar="FILE",
    help="Manifest, directory of manifests, or - for standard input; `-f` may be left out.",
)
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of objects that name none.")
@click.option("--kubeconfig", metavar="FILE", help="Run it on this cluster, and start none here.")
@click.option("--context", metavar="NAME", help="The same, by a context of the kubeconfig.")
@click.option("--detach", is_flag=True, help="On another cluster: create the job and exit.")
@click.option(
    "--delete-on-interrupt",
    is_flag=True,
    help="On another cluster: delete what was created if the run ends early (Ctrl-C asks).",
)
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
    help="Scale the job to N workers once it has run for DURATION; repeatable.",
)
@click.option(
    "-v",
    "--volume",
    "volumes",
    type=VolumeOption(),
    multiple=True,
    metavar="SRC:DST[:ro]",
    help="Mount a host file or directory into every container; repeatable.",
)
@click.option(
    "--env",
    "variables",
    type=VariableOption(),
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a variable in every container, over the manifest's; may be repeated.",
)
@click.option(
    "--output",
    "outputs",
    type=OutputOption(),
    multiple=True,
    metavar="DIR[:PATH]",
    help="Save what pods write to claims, or to a path in them, in DIR; may be repeated.",
)
@click.option("--keep", is_flag=True, help="Afterwards keep the cluster until Ctrl-C.")
@click.option("--ui", "page", is_flag=True, help="Also show the jobs on a page: traincrew ui.")
@options.cluster_options
@click.option("--verbose", is_flag=True, help="Show every step, init containers, events.")
@click.option(
    "--no-color", "no_colour", is_flag=True, help="Print without colours (so does NO_COLOR=1)."
)
@click.pass_context
def run_command(  # noqa: PLR0917 - click passes by name
    ctx: click.Context,
    files: tuple[str, ...],
    paths: tuple[str, ...],
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    detach: bool,
    delete_on_interrupt: bool,
    timeout: float | None,
    scalings: tuple[Scaling, ...],
    volumes: tuple[Volume, ...],
    variables: tuple[tuple[str, str], ...],
    outputs: tuple[Output, ...],
    keep: bool,
    page: bool,
    nodes: int,
    gpus: int | None,
    images: tuple[Path, ...],
    image_source: Literal["auto", "environment", "image"],
    sandbox: Literal["auto", "namespaces", "bare"],
    scheduler_name: tuple[str, ...],
    controller_config_file: Path | None,
    admin_in_pods: bool,
    progress: bool,
    verbose: bool,
    no_colour: bool,
) -> None:
    """Run a training job here, watch it, and end with its outcome.

    Starts a cluster in this process, creates the objects of the manifests (training jobs last),
    shows what happens and what the pods print, and ends the cluster. What pods wrote is kept for a
    day: traincrew runs. With --kubeconfig or --context, creates the objects on that cluster, shows
    the same, and starts nothing here.

    \b
    Exit code:
      0    every job succeeded
      N      a job failed: the exit code of its master, else of the pod that
             failed first, or 1
      1      an --output could not be saved
      2      a manifest or option cannot be used
      124    --timeout was reached
      128+N  ended by signal N, as 130 by Ctrl-C
    """  # noqa: D301 - click's mark for text it must not wrap
    # Over 60 lines: its parameters are the options of the command.
    import gc

    # Nothing that is loaded here is garbage; collecting would take a tenth of the start-up time.
    gc.disable()
    ctx.call_on_close(gc.enable)

    import asyncio

    from traincrew.cli.cluster.options import Options
    from traincrew.cli.manifest.documents import load
    from traincrew.cli.manifest.served import require_served

    paths = (*paths, *files)
    if not paths:
        raise BadInput("which manifest? traincrew run -f FILE")
    if kubeconfig or context:
        from click.core import ParameterSource

        from traincrew.cli.run.elsewhere import Ending, require_possible, run_elsewhere
        from traincrew.cli.watching.target import choose

        cluster = ["--kubeconfig", kubeconfig] if kubeconfig else []
        cluster += ["--context", context] if context else []
        sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
        require_possible(
            [name for name, at in sources.items() if at is not ParameterSource.DEFAULT]
        )
        work = run_elsewhere(
            load(paths),
            choose(kubeconfig, context),
            namespace,
            Ending(delete_on_interrupt, detach, cluster),
            timeout=timeout,
            scalings=scalings,
            verbose=verbose,
            no_colour=no_colour,
        )
        gc.enable()
        sys.exit(asyncio.run(work))
    if detach or delete_on_interrupt:
        raise BadInput(
            f"{'--detach' if detach else '--delete-on-interrupt'} is for a job on another cluster: "
            "give --kubeconfig or --context"
        )
    documents = load(paths)
    require_served(documents)
    require_free(volumes, documents)
    require_separate(outputs, volumes)
    if progress and (option := reports_elsewhere(volumes, dict(variables))):
        progress = _without_reports(ctx, option)
    options.read_accelerators(controller_config_file)
    chosen = Options(
        nodes=nodes,
        gpus=gpus,
        images=tuple(str(path.absolute()) for path in images),
        image_source=image_source,
        sandbox=sandbox,
        scheduler_names=scheduler_name,
        controller_config_file=options.absolute(controller_config_file),
        admin_in_pods=admin_in_pods,
        progress=progress,
        verbose=verbose,
    )
    from traincrew.cli.run.kept import Kept
    from traincrew.cli.run.session import Session
    from traincrew.cli.run.submit import jobs_among

    first = jobs_among(documents)[0]
    kept = Kept(f"{first.kind} {first.name}") if sandbox != "bare" else None
    results = Results(outputs, namespace or first.namespace, kept)
    session = Session(
        documents,
        chosen,
        namespace=namespace,
        timeout=timeout,
        scalings=scalings,
        pods=_pod_options(volumes, variables, results),
        results=results,
        keep=keep,
        page=page,
        verbose=verbose,
        no_colour=no_colour,
    )
    sys.exit(asyncio.run(session.run()))


def _without_reports(ctx: click.Context, option: str) -> Literal[False]:
    """Say that this run receives no reports of progress; refuse it if the user asks for them."""
    from click.core import ParameterSource

    from traincrew.cli.display.folding import say
    from traincrew.plan.shared.reporting import MOUNT

    if ctx.get_parameter_source("progress") is ParameterSource.COMMANDLINE:
        raise BadInput(
            f"{option} takes the place of what --progress needs ({MOUNT}, and the variables that "
            "name it): leave out one of them"
        )
    say(
        f"traincrew: {option} takes the place of what programs need to report their progress to "
        f"this run ({MOUNT}, and the variables that name it), so it receives no reports; "
        "--no-progress is without this message"
    )
    return False


def _pod_options(
    volumes: tuple[Volume, ...], variables: tuple[tuple[str, str], ...], results: Results
) -> PodOptions:
    from traincrew.local.node import HostMount, PodOptions

    return PodOptions(
        mounts=tuple(HostMount(each.source, each.target, each.read_only) for each in volumes),
        variables=dict(variables),
        host_directory=options.current_directory(),
        report=True,
        collect=results.collect,
        keep=results.keep,
        claims=results.claims,
        claims_namespace=results.namespace,
    )
