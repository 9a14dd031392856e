"""Ephemeral containers, which `kubectl debug` adds to a running pod."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import (
    World,
    condition,
    control_plane,
    needs_own_proc,
    node_world,
    running_node,
    shell,
)
from local.node.test_attach import Client
from local.node.test_running import Streams, execute
from traincrew.engine.resources import EVENTS, PODS
from traincrew.local.node.records.record import PodRecord, Terminated
from traincrew.local.node.records.status import pod_status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NOW = "2026-01-01T00:00:00Z"
SLEEP = "exec sleep 1000"
# Ends at once on SIGTERM, also as process 1 of its PID namespace.
ENDS_ON_SIGTERM = "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node") as world:
        yield world


async def debug(world: World, script: str, name: str = "debugger", **more: Any) -> None:
    """Add an ephemeral container, as `kubectl debug` does."""
    added = {"spec": {"ephemeralContainers": [shell(name, script, **more)]}}
    await world.client.patch(
        PODS, "p", "default", patch=added, kind="strategic", subresource="ephemeralcontainers"
    )


async def state(world: World, *wanted: str, name: str = "debugger") -> dict[str, Any]:
    """Wait until its container is in one of these states, and return its status."""

    async def reached() -> dict[str, Any] | None:
        for each in (await world.status()).get("ephemeralContainerStatuses") or ():
            if each["name"] == name and any(key in each["state"] for key in wanted):
                found: dict[str, Any] = each
                return found
        return None

    found: dict[str, Any] = await world.until(reached, f"{name} {wanted}")
    return found


async def until_up(world: World, name: str) -> None:
    """Wait until its container handles SIGTERM: see `ENDS_ON_SIGTERM`."""
    await state(world, "running", name=name)
    await world.until(lambda: world.logs(container=name), f"output of {name}")


async def result(world: World, script: str, **more: Any) -> str:
    """Return the output of an ephemeral container that has to succeed."""
    await debug(world, script, **more)
    ended = (await state(world, "terminated"))["state"]["terminated"]
    text = await world.logs(container="debugger")
    assert ended["exitCode"] == 0, (text, ended)
    return text


async def test_runs_once_in_the_running_pod(world: World) -> None:
    main = shell("main", f"echo secret > /data/file; {SLEEP}")
    mount = {"name": "data", "mountPath": "/data"}
    await world.pod(
        {
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [main | {"volumeMounts": [mount]}],
        }
    )
    before = await world.ready()
    text = await result(
        world,
        "until test -s /elsewhere/file; do sleep 0.02; done; cat /elsewhere/file; hostname; "
        "echo $COLOR; echo shared > /dev/shm/seen",
        env=[{"name": "COLOR", "value": "red"}],
        volumeMounts=[{"name": "data", "mountPath": "/elsewhere"}],
    )
    assert text == "secret\np\nred\n"
    assert await execute(world, Streams(), "grep", "-q", "shared", "/dev/shm/seen") == 0
    shown = await state(world, "terminated")
    assert (shown["ready"], shown["restartCount"], shown["lastState"]) == (False, 0, {})
    assert "started" not in shown
    after = await world.ready()
    assert after["containerStatuses"] == before["containerStatuses"]
    assert after["phase"] == "Running"
    generation = ((await world.get()) or {})["metadata"]["generation"]
    assert after["observedGeneration"] == generation == 2


@needs_own_proc
async def test_sees_the_processes_of_its_target_only(world: World) -> None:
    await world.pod({"containers": [shell("main", SLEEP), shell("other", "exec sleep 2000")]})
    await world.ready()
    script = "tr '\\0' ' ' < /proc/1/cmdline; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    # A container is running a moment before its shell executes another program.
    wait = "until grep -q ^sleep /proc/1/cmdline; do sleep 0.02; done"
    text = await result(world, f"{wait}; {script}", targetContainerName="main")
    assert text.startswith("sleep 1000 ")
    assert "sleep 2000" not in text
    await debug(world, script, "alone")
    await state(world, "terminated", name="alone")
    text = await world.logs(container="alone")
    assert "sleep 1000" not in text
    assert text.startswith("sh -c ")


async def test_leaves_nothing_among_the_processes_of_its_target(world: World) -> None:
    await world.pod({"containers": [shell("main", SLEEP)]})
    await world.ready()
    await result(world, "setsid sleep 3000 & sleep 3001 & true", targetContainerName="main")
    streams = Streams()
    await execute(world, streams, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert b"sleep 1000" in streams.out
    assert b"sleep 300" not in streams.out


async def test_ends_with_the_processes_of_its_target(world: World) -> None:
    main = shell("main", "while ! test -e /dev/shm/end; do sleep 0.02; done")
    await world.pod({"containers": [main, shell("other", SLEEP)]})
    await world.ready()
    await debug(world, SLEEP, targetContainerName="main")
    await state(world, "running")
    # The command that ends it may end with it.
    assert await execute(world, Streams(), "touch", "/dev/shm/end") in {0, 137}
    shown = await state(world, "terminated")
    assert shown["state"]["terminated"]["exitCode"] == 137


async def test_waits_for_a_target_that_does_not_run_yet(world: World) -> None:
    init = shell("init", "while ! test -e /dev/shm/go; do sleep 0.02; done")
    await world.pod({"initContainers": [init], "containers": [shell("main", SLEEP)]})
    await debug(world, "true", targetContainerName="main")

    async def reported() -> dict[str, Any] | None:
        waiting = (await state(world, "waiting"))["state"]["waiting"]
        found: dict[str, Any] = waiting
        return found if waiting["reason"] == "CreateContainerConfigError" else None

    waiting = await world.until(reported)
    assert waiting["message"] == "unable to find target container main: it does not run"
    # One without a target runs, whatever the other containers do.
    await debug(world, "touch /dev/shm/go", "second")
    await state(world, "terminated", name="second")
    await state(world, "terminated")
    await world.ready()


async def test_exec_and_attach_reach_it(world: World) -> None:
    await world.pod({"containers": [shell("main", SLEEP)]})
    await world.ready()
    await debug(world, "while read line; do echo got $line; done; echo over", stdin=True)
    await state(world, "running")
    pod = await world.get() or {}
    streams = Streams()
    command = ["sh", "-c", "hostname"]
    assert await world.node.backend.exec(pod, "debugger", command, streams) == 0
    assert streams.out == b"p\n"
    client = Client(stdin=True)
    attached = asyncio.create_task(world.node.backend.attach(pod, "debugger", client))
    client.type("one\n")
    await client.until("got one\n")
    attached.cancel()
    await asyncio.gather(attached, return_exceptions=True)
    assert await world.logs(container="debugger") == "got one\n"


async def test_it_does_not_affect_the_phase_of_the_pod(world: World) -> None:
    await world.pod(
        {
            "restartPolicy": "OnFailure",
            "containers": [shell("main", "while ! test -e /dev/shm/go; do sleep 0.02; done")],
        }
    )
    await world.ready()
    await debug(world, "exit 3", "failing")
    shown = await state(world, "terminated", name="failing")
    assert shown["state"]["terminated"]["exitCode"] == 3
    assert (await world.status())["phase"] == "Running"
    await debug(world, ENDS_ON_SIGTERM, "going-on")
    await until_up(world, "going-on")
    await debug(world, "touch /dev/shm/go")
    status = await world.phase("Succeeded")
    # The pod has finished, and so have all its containers.
    by_name = {each["name"]: each for each in status["ephemeralContainerStatuses"]}
    assert list(by_name) == ["debugger", "failing", "going-on"]
    assert by_name["going-on"]["state"]["terminated"]["exitCode"] == 0
    assert status["containerStatuses"][0]["restartCount"] == 0
    assert by_name["failing"]["restartCount"] == 0


async def test_is_deleted_with_its_pod(world: World) -> None:
    await world.pod({"containers": [shell("main", ENDS_ON_SIGTERM)]})
    await world.ready()
    await debug(world, ENDS_ON_SIGTERM)
    await world.output()
    await until_up(world, "debugger")
    await world.client.delete(PODS, "p", "default")
    await world.gone()

    async def is_removed() -> bool:
        return not any((world.state / "pods").glob("*"))

    await world.until(is_removed, "nothing of it is left")


async def test_images_and_commands_that_do_not_exist(world: World) -> None:
    await world.pod({"containers": [shell("main", SLEEP)]})
    await world.ready()
    await debug(world, "true", "lost", image="unknown:1")
    await debug(world, "true", "wrong", command=["not-there"])
    shown = await state(world, "waiting", name="lost")
    assert shown["image"] == "unknown:1"
    shown = await state(world, "terminated", name="wrong")
    assert shown["state"]["terminated"]["reason"] == "StartError"
    event = await world.event("Failed")
    assert event["involvedObject"]["fieldPath"].startswith("spec.ephemeralContainers{")
    assert condition(await world.status(), "Ready") == "True"


async def test_a_restarted_node_adopts_it(tmp_path: Path) -> None:
    async with control_plane(tmp_path / "node") as world:
        async with running_node(world, kill=False):
            await world.pod({"containers": [shell("main", SLEEP)]})
            await world.ready()
            await debug(world, ENDS_ON_SIGTERM, "running", targetContainerName="main")
            await debug(world, "exit 4", "ended")
            await until_up(world, "running")
            before = await state(world, "running", name="running")
            await state(world, "terminated", name="ended")
        async with running_node(world):
            await debug(world, "true", "new")
            await state(world, "terminated", name="new")
            after = await state(world, "running", name="running")
            assert after == before
            assert await world.logs(container="running") == "up\n"
            ended = await state(world, "terminated", name="ended")
            assert ended["state"]["terminated"]["exitCode"] == 4


async def test_a_lost_one_is_not_restarted(tmp_path: Path) -> None:
    async with control_plane(tmp_path / "node") as world:
        async with running_node(world, kill=True):
            await world.pod({"containers": [shell("main", SLEEP)]})
            await world.ready()
            await debug(world, SLEEP)
            await state(world, "running")
        async with running_node(world):
            ended = (await state(world, "terminated"))["state"]["terminated"]
            assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
            await world.container(lambda each: each["restartCount"] == 1)


async def test_in_bare_mode_an_event_reports_missing_isolation(tmp_path: Path) -> None:
    async with node_world(tmp_path / "node", sandbox="bare") as world:
        await world.pod({"containers": [shell("main", SLEEP)]})
        await world.ready()
        assert await result(world, "echo here", targetContainerName="main") == "here\n"

        async def reported() -> list[str]:
            events = (await world.client.list(EVENTS, "default"))["items"]
            return [each["message"] for each in events if "ephemeral" in each["message"]]

        (message,) = await world.until(reported)
        assert message == (
            "Not emulated here: spec.ephemeralContainers[debugger]: it is a process of this "
            "machine and sees the machine's files and processes"
        )


# -- the status, purely -----------------------------------------------------------------------


def test_a_pod_has_finished_when_its_ephemeral_containers_have() -> None:
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "main"}],
        "ephemeralContainers": [{"name": "b"}, {"name": "a"}],
    }
    record = PodRecord.of(spec, NOW, "127.0.0.1")
    record.containers["main"].end(Terminated(0, "Completed"))
    record.container("a").run("id", NOW, 0)
    status = pod_status(spec, record, {"phase": "Running"}, NOW)
    assert status["phase"] == "Running"
    assert condition(status, "Ready") == "False"
    assert [each["name"] for each in status["ephemeralContainerStatuses"]] == ["a", "b"]
    record.container("a").end(Terminated(137, "Error"))
    assert pod_status(spec, record, {"phase": "Running"}, NOW)["phase"] == "Succeeded"
    assert record.container("b").reason == "ContainerCreating"
