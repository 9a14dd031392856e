"""`traincrew up`: start a cluster with a background process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import click

from traincrew.cli import options
from traincrew.cli.cluster import daemon
from traincrew.cli.cluster.files import ClusterFiles, write_file
from traincrew.cli.cluster.gpus import warn_of_missing
from traincrew.cli.cluster.merging import merge, refresh, server_of
from traincrew.cli.cluster.options import Options
from traincrew.cli.cluster.selection import command_for, named, print_export
from traincrew.cli.display.folding import say
from traincrew.cli.errors import BadInput, CommandFailed


@click.command("up")
@named
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the cluster into this kubeconfig (other clusters in it stay).",
)
@options.cluster_options
@click.option("--no-operator", is_flag=True, help="Leave our operator out (CRDs are installed).")
@click.option("--foreground", is_flag=True, help="Serve in this process until Ctrl-C.")
@click.option("-v", "--verbose", is_flag=True, help="Log more (to the cluster's daemon.log).")
@click.pass_context
def up_command(  # noqa: PLR0917 - click passes by name
    ctx: click.Context,
    name: str,
    kubeconfig: Path | None,
    nodes: int,
    gpus: int | None,
    images: tuple[Path, ...],
    image_source: Literal["auto", "environment", "image"],
    sandbox: Literal["auto", "namespaces", "bare"],
    scheduler_name: tuple[str, ...],
    controller_config_file: Path | None,
    admin_in_pods: bool,
    progress: bool,
    no_operator: bool,
    foreground: bool,
    verbose: bool,
) -> None:
    """Start a cluster that stays until `traincrew down`.

    Prints one line for your shell, so this is all it takes to use kubectl:

        eval "$(traincrew up)"

    A cluster that is up already is left as it is; options that it does not have are an error.
    After a crash the cluster comes back with the same address, objects and running pods.

    A relative hostPath in a manifest is below the directory the cluster was started in.
    """
    # Over 60 lines: its parameters are the options of the command.
    if no_operator and controller_config_file is not None:
        raise BadInput(
            "--controller_config_file is for our operator, which --no-operator leaves out; give it"
            " to `traincrew operator`"
        )
    options.read_accelerators(controller_config_file)
    files = ClusterFiles(name)
    target = kubeconfig.absolute() if kubeconfig is not None else files.kubeconfig
    wanted = Options(
        nodes=nodes,
        gpus=gpus,
        images=tuple(str(path.absolute()) for path in images),
        image_source=image_source,
        sandbox=sandbox,
        scheduler_names=scheduler_name,
        controller_config_file=options.absolute(controller_config_file),
        admin_in_pods=admin_in_pods,
        operator=not no_operator,
        progress=progress,
        verbose=verbose,
        directory=str(options.current_directory()),
    )
    with files.locked():
        before = files.state().kind
        remembered = files.read_options()
        if before == "starting":  # its starter was killed before it was ready
            daemon.stop(files, keep_pods=True)
        if before == "running":
            if other := _differing(ctx, remembered or Options(), wanted):
                raise CommandFailed(
                    f"cluster {name!r} is up already with other options ({', '.join(other)}); "
                    f"`{command_for('down', name)}` first"
                )
        else:
            if remembered is not None and _all_default(ctx):
                wanted = remembered
            try:
                write_file(files.options, wanted)
                if text := warn_of_missing(wanted.gpus):
                    say(text)
                if foreground:
                    _foreground(files, wanted, target, kubeconfig is not None)
                    return
                server = server_of(files)
                record = daemon.spawn(files, say)
                refresh(files, server)
            except BaseException:
                if before == "absent":
                    _keep_log(files)
                raise
            how = {"crashed": "is back after a crash", "stopped": "is back"}.get(before, "is up")
            say(f"cluster {name!r} {how}: {_describe(wanted)} (process {record.pid})")
        if kubeconfig is not None:
            merge(files, target)
    print_export(target)


_PARAMETERS = {
    "nodes": "nodes",
    "gpus": "gpus",
    "images": "images",
    "image_source": "image_source",
    "sandbox": "sandbox",
    "scheduler_name": "scheduler_names",
    "controller_config_file": "controller_config_file",
    "admin_in_pods": "admin_in_pods",
    "no_operator": "operator",
    "progress": "progress",
    "verbose": "verbose",
}
"""Parameters of ``up``, and the attributes of `Options` that they set."""


def _differing(ctx: click.Context, has: Options, wanted: Options) -> list[str]:
    """Return the options on the command line that differ from those of a running cluster."""
    from click.core import ParameterSource

    return [
        "--" + parameter.replace("_", "-")
        for parameter, attribute in _PARAMETERS.items()
        if ctx.get_parameter_source(parameter) is not ParameterSource.DEFAULT
        and getattr(has, attribute) != getattr(wanted, attribute)
    ]


def _all_default(ctx: click.Context) -> bool:
    from click.core import ParameterSource

    return all(ctx.get_parameter_source(name) is ParameterSource.DEFAULT for name in _PARAMETERS)


def _describe(wanted: Options) -> str:
    nodes = f"{wanted.nodes} node" + ("s" if wanted.nodes != 1 else "")
    return nodes + ("" if wanted.operator else ", no operator")


def _keep_log(files: ClusterFiles) -> None:
    """Remove everything after a failed first start, except the log that the message refers to."""
    for path in files.directory.iterdir():
        if path.name not in {files.log.name, "lock"} and path.is_file():
            path.unlink(missing_ok=True)


def _foreground(files: ClusterFiles, wanted: Options, target: Path, users_own: bool) -> None:
    from traincrew.cli.cluster.server import serve
    from traincrew.engine.observability import configure_logging

    configure_logging("text", "debug" if wanted.verbose else "info")

    def ready() -> None:
        if users_own:
            merge(files, target)
        say(f"cluster {files.name!r} is up: {_describe(wanted)}; Ctrl-C ends it")
        print_export(target)

    def pull(image: str, message: str) -> None:
        say(f"image {image}: {message}")

    asyncio.run(serve(files, wanted, on_ready=ready, on_pull=pull))
