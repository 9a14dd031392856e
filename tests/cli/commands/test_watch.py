"""`traincrew watch`: the view of a job that exists already, on a cluster of somebody else."""

import asyncio
import json

import pytest

from cli.anycluster import (
    DEADLINE,
    Commands,
    Embedded,
    commands,
    embedded,
    job,
    own_home,
    script,
)
from traincrew.cli.errors import CommandFailed
from traincrew.cli.watching.target import Target
from traincrew.cli.watching.watch import watch
from traincrew.engine.resources import EVENTS
from traincrew.local.apiserver.http.faults import Fault, refuse

__all__ = ["commands", "embedded", "own_home"]


def test_every_change_as_a_line_of_json(embedded: Embedded) -> None:
    embedded.create(script("plain", "sleep 1"))
    lines = embedded("watch", "plain", "-o", "json").stdout.splitlines()
    models = [json.loads(line) for line in lines]
    assert models[-1]["job"]["phase"] == "Succeeded"
    (role,) = models[-1]["roles"]
    assert role["name"] == "master"
    (pod,) = role["pods"]
    assert (pod["exitCode"], pod["rank"], pod["attempt"]) == (0, 0, 1)
    assert pod["startedAt"] <= pod["endedAt"]
    assert models[0]["job"]["name"] == "plain"


AGENT = "traincrew-watch"


async def watching(commands: Commands, word: str) -> int:
    """Watch in this process."""
    return await watch(
        Target(commands.cluster.config, "test"),
        word,
        "default",
        timeout=DEADLINE,
        tail=10,
        verbose=False,
        no_colour=True,
        as_json=False,
    )


async def test_a_missing_right_to_read_the_job_is_named(commands: Commands) -> None:
    await commands.cluster.create(job("digits"))
    commands.refuse(AGENT, "/chainerjobs?")
    with pytest.raises(CommandFailed) as failed:
        await watching(commands, "digits")
    assert (
        "the right to watch chainerjobs.kubeflow.org in namespace default is missing; to check: "
        "kubectl auth can-i watch chainerjobs.kubeflow.org -n default"
    ) in failed.value.message
    commands.refuse(AGENT, "/chainerjobs/")
    with pytest.raises(CommandFailed, match=r"the right to get chainerjobs\.kubeflow\.org"):
        await watching(commands, "chainerjob/digits")


async def test_other_rights_are_missed_but_not_needed(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    await cluster.create(job("digits"))
    commands.refuse(AGENT, "/events", "/jobs", "/statefulsets", "/log")
    task = asyncio.create_task(watching(commands, "digits"))
    master = await cluster.run_master()
    await cluster.until_phase("digits", "Running")
    await cluster.end_pod(master, 0)
    async with asyncio.timeout(DEADLINE):
        assert await task == 0
    output = capsys.readouterr().out
    assert "the right to watch events in namespace default is missing" in output
    assert "the right to watch jobs.batch in namespace default is missing" in output
    assert "the right to get pods/log in namespace default is missing" in output
    assert "ChainerJob digits: Succeeded" in output


async def test_a_connection_that_breaks_is_reported_once_and_retried(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = commands.cluster
    broken = asyncio.Event()
    failures = []
    cut = set()

    def fault(_method: str, path: str, agent: str) -> Fault | None:
        if agent == AGENT and broken.is_set() and "watch=" in path:
            failures.append(path)
            return refuse(503, "the server is away")
        resource = path.partition("?")[0]
        if agent == AGENT and "watch=" in path and resource not in cut:
            cut.add(resource)  # once: what breaks twice in a row is an outage of its own
            return Fault(cut_after_bytes=3000)
        return None

    await cluster.start_operator()
    await cluster.create(job("digits"))
    cluster.server.faults = fault
    task = asyncio.create_task(watching(commands, "digits"))
    master = await cluster.run_master()
    await cluster.until_phase("digits", "Running")
    broken.set()

    async def failed_often() -> bool:
        return len(failures) > 5

    await cluster.until(failed_often)
    cluster.server.faults = None
    await cluster.end_pod(master, 0)
    async with asyncio.timeout(DEADLINE):
        assert await task == 0
    output = capsys.readouterr().out
    assert output.count("the cluster does not answer; trying again: the server is away") == 1
    assert output.count("the cluster answers again") == 1


async def test_events_about_an_earlier_job_of_the_name_are_not_shown(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    created = await cluster.create(job("digits"))
    for number, uid in enumerate((created["metadata"]["uid"], "of-an-earlier-one")):
        about = {"kind": "ChainerJob", "namespace": "default", "name": "digits", "uid": uid}
        event = {
            "metadata": {"name": f"digits.{number}", "namespace": "default"},
            "involvedObject": about,
            "type": "Warning",
            "reason": "Trouble",
            "message": f"trouble {number}",
        }
        await cluster.client.create(EVENTS, event, "default")
    task = asyncio.create_task(watching(commands, "digits"))
    master = await cluster.run_master()
    await cluster.until_phase("digits", "Running")
    await cluster.end_pod(master, 0)
    assert await task == 0
    output = capsys.readouterr().out
    assert "warning: chainerjob digits: trouble 0 (Trouble)" in output
    assert "trouble 1" not in output
