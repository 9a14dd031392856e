"""`traincrew status`: list clusters, and what runs in them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from traincrew.cli.cluster.files import DEFAULT_NAME, ClusterFiles, all_clusters
from traincrew.cli.cluster.selection import command_for, complete_cluster

STATUS_SECONDS = 5.0


@click.command("status")
@click.option("--name", help="Only this cluster.", shell_complete=complete_cluster)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def status_command(name: str | None, output: str) -> None:
    """Show the clusters of this user and what runs in them.

    Exit code 0 if the cluster (or, without --name, at least one) is up and answers, else 1.
    """
    clusters = [ClusterFiles(name)] if name is not None else all_clusters()
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
        click.echo(f"`{command_for('up', name or DEFAULT_NAME)}` starts one")
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
        up = command_for("up", files.name)
        report["problem"] = f"its process is gone; `{up}` brings it back, pods included"
    elif state.kind == "stopped":
        up = command_for("up", files.name)
        report["problem"] = f"it is not running; `{up}` starts it again"
    if state.record is None or state.kind != "running":
        return report
    report |= {"process": state.record.pid, "kubeconfig": str(files.kubeconfig)}
    try:
        report |= asyncio.run(asyncio.wait_for(_ask(files), STATUS_SECONDS))
        report["server"] = state.record.server
    except (OSError, TimeoutError) as error:
        report["state"] = "not answering"
        report["problem"] = str(error) or f"no answer within {STATUS_SECONDS:.0f} s"
    return report


async def _ask(files: ClusterFiles) -> dict[str, Any]:
    from traincrew.cli.display.states import NOT_SEEN
    from traincrew.cli.manifest.documents import training_resources
    from traincrew.engine.client import Client
    from traincrew.engine.config import load_config
    from traincrew.engine.errors import ApiError
    from traincrew.engine.resources import NODES, PODS

    async with Client(load_config(str(files.kubeconfig))) as client:
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
                        "phase": job.get("status", {}).get("phase") or NOT_SEEN,
                    }
                    for job in (await client.list(resource))["items"]
                ]
        except ApiError as error:
            raise OSError(error.message) from error
    phases: dict[str, int] = {}
    for pod in pods:
        phase = _phase(pod)
        phases[phase] = phases.get(phase, 0) + 1
    return {
        "nodes": [node["metadata"]["name"] for node in nodes],
        "jobs": jobs,
        "pods": phases,
    }


def _phase(pod: dict[str, Any]) -> str:
    """Return the phase of a pod; ``Terminating``, as kubectl calls it, while it is being ended."""
    phase: str = pod.get("status", {}).get("phase", "Pending")
    if "deletionTimestamp" in pod["metadata"] and phase not in {"Succeeded", "Failed"}:
        return "Terminating"
    return phase
