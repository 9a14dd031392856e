"""`traincrew why` on a cluster that it did not start; situations made for real: suites/cli."""

import pytest

from chainerjobs import IMAGE
from cli.anycluster import Commands, commands, job, own_home
from harness import ELASTIC_JOBS
from traincrew.local.apiserver.http.faults import Fault, refuse

__all__ = ["commands", "own_home"]


async def test_without_an_operator(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    await commands.cluster.create(job("digits"))
    result = await commands("why", "digits")
    assert "no operator has seen it yet" in result.stdout
    monkeypatch.setattr("traincrew.cli.jobview.why.choosing.SEEN_SECONDS", 0.0)
    result = await commands("why", "digits")
    assert result.stdout.startswith("No operator has seen ChainerJob digits")
    assert "traincrew manifests | kubectl create -f -" in result.stdout


async def test_workers_at_the_rendezvous(commands: Commands) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    template = {"spec": {"containers": [{"name": "elasticjob-worker", "image": IMAGE}]}}
    await cluster.create(
        {
            "apiVersion": ELASTIC_JOBS.api_version,
            "kind": "ElasticJob",
            "metadata": {"name": "digits"},
            "spec": {
                "minReplicas": 3,
                "maxReplicas": 3,
                "replicaSpecs": {"Worker": {"replicas": 3, "template": template}},
            },
        }
    )
    pods = await cluster.until_members("digits", 3)
    await cluster.run_pod(pods[0])
    await cluster.until_phase("digits", "Running")
    result = await commands("why", "elasticjob/digits")
    assert result.stdout.startswith("ElasticJob digits ")


async def test_logs_of_a_running_job_that_cannot_be_read(commands: Commands) -> None:
    """Nothing is said of its output; a right that is missing is named."""
    cluster = commands.cluster
    await cluster.start_operator()
    await cluster.create(job("digits"))
    await cluster.run_master()
    await cluster.until_phase("digits", "Running")
    for code in (500, 404):
        commands.refuse("traincrew-why", "/log?", code=code, message="the node is away")
        result = await commands("why", "digits")
        assert result.stdout.startswith("ChainerJob digits is running")
        assert result.stderr == ""
    commands.refuse("traincrew-why", "/log?")
    result = await commands("why", "digits")
    assert result.stdout.startswith("ChainerJob digits is running")
    assert "the right to get pods/log in namespace default is missing" in result.stderr


async def test_rights_that_are_missing_are_named(commands: Commands) -> None:
    cluster = commands.cluster
    await cluster.create(job("digits"))
    hidden: tuple[str, ...] = ("/nodes", "/resourcequotas", "/events")

    def fault(_method: str, path: str, agent: str) -> Fault | None:
        refused = agent == "traincrew-why" and any(part in path for part in hidden)
        return refuse(403, "no") if refused else None

    cluster.server.faults = fault
    result = await commands("why", "digits")
    assert "ChainerJob digits was created" in result.stdout
    for words in (
        "the right to list nodes is missing; to check: kubectl auth can-i list nodes",
        "the right to list resourcequotas in namespace default is missing",
        "the right to list events in namespace default is missing",
    ):
        assert words in result.stderr
    hidden = ("/pods",)
    result = await commands("why", "digits")
    assert "ChainerJob digits was created" in result.stdout
    assert "the right to list pods in namespace default is missing" in result.stderr
