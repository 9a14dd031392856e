"""``python -m hack.cluster``: start, stop and break a real cluster on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from hack.cluster import binaries, gangs, kueue
from hack.cluster.cluster import Options, RealCluster, running
from hack.cluster.preflight import Unavailable, missing
from hack.cluster.processes import NotReady


def _report(line: str) -> None:
    click.echo(line, err=True)


_name = click.option("--name", default="default", show_default=True, help="Which cluster.")


@click.group()
def main() -> None:
    """A real Kubernetes on this machine, from Go modules and Debian packages. Needs root."""


@main.command()
@_name
@click.option("--nodes", default=2, show_default=True, type=click.IntRange(0, 9))
@click.option("--image", "images", multiple=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--release",
    default="1.36",
    show_default=True,
    type=click.Choice(list(binaries.RELEASES)),
    help="Release of the control plane; nodes are 1.36.",
)
@click.option(
    "--gangs",
    "engine",
    default="",
    type=click.Choice(["", *gangs.ENGINES]),
    help="Scheduler of gangs. kubernetes: PodGroups of scheduling.k8s.io, with the feature gates"
    " GenericWorkload and, in 1.36, GangScheduling. coscheduling: scheduler-plugins, for pods with"
    f" schedulerName {gangs.SCHEDULER}. kai: KAI Scheduler, for pods with schedulerName"
    f" {gangs.KAI_SCHEDULER}.",
)
@click.option("--kueue", "queues", is_flag=True, help="Install Kueue, which needs a node.")
def up(  # noqa: PLR0917 - one for each option
    name: str, nodes: int, images: tuple[Path, ...], release: str, engine: str, queues: bool
) -> None:
    """Build what is missing, start a cluster, and print how to connect to it."""
    if queues and not nodes:
        raise click.UsageError("--kueue: needs --nodes=1 or more, because it runs in a pod")
    options = Options(name, nodes, release=release, gangs=engine)
    cluster = RealCluster(options, _report)
    cluster.start()
    cluster.load_images(images)
    if queues:
        kueue.install(cluster, _report)
    _report(f"logs: {cluster.logs}")
    click.echo(f"export KUBECONFIG={cluster.kubeconfig}")


@main.command()
@_name
def down(name: str) -> None:
    """Stop a cluster and remove everything of it."""
    RealCluster.attach(name).stop()


@main.command()
def check() -> None:
    """Report what is missing on this machine."""
    lacking = missing()
    for line in lacking:
        click.echo(f"missing: {line}")
    if not lacking:
        wait = sum(binaries.PROGRAMS[name].seconds for name in _unbuilt())
        click.echo("a cluster can run here" + (f"; building takes about {wait} s" if wait else ""))
    sys.exit(1 if lacking else 0)


@main.command()
@click.argument("programs", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Also what only the suites use.")
def build(programs: tuple[str, ...], everything: bool) -> None:
    """Build the named programs, by default those of a cluster."""
    usual = tuple(binaries.PROGRAMS) if everything else binaries.CONTROL_PLANE + binaries.NODE
    for program in programs or usual:
        if program not in binaries.PROGRAMS:
            known = ", ".join(binaries.PROGRAMS)
            raise click.UsageError(f"no program {program!r}; there are {known}")
        click.echo(binaries.build(program, _report))


@main.command()
def status() -> None:
    """List the clusters of this machine and the processes of each."""
    for cluster in running():
        click.echo(f"{cluster.options.name}  {cluster.url}  {cluster.kubeconfig}")
        processes = [cluster.component(name) for name in cluster.control_plane.components()]
        for node in cluster.nodes:
            processes += [node.process(name) for name in ("containerd", "kubelet", "kube-proxy")]
        for process in processes:
            click.echo(f"  {process.name:26} {process.pid or 'not running'}")


@main.command()
@_name
def kubeconfig(name: str) -> None:
    """Print the path of the administrator's kubeconfig."""
    click.echo(RealCluster.attach(name).kubeconfig)


@main.command()
@_name
@click.argument("images", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def load(name: str, images: tuple[Path, ...]) -> None:
    """Import image archives into every node."""
    RealCluster.attach(name).load_images(images)


def _unbuilt() -> list[str]:
    return binaries.unbuilt(binaries.CONTROL_PLANE + binaries.NODE)


if __name__ == "__main__":
    try:
        main()
    except (NotReady, Unavailable, binaries.BuildFailed, ValueError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
