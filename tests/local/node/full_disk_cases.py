"""Cases of `test_full_disk`: each runs where a small file system is mounted for it alone."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from local.node.support import World, condition, node_world, shell
from traincrew.engine.resources import NODES
from traincrew.local.cluster import ClusterOptions, LocalCluster
from traincrew.local.node.records import nodeobjects

PLACE = "TRAINCREW_TEST_SMALL_DISK"
"""Names the file system, in the process that has it mounted."""


@pytest.fixture
def disk() -> Path:
    place = Path(os.environ[PLACE])
    for entry in place.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return place


def fill(disk: Path) -> Path:
    """Leave no space for a single byte; return the file to delete."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


async def let(world: World, script: str, **more: str) -> Path:
    """Start a pod that runs a script once the file that is returned exists."""
    before = set(world.node._paths.memory.glob("*/.shm"))
    wait = "echo begun; while ! test -e /dev/shm/go; do sleep 0.02; done; "
    container = shell("main", wait + script)
    await world.pod({"containers": [container], "restartPolicy": "Never"}, **more)
    await world.ready(more.get("name", "p"))
    await world.output(more.get("name", "p"))
    (memory,) = set(world.node._paths.memory.glob("*/.shm")) - before
    return memory / "go"


@pytest.mark.parametrize("code", [0, 3])
async def test_a_program_keeps_its_exit_code(disk: Path, code: int) -> None:
    async with node_world(disk / "state") as world:
        lines = "i=0; while [ $i -lt 2000 ]; do echo a line of output; i=$((i+1)); done"
        go = await let(world, f"{lines}; exit {code}")
        fill(disk)
        go.touch()
        status = await world.phase("Succeeded", "Failed")
        state = status["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"]) == (code, "Error" if code else "Completed")
        # What could be written of the output is there, in whole lines.
        text = await world.logs()
        assert set(text.splitlines()) <= {"begun", "a line of output"}
        event = await world.event("DiskFull")
        assert event["type"] == "Warning"
        assert event["message"].endswith("is full: output of container main is lost")


async def test_a_pod_starts_when_there_is_space_again(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodeobjects, "_HEARTBEAT_SECONDS", 0.1)
    async with node_world(disk / "state") as world:

        async def pressure() -> str:
            node = await world.client.get(NODES, "local")
            return condition(node["status"], "DiskPressure")

        async def reached(wanted: str) -> bool:
            return await pressure() == wanted

        await world.until(lambda: reached("False"))
        ballast = fill(disk)
        await world.pod("exit 0", name="waiting")
        event = await world.event("FailedCreatePodSandBox", pod="waiting")
        assert "No space left on device" in event["message"]
        await world.until(lambda: reached("True"))
        assert (await world.status("waiting"))["phase"] == "Pending"
        ballast.unlink()
        await world.phase("Succeeded", name="waiting")
        await world.until(lambda: reached("False"))


async def test_a_cluster_reports_the_end_when_there_is_space_again(
    disk: Path, tmp_path: Path
) -> None:
    catalog = tmp_path / "images.yaml"
    catalog.write_text('{"environments": [{"name": "any", "images": ["any"]}]}')
    options = ClusterOptions(
        directory=disk / "cluster", image_catalogs=(catalog,), image_cache=tmp_path / "cache"
    )
    async with LocalCluster(options) as cluster:
        world = World(cluster.server, cluster.client, None, disk)  # type: ignore[arg-type]
        world.node = cluster.node
        account = {"automountServiceAccountToken": False}
        wait = "echo begun; while ! test -e /dev/shm/go; do sleep 0.02; done; exit 0"
        spec = {"containers": [shell("main", wait)], "restartPolicy": "Never", **account}
        spec["nodeName"] = "local"
        await world.pod(spec)
        await world.ready()
        await world.output()
        ballast = fill(disk)
        (memory,) = cluster.node._paths.memory.glob("*/.shm")
        (memory / "go").touch()
        (instance,) = (disk / "cluster" / "node" / "pods").glob("*/containers/main/0")
        async with asyncio.timeout(60):
            while not (instance / "exit.json").exists():
                await asyncio.sleep(0.02)
        ballast.unlink()
        status = await world.phase("Succeeded", "Failed")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
