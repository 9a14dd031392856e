"""`traincrew list` on a cluster that it did not start."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.anycluster import Commands, commands, job, own_home
from traincrew.cli.cluster.files import ClusterFiles, State
from traincrew.cli.main import cli
from traincrew.cli.watching.kinds import ALL
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from traincrew.local.apiserver.http.faults import Fault, refuse

__all__ = ["commands", "own_home"]


async def test_jobs_with_phase_replicas_age_and_reason(commands: Commands) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    await cluster.create(job("digits", workers=2))
    await cluster.create(job("held", suspend=True))

    async def settled() -> bool:
        digits = (await cluster.job("digits")).get("status", {})
        held = (await cluster.job("held")).get("status", {})
        return (digits.get("workersReady"), held.get("phase")) == ("0/2", "Suspended")

    await cluster.until(settled)
    result = await commands("list")
    header, first, second = result.stdout.splitlines()
    assert header.split() == ["KIND", "NAME", "PHASE", "READY", "RESTARTS", "AGE", "REASON"]
    assert first.split()[:5] == ["ChainerJob", "digits", "Created", "0/3", "0"]
    assert "WaitingForWorkers: 0/2 workers ready" in first
    assert second.split()[:4] == ["ChainerJob", "held", "Suspended", "0/1"]

    document = json.loads((await commands("list", "-A", "-o", "json")).stdout)
    assert document["namespace"] is None
    assert document["kindsNotInstalled"] == [
        f"{each.resource.plural}.{each.resource.group}" for each in ALL if not each.is_needed
    ]
    (digits, _) = document["jobs"]
    assert digits["desired"] == 3
    assert digits["reason"] == "WaitingForWorkers"
    assert digits["createdAt"].endswith("Z")


async def test_how_much_is_done_of_jobs_that_report(commands: Commands) -> None:
    cluster = commands.cluster
    await cluster.create(job("digits"))
    await cluster.create(job("silent"))
    progress = {"percentage": 43, "estimatedRemainingSeconds": 55,
                "lastUpdateTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    await cluster.client.patch(
        cluster.kind_of("digits"),
        "digits",
        "default",
        patch={"status": {"progress": progress}},
        subresource="status",
    )
    header, first, second = (await commands("list")).stdout.splitlines()
    # Behind the columns that are always there, so that these stay where they are.
    assert header.split() == [
        "KIND",
        "NAME",
        "PHASE",
        "READY",
        "RESTARTS",
        "AGE",
        "PROGRESS",
        "REASON",
    ]
    assert first.split()[6] == "43%"
    assert second.split()[6] == "-"
    jobs = json.loads((await commands("list", "-o", "json")).stdout)["jobs"]
    assert [each["percentage"] for each in jobs] == [43, None]
    assert [each["remainingSeconds"] for each in jobs] == [55, None]


async def test_other_namespaces_are_shown_only_if_asked_for(commands: Commands) -> None:
    cluster = commands.cluster
    await cluster.client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    )
    document = job("there")
    document["metadata"] = {"name": "there", "namespace": "other"}
    await cluster.client.create(cluster.kind_of("there"), document, "other")
    result = await commands("list")
    assert "there is no job in namespace default" in result.stderr
    assert result.stdout == ""
    header, line = (await commands("list", "-A")).stdout.splitlines()
    assert header.split()[0] == "NAMESPACE"
    assert line.split()[:4] == ["other", "ChainerJob", "there", "Pending"]
    assert "there" in (await commands("list", "-n", "other")).stdout


async def test_a_kind_that_is_not_installed_is_left_out(commands: Commands) -> None:
    client = commands.cluster.client
    await commands.cluster.create(job("digits"))
    definitions = (await client.list(CUSTOM_RESOURCE_DEFINITIONS))["items"]
    names = [each["metadata"]["name"] for each in definitions]
    for name in names:
        if not name.startswith("chainerjobs"):
            await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)

    async def gone() -> bool:
        return len((await client.list(CUSTOM_RESOURCE_DEFINITIONS))["items"]) == 1

    await commands.cluster.until(gone)
    document = json.loads((await commands("list", "-o", "json")).stdout)
    assert [each["name"] for each in document["jobs"]] == ["digits"]
    assert "elasticjobs.elastic.pytorch.org" in document["kindsNotInstalled"]
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, "chainerjobs.kubeflow.org")

    async def none() -> bool:
        return not (await client.list(CUSTOM_RESOURCE_DEFINITIONS))["items"]

    await commands.cluster.until(none)
    result = await commands("list", code=1)
    assert "the cluster has no ChainerJob" in result.stderr
    assert "traincrew manifests | kubectl create -f -" in result.stderr


async def test_a_missing_right_is_named(commands: Commands) -> None:
    def fault(method: str, path: str, _agent: str) -> Fault | None:
        return refuse(403, "not yours") if "/elasticjobs" in path and method == "GET" else None

    commands.cluster.server.faults = fault
    result = await commands("list", code=1)
    assert (
        "the right to list elasticjobs.elastic.pytorch.org in namespace default is missing; "
        "to check: kubectl auth can-i list elasticjobs.elastic.pytorch.org -n default"
    ) in result.stderr
    assert "not yours" in result.stderr


async def test_many_jobs_come_in_pages(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traincrew.cli.watching.jobwatch.PAGE", 2)
    for number in range(5):
        await commands.cluster.create(job(f"digits-{number}"))
    lines = (await commands("list")).stdout.splitlines()
    assert [line.split()[1] for line in lines[1:]] == [f"digits-{number}" for number in range(5)]


@pytest.mark.parametrize("command", ["list", "ui"])
def test_without_any_cluster(own_home: Path, command: str) -> None:
    result = CliRunner().invoke(cli, [command])
    assert result.exit_code == 2
    assert "traincrew up" in result.stderr
    gone = own_home / "gone.yaml"
    gone.write_text(
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
    )
    result = CliRunner().invoke(cli, [command, "--kubeconfig", str(gone)])
    assert result.exit_code == 1
    assert "the cluster does not answer" in result.stderr


def test_options_that_exclude_each_other(own_home: Path) -> None:
    result = CliRunner().invoke(cli, ["list", "-A", "-n", "default"])
    assert result.exit_code == 2
    assert "choose one of them" in result.stderr


@pytest.mark.parametrize("words", [["list"], ["logs", "a"], ["why", "a"], ["ui"], ["watch", "a"]])
def test_a_cluster_by_its_name(words: list[str], own_home: Path) -> None:
    """Every command that looks at a cluster takes the name that `traincrew up` gave it."""

    def said(*more: str) -> str:
        result = CliRunner().invoke(cli, [*words, *more])
        assert isinstance(result.exception, SystemExit)
        assert result.exit_code == 2
        return result.output

    assert "there is no cluster 'mine' of this user; there is none" in said("--name", "mine")
    assert "choose one of them" in said("--name", "mine", "--context", "c")
    assert "cannot be a cluster's name" in said("--name", "../mine")
    stopped = own_home / "home" / "clusters" / "mine" / "state.db"
    stopped.parent.mkdir(parents=True, mode=0o700)
    stopped.touch()
    assert "cluster 'mine' is stopped; `traincrew up --name mine` starts it" in said(
        "--name", "mine"
    )
    assert "there is no cluster 'other' of this user; there are: 'mine'" in said("--name", "other")


async def test_jobs_of_a_named_cluster(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    await commands.cluster.create(job("digits"))
    files = ClusterFiles("mine")
    files.make()
    files.kubeconfig.write_text(commands.kubeconfig.read_text())
    monkeypatch.setattr(ClusterFiles, "state", lambda _: State("running"))
    result = await asyncio.to_thread(CliRunner().invoke, cli, ["list", "--name", "mine"])
    assert "ChainerJob  digits" in result.stdout
