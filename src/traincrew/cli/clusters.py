"""`traincrew up`, `down`, `restart` and `status`: clusters that stay."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from traincrew.cli import daemon, options
from traincrew.cli.daemon import ClusterFiles, Options
from traincrew.cli.main import CommandFailed

if TYPE_CHECKING:
    from traincrew.cli.daemon import Record

STATUS_SECONDS = 5.0


def say(text: str) -> None:
    """Tell a person something that is not the answer: standard error."""
    click.echo(text, err=True)


def _merged_files(files: ClusterFiles) -> list[str]:
    try:
        return list(json.loads(files.merged.read_text()))
    except (OSError, ValueError):
        return []


def _merge(files: ClusterFiles, path: Path) -> None:
    import yaml

    from traincrew.cli.kubeconfig import context_name, merge_into

    document = yaml.safe_load(files.kubeconfig.read_text())
    merge_into(path, document, context_name(files.name))
    merged = _merged_files(files)
    if str(path) not in merged:
        daemon.write_file(files.merged, [*merged, str(path)])


def _unmerge(files: ClusterFiles) -> None:
    from traincrew.cli.kubeconfig import context_name, remove_from

    merged = _merged_files(files)
    if not merged:
        return
    import yaml

    try:
        document = yaml.safe_load(files.kubeconfig.read_text())
        server = document["clusters"][0]["cluster"]["server"]
    except (OSError, yaml.YAMLError, LookupError, TypeError):
        return
    for path in merged:
        remove_from(Path(path), context_name(files.name), server)


@click.command("up")
@click.option("--name", default=daemon.DEFAULT_NAME, show_default=True, help="Which cluster.")
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
    sandbox: Literal["auto", "namespaces", "bare"],
    no_operator: bool,
    foreground: bool,
    verbose: bool,
) -> None:
    """Start a cluster that stays until `traincrew down`.

    Prints one line for your shell, so this is all it takes to use kubectl:

        eval "$(traincrew up)"

    A cluster that is up already is left as it is. After a crash the cluster comes back with the
    same address, objects and running pods.
    """
    files = ClusterFiles(name)
    target = kubeconfig.absolute() if kubeconfig is not None else files.kubeconfig
    wanted = Options(
        nodes=nodes,
        gpus=gpus,
        images=tuple(str(path.absolute()) for path in images),
        sandbox=sandbox,
        operator=not no_operator,
        verbose=verbose,
    )
    with files.locked():
        before = files.state().kind
        remembered = files.read_options()
        if before == "starting":  # its starter was killed half way
            daemon.stop(files, keep_pods=True)
        if before == "running":
            if not _all_default(ctx) and remembered != wanted:
                say(f"cluster {name!r} is up already with other options; `traincrew down` first")
        else:
            if remembered is not None and _all_default(ctx):
                wanted = remembered
            try:
                daemon.write_file(files.options, wanted)
                if foreground:
                    _foreground(files, wanted, target, kubeconfig is not None)
                    return
                record = daemon.spawn(files, say)
            except BaseException:
                if before == "absent":
                    _keep_log(files)
                raise
            how = {"crashed": "is back after a crash", "stopped": "is back"}.get(before, "is up")
            say(f"cluster {name!r} {how}: {_describe(wanted)} (process {record.pid})")
        if kubeconfig is not None:
            _merge(files, target)
    _print_export(target)


def _all_default(ctx: click.Context) -> bool:
    from click.core import ParameterSource

    names = ("nodes", "gpus", "images", "sandbox", "no_operator", "verbose")
    return all(ctx.get_parameter_source(name) is ParameterSource.DEFAULT for name in names)


def _describe(wanted: Options) -> str:
    nodes = f"{wanted.nodes} node" + ("s" if wanted.nodes != 1 else "")
    return nodes + ("" if wanted.operator else ", no operator")


def _print_export(target: Path) -> None:
    click.echo(f"export KUBECONFIG={shlex.quote(str(target))}")


def _keep_log(files: ClusterFiles) -> None:
    """After a failed first start nothing stays but the log the message points to."""
    for path in files.directory.iterdir():
        if path.name not in {files.log.name, "lock"} and path.is_file():
            path.unlink(missing_ok=True)


def _foreground(files: ClusterFiles, wanted: Options, target: Path, merge: bool) -> None:
    from traincrew.cli.server import serve
    from traincrew.engine.logs import configure_logging

    configure_logging("text", "debug" if wanted.verbose else "info")

    def ready() -> None:
        if merge:
            _merge(files, target)
        say(f"cluster {files.name!r} is up: {_describe(wanted)}; Ctrl-C ends it")
        _print_export(target)

    def pull(image: str, message: str) -> None:
        say(f"image {image}: {message}")

    asyncio.run(serve(files, wanted, on_ready=ready, on_pull=pull))


@click.command("down")
@click.option("--name", default=daemon.DEFAULT_NAME, show_default=True, help="Which cluster.")
@click.option("--all", "everything", is_flag=True, help="Every cluster of this user.")
@click.option("--keep-data", is_flag=True, help="Keep the objects for the next `up`.")
def down_command(name: str, everything: bool, keep_data: bool) -> None:
    """End a cluster: its pods, its process, and everything it left behind.

    With --keep-data the objects stay, and `traincrew up` starts their pods again.
    """
    clusters = daemon.all_clusters() if everything else [ClusterFiles(name)]
    if not any(files.directory.exists() for files in clusters):
        say("there is no cluster to end" if everything else f"there is no cluster {name!r}")
        return
    for files in clusters:
        with files.locked():
            _down(files, keep_data)


def _down(files: ClusterFiles, keep_data: bool) -> None:
    state = files.state()
    daemon.stop(files, keep_pods=False)
    if state.kind == "crashed" or (state.kind != "absent" and files.record.exists()):
        _end_pods(files)
    files.record.unlink(missing_ok=True)
    if keep_data:
        say(f"cluster {files.name!r} is down; its data stays in {files.directory}")
        return
    _unmerge(files)
    files.remove()
    say(f"cluster {files.name!r} is down, nothing of it is left")


def _end_pods(files: ClusterFiles) -> None:
    """End the pods of a cluster whose process is no longer there."""
    from traincrew.cli.embedded import Embedded

    remembered = files.read_options() or Options()

    async def adopt_and_end() -> None:
        import msgspec

        quiet = msgspec.structs.replace(remembered, operator=False)
        embedded = Embedded(quiet, files.directory)
        await embedded.start()
        await embedded.stop(keep_pods=False)

    asyncio.run(adopt_and_end())


@click.command("restart")
@click.option("--name", default=daemon.DEFAULT_NAME, show_default=True, help="Which cluster.")
def restart_command(name: str) -> None:
    """Restart a cluster's control plane; pods keep running meanwhile."""
    files = ClusterFiles(name)
    if files.state().kind == "absent":
        raise CommandFailed(f"there is no cluster {name!r}; `traincrew up` starts one")
    with files.locked():
        daemon.stop(files, keep_pods=True)
        record = daemon.spawn(files, say)
    say(f"cluster {name!r} is back (process {record.pid})")
    _print_export(files.kubeconfig)


@click.command("status")
@click.option("--name", help="Only this cluster.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def status_command(name: str | None, output: str) -> None:
    """Show the clusters of this user and what runs in them.

    Exit code 0 if the cluster (or, without --name, at least one) is up and answers, else 1.
    """
    clusters = [ClusterFiles(name)] if name is not None else daemon.all_clusters()
    reports = [_report(files) for files in clusters]
    if output == "json":
        click.echo(json.dumps(reports, indent=2))
    else:
        _print_reports(reports, name)
    if not any(report["state"] == "running" for report in reports):
        raise SystemExit(1)


def _print_reports(reports: list[dict[str, Any]], name: str | None) -> None:
    shown = [report for report in reports if report["state"] != "absent"]
    if not shown:
        click.echo(f"there is no cluster {name!r}" if name else "there is no cluster")
        click.echo("`traincrew up` starts one")
    for report in shown:
        click.echo(f"cluster {report['name']}: {report['state']}")
        for key in ("problem", "server", "kubeconfig", "process", "log"):
            if report.get(key):
                click.echo(f"  {key + ':':<12}{report[key]}")
        if report["state"] == "running":
            click.echo(f"  {'nodes:':<12}{', '.join(report['nodes'])}")
            jobs = [f"{job['namespace']}/{job['name']} {job['phase']}" for job in report["jobs"]]
            click.echo(f"  {'jobs:':<12}{', '.join(jobs) or 'none'}")
            pods = [f"{count} {phase}" for phase, count in report["pods"].items()]
            click.echo(f"  {'pods:':<12}{', '.join(pods) or 'none'}")


def _report(files: ClusterFiles) -> dict[str, Any]:
    state = files.state()
    report: dict[str, Any] = {"name": files.name, "state": state.kind}
    if state.kind == "absent":
        return report
    report |= {"directory": str(files.directory), "log": str(files.log)}
    if state.kind == "crashed":
        report["problem"] = "its process is gone; `traincrew up` brings it back, pods included"
    elif state.kind == "stopped":
        report["problem"] = "it is not running; `traincrew up` starts it again"
    if state.record is None or state.kind != "running":
        return report
    report |= {"process": state.record.pid, "kubeconfig": str(files.kubeconfig)}
    try:
        report |= asyncio.run(asyncio.wait_for(_ask(state.record), STATUS_SECONDS))
    except (OSError, TimeoutError) as error:
        report["state"] = "not answering"
        report["problem"] = str(error) or f"no answer within {STATUS_SECONDS:.0f} s"
    return report


async def _ask(record: Record) -> dict[str, Any]:
    from traincrew.cli.manifest import training_resources
    from traincrew.engine.client import Client
    from traincrew.engine.config import ClientConfig
    from traincrew.engine.errors import ApiError
    from traincrew.engine.resources import NODES, PODS

    async with Client(ClientConfig(record.server)) as client:
        try:
            await client.request("GET", "/readyz")
            nodes = (await client.list(NODES))["items"]
            pods = (await client.list(PODS))["items"]
            jobs = []
            for resource in training_resources():
                jobs += [
                    {
                        "kind": resource.kind,
                        "namespace": job["metadata"]["namespace"],
                        "name": job["metadata"]["name"],
                        "phase": job.get("status", {}).get("phase") or "Pending",
                    }
                    for job in (await client.list(resource))["items"]
                ]
        except ApiError as error:
            raise OSError(error.message) from error
    phases: dict[str, int] = {}
    for pod in pods:
        phase = pod.get("status", {}).get("phase", "Pending")
        phases[phase] = phases.get(phase, 0) + 1
    return {
        "server": _without_secret(record.server),
        "nodes": [node["metadata"]["name"] for node in nodes],
        "jobs": jobs,
        "pods": phases,
    }


def _without_secret(server: str) -> str:
    """The address without its last part, which is a credential."""
    return server.rpartition("/")[0] if server.count("/") > 2 else server
