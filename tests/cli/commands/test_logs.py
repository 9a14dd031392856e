"""`traincrew logs`: all ranks of a job, through restarts."""

import asyncio
from typing import Any

import pytest

from cli.anycluster import (
    DEADLINE,
    Commands,
    Embedded,
    commands,
    embedded,
    job,
    own_home,
)
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.cli.watching.joblogs import Choice, show
from traincrew.cli.watching.target import Target

__all__ = ["commands", "embedded", "own_home"]

AGENT = "traincrew-logs"


def test_a_job_without_pods_says_why(embedded: Embedded) -> None:
    embedded.create(job("held", suspend=True))
    result = embedded("logs", "held")
    assert result.stdout == ""
    assert "ChainerJob held has no logs, because it has no pods now" in result.stderr


async def test_a_job_whose_pods_have_not_run_says_why(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    await cluster.create(job("digits", workers=1))
    await cluster.until_pods("workerset", 1)
    assert await logs(commands) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("traincrew: ChainerJob digits has no logs, because no container of")
    assert "has run. ChainerJob digits is starting: 0/1 workers ready" in said.err
    assert "traincrew: what to do: wait a moment" in said.err


async def logs(commands: Commands, **choice: Any) -> int:
    target = Target(commands.cluster.config, "test")
    return await show(target, "digits", "default", Choice(**choice), no_colour=True)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/pods?", "the right to list pods in namespace default is missing"),
        ("/log?", "to check: kubectl auth can-i get pods --subresource=log -n default"),
    ],
)
@pytest.mark.parametrize("follow", [False, True])
async def test_a_missing_right_is_named(
    commands: Commands, path: str, said: str, follow: bool
) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    await cluster.create(job("digits"))
    await cluster.run_master()

    commands.refuse(AGENT, path)
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(CommandFailed) as failed:
            await logs(commands, follow=follow)
    assert said in failed.value.message


async def test_a_log_that_cannot_be_read_is_said(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    await cluster.create(job("digits"))
    master = await cluster.run_master()

    commands.refuse(AGENT, "/log?", code=500, message="node is away")
    assert await logs(commands) == 1
    name = master["metadata"]["name"]
    assert f"no log of pod {name}: node is away" in capsys.readouterr().err
    with pytest.raises(BadInput):
        await logs(commands, role="nobody")


async def test_following_ends_when_the_job_is_deleted(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    await cluster.create(job("digits"))
    await cluster.run_master()
    following = asyncio.Event()

    def observe(_method: str, path: str, agent: str) -> None:
        if agent == AGENT and "watch=" in path:
            following.set()

    cluster.server.faults = observe
    task = asyncio.create_task(logs(commands, follow=True))
    await following.wait()
    await cluster.client.delete(cluster.kind_of("digits"), "digits")
    async with asyncio.timeout(DEADLINE):
        await task
    assert "Traceback" not in capsys.readouterr().err
