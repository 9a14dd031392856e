"""Files in memory count into the limits of a container; volumes have the size of their limit."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from local.node.machine_image import image_of, machine_layer, written_by_shell
from local.node.support import CAPABILITIES, World, needs_own_proc, node_world, shell
from traincrew.local.node.runtime import memory
from traincrew.local.node.runtime.sizes import size_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(not CAPABILITIES.namespaces, reason=CAPABILITIES.reason),
    needs_own_proc,
]
MIB = 1024 * 1024
FILL = "dd if=/dev/zero of={path} bs=1M count={count} 2>/dev/null"


def limited(script: str, limit: str = "64Mi", **more: Any) -> dict[str, Any]:
    return shell("main", script, resources={"limits": {"memory": limit}}, **more)


def pod(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"containers": list(containers), "restartPolicy": "Never", **more}


async def end(world: World, name: str = "p") -> tuple[int, str]:
    """The exit code and the reason of the first container."""
    status = await world.phase("Succeeded", "Failed", name=name)
    state = status["containerStatuses"][0]["state"]["terminated"]
    return state["exitCode"], state["reason"]


@pytest.mark.parametrize("path", ["/tmp/file", "/var/file", "/run/file", "/dev/shm/file"])
@pytest.mark.parametrize("afterwards", ["sleep 600", "exit 0", "exit 3"])
async def test_a_container_is_killed_for_the_files_that_it_writes_into_memory(
    tmp_path: Path, path: str, afterwards: str
) -> None:
    async with node_world(tmp_path) as world:
        await world.pod(pod(limited(f"{FILL.format(path=path, count=100)}; {afterwards}")))
        assert await end(world) == (137, "OOMKilled")
        event = await world.event("OOMKilling")
        assert "its limit is 64Mi; files that it writes outside of volumes" in event["message"]


async def test_files_in_the_root_of_an_image_count_while_it_runs(tmp_path: Path) -> None:
    if not CAPABILITIES.overlay:
        pytest.skip("the kernel allows no overlays")
    layer = machine_layer(tmp_path / "layer")
    async with node_world(tmp_path / "state") as world:
        world.images.environment = image_of(layer)
        await world.pod(pod(limited(written_by_shell(25))))
        assert await end(world) == (137, "OOMKilled")


@pytest.mark.parametrize("path", ["/tmp/file", "/dev/shm/file"])
async def test_files_and_memory_are_counted_together(tmp_path: Path, path: str) -> None:
    keep = f"'{sys.executable}' -c 'import time; x = bytearray(60 << 20); time.sleep(600)'"
    async with node_world(tmp_path) as world:
        script = f"{FILL.format(path=path, count=60)}; exec {keep}"
        await world.pod(pod(limited(script, "100Mi")))
        assert await end(world) == (137, "OOMKilled")


MAPPED = """
import mmap, time
with open("/dev/shm/file", "w+b") as file:
    file.truncate(60 << 20)
    area = mmap.mmap(file.fileno(), 60 << 20)
    area.write(bytes(60 << 20))
    time.sleep(3.5)
"""


async def test_a_file_that_is_mapped_counts_once(tmp_path: Path) -> None:
    container = limited("", "120Mi")
    container["command"] = [sys.executable, "-c", MAPPED]
    async with node_world(tmp_path) as world:
        await world.pod(pod(container))
        assert await end(world) == (0, "Completed")


async def test_a_full_file_system_bounds_what_is_written_at_once(tmp_path: Path) -> None:
    size = "stat -f -c '%S %b' /tmp"
    script = f"{size}; {FILL.format(path='/tmp/file', count=2000)}; exit 1"
    async with node_world(tmp_path) as world:
        await world.pod(pod(limited(script)))
        assert await end(world) == (137, "OOMKilled")
        block, blocks = (await world.logs()).split()
        assert int(block) * int(blocks) == 128 * MIB


async def test_files_within_the_limit_and_on_disk_are_no_reason(tmp_path: Path) -> None:
    script = "; ".join(
        [
            FILL.format(path="/tmp/file", count=20),
            FILL.format(path="/dev/shm/file", count=20),
            FILL.format(path="/disk/file", count=200),
            "sleep 2.5",
        ]
    )
    container = limited(script, volumeMounts=[{"name": "disk", "mountPath": "/disk"}])
    async with node_world(tmp_path) as world:
        await world.pod(pod(container, volumes=[{"name": "disk", "emptyDir": {}}]))
        assert await end(world) == (0, "Completed")


async def test_a_volume_in_memory_counts(tmp_path: Path) -> None:
    script = f"{FILL.format(path='/data/file', count=100)}; sleep 600"
    container = limited(script, volumeMounts=[{"name": "data", "mountPath": "/data"}])
    async with node_world(tmp_path) as world:
        volume = {"name": "data", "emptyDir": {"medium": "Memory"}}
        await world.pod(pod(container, volumes=[volume]))
        assert await end(world) == (137, "OOMKilled")


async def test_containers_of_a_pod_share_their_limits_for_what_they_share(tmp_path: Path) -> None:
    fill = FILL.format(path="/dev/shm/file", count=100)
    other = shell("other", "sleep 600", resources={"limits": {"memory": "16Mi"}})
    async with node_world(tmp_path) as world:
        await world.pod(pod(limited(f"x=$({fill}); sleep 600"), other))

        async def killed() -> bool:
            statuses = (await world.status()).get("containerStatuses") or []
            ends = [each["state"].get("terminated") or {} for each in statuses]
            return any(each.get("reason") == "OOMKilled" for each in ends)

        await world.until(killed, "a container is killed")


@pytest.mark.parametrize("medium", ["Memory", ""])
async def test_a_volume_above_its_size_evicts_the_pod(
    tmp_path: Path, medium: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_DISK_PERIODS", 1)
    script = f"{FILL.format(path='/data/file', count=20)}; sleep 600"
    container = shell("main", script, volumeMounts=[{"name": "data", "mountPath": "/data"}])
    volume = {"name": "data", "emptyDir": {"medium": medium, "sizeLimit": "10Mi"}}
    async with node_world(tmp_path) as world:
        await world.pod(pod(container, volumes=[volume], restartPolicy="Always"))
        status = await world.phase("Failed")
        message = 'Usage of EmptyDir volume "data" exceeds the limit "10Mi". '
        assert (status["reason"], status["message"]) == ("Evicted", message)
        assert (await world.event("Evicted"))["message"].strip() == message.strip()


def test_the_size_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(bytes(MIB))
    os.link(tmp_path / "inner" / "file", tmp_path / "link")
    (tmp_path / "symbolic").symlink_to("/usr")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 100 * MIB)
    assert MIB <= size_of(tmp_path, 10 * MIB) < 2 * MIB
    assert size_of(tmp_path / "missing", MIB) == 0
