"""`traincrew logs`: all ranks of a job, through restarts."""

import asyncio
import signal
from pathlib import Path
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
    read_until,
    script,
)
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.cli.watching.joblogs import Choice, show
from traincrew.cli.watching.target import Target

__all__ = ["commands", "embedded", "own_home"]

AGENT = "traincrew-logs"

WORKER = """
echo first of $HOSTNAME
[ -e /kept/$HOSTNAME ] && echo second of $HOSTNAME && exec sleep 600
touch /kept/$HOSTNAME
until [ -e /kept/go ]; do sleep 0.05; done
exit 1
"""


def with_workers(name: str, directory: Path) -> dict[str, Any]:
    """A job whose two workers restart once, when there is a file `go` in the directory."""
    document = script(name, "echo master; sleep 600", 2)
    container = {
        "name": "chainer",
        "image": "busybox:1",
        "command": ["sh", "-c", WORKER],
        "volumeMounts": [{"name": "kept", "mountPath": "/kept"}],
    }
    volumes = [{"name": "kept", "hostPath": {"path": str(directory)}}]
    template = {"spec": {"containers": [container], "volumes": volumes}}
    document["spec"]["workerSets"]["ws0"]["template"] = template
    return document


def texts(output: str) -> list[str]:
    return [line.partition(" | ")[2] for line in output.splitlines()]


def test_all_ranks_through_a_restart(embedded: Embedded, tmp_path: Path) -> None:
    embedded.create(with_workers("ranks", tmp_path))
    with embedded.start("logs", "-f", "ranks") as process:
        shown = ""
        for word in ("first", "second"):
            wanted = {f"{word} of ranks-workerset-ws0-{rank}" for rank in (0, 1)}
            while not wanted <= set(texts(shown)):
                shown += read_until(process, "| ")
            (tmp_path / "go").touch()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert errors == ""
    lines = texts(shown)
    for rank in (0, 1):
        pod = f"ranks-workerset-ws0-{rank}"
        # Once before the restart, once after it.
        assert [line for line in lines if line.endswith(pod)] == [
            f"first of {pod}",
            f"first of {pod}",
            f"second of {pod}",
        ]
    assert all(line.startswith("ranks-") for line in shown.splitlines())

    without = embedded("logs", "ranks", "--previous", "--role", "master")
    assert without.stdout == ""
    assert without.stderr == "traincrew: no container of ChainerJob ranks has an earlier log\n"
    previous = embedded("logs", "ranks", "--previous").stdout
    assert sorted(texts(previous)) == [f"first of ranks-workerset-ws0-{rank}" for rank in (0, 1)]
    one = embedded("logs", "ranks", "--role", "WS0", "--rank", "1").stdout
    assert texts(one) == ["first of ranks-workerset-ws0-1", "second of ranks-workerset-ws0-1"]
    last = embedded("logs", "ranks", "--role", "ws0", "--tail", "1", "--timestamps").stdout
    stamps = [line.partition(" ")[0] for line in texts(last)]
    assert len(stamps) == 2
    assert stamps == sorted(stamps)
    assert all(stamp.endswith("Z") for stamp in stamps)
    result = embedded("logs", "ranks", "--role", "server", code=2)
    assert "--role server: ChainerJob ranks has master, ws0" in result.stderr
    result = embedded("logs", "ranks", "--rank", "7", code=2)
    assert "has no pod of this rank now" in result.stderr


def test_following_ends_with_the_job_and_cleans_what_it_prints(embedded: Embedded) -> None:
    text = r"printf 'a\033[2Jb\033[31mred\r\n'; sleep 1; printf 'half'; sleep 0.5; printf ' done'"
    embedded.create(script("clean", text))
    result = embedded("logs", "clean", "--follow")
    assert texts(result.stdout) == ["abred", "half done"]
    assert "\x1b" not in result.stdout
    assert texts(embedded("logs", "clean").stdout) == ["abred", "half done"]
    assert texts(embedded("logs", "clean", "--since", "1h").stdout) == ["abred", "half done"]
    result = embedded("logs", "clean", "-f", "-p", code=2)
    assert "choose one" in result.stderr


def test_a_job_without_pods_says_so(embedded: Embedded) -> None:
    embedded.create(job("held", suspend=True))
    result = embedded("logs", "held")
    assert result.stdout == ""
    assert "ChainerJob held has no pods now" in result.stderr


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
