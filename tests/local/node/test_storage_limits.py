"""A pod that stores more than its `ephemeral-storage` limits is evicted, as by the kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from local.node.machine_image import image_of, machine_layer, written_by_shell
from local.node.support import CAPABILITIES, World, needs_own_proc, node_world, shell
from traincrew.local.node.pods.evictions import StorageLimits, StorageUse
from traincrew.local.node.runtime import memory

if TYPE_CHECKING:
    from pathlib import Path

needs_namespaces = pytest.mark.skipif(not CAPABILITIES.namespaces, reason=CAPABILITIES.reason)
MIB = 1024 * 1024
FILL = "dd if=/dev/zero of={path} bs=1M count={count} 2>/dev/null"
POD = "Pod ephemeral local storage usage exceeds the total limit of containers {}. "
ONE = 'Container {} exceeded its local ephemeral storage limit "{}". '
VOLUME = 'Usage of EmptyDir volume "{}" exceeds the limit "{}". '


def limited(name: str, limit: str | None, script: str = "", **more: Any) -> dict[str, Any]:
    limits = {} if limit is None else {"ephemeral-storage": limit}
    return shell(name, script, resources={"limits": limits}, **more)


SPEC = {
    "containers": [limited("a", "10Mi"), limited("b", "0.5Gi"), limited("c", None)],
    "initContainers": [
        limited("setup", "100Mi"),
        limited("sidecar", "2Mi", restartPolicy="Always"),
    ],
    "volumes": [
        {"name": "sized", "emptyDir": {"sizeLimit": "4Mi"}},
        {"name": "zero", "emptyDir": {"sizeLimit": "0"}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "other", "configMap": {"name": "x"}},
    ],
}


@pytest.mark.parametrize(
    ("volumes", "containers", "message"),
    [
        ({}, {}, ""),
        ({"sized": 4}, {"a": 10, "b": 500, "c": 1, "sidecar": 2}, ""),
        ({"sized": 5}, {"a": 600}, VOLUME.format("sized", "4Mi")),
        ({}, {"c": 525}, POD.format("524Mi")),
        ({"zero": 500}, {"c": 20, "setup": 5}, POD.format("524Mi")),
        ({"zero": 500, "memory": 500}, {}, ""),
        ({}, {"a": 11}, ONE.format("a", "10Mi")),
        ({}, {"sidecar": 3}, ONE.format("sidecar", "2Mi")),
        # An init container counts into the pod's use alone.
        ({}, {"setup": 200}, ""),
    ],
)
def test_the_first_limit_that_is_exceeded(
    volumes: dict[str, int], containers: dict[str, int], message: str
) -> None:
    limits = StorageLimits.of(SPEC)
    use = StorageUse(
        {name: size * MIB for name, size in volumes.items()},
        frozenset({"sized", "zero"}),
        {name: size * MIB for name, size in containers.items()},
    )
    assert limits.exceeded(use) == message


def test_limits_of_a_pod() -> None:
    assert StorageLimits.of({"containers": [limited("a", None)]}) == ({}, {}, "")
    assert StorageLimits.of({"containers": [limited("a", "1024Mi")]}) == ({}, {"a": "1Gi"}, "1Gi")
    # The kubelet evicts whatever is stored.
    assert (none := StorageLimits.of({"containers": [limited("a", "0")]})).pod == "0"
    assert not none.containers
    assert none.exceeded(StorageUse({}, frozenset(), {"a": 1})) == POD.format("0")


def pod(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"containers": list(containers), "restartPolicy": "Always", **more}


async def evicted(world: World) -> str:
    """The message of the pod, which has to be evicted."""
    status = await world.phase("Failed")
    assert status["reason"] == "Evicted"
    assert (await world.event("Evicted"))["message"].strip() == status["message"].strip()
    message: str = status["message"]
    return message


@needs_namespaces
@needs_own_proc
@pytest.mark.parametrize("path", ["/tmp/file", "/var/file"])
async def test_what_a_container_writes_counts(tmp_path: Path, path: str) -> None:
    script = f"{FILL.format(path=path, count=20)}; sleep 600"
    async with node_world(tmp_path) as world:
        await world.pod(pod(limited("main", "10Mi", script)))
        assert await evicted(world) == POD.format("10Mi")


@needs_namespaces
@needs_own_proc
async def test_what_a_container_writes_into_its_image_counts(tmp_path: Path) -> None:
    if not CAPABILITIES.overlay:
        pytest.skip("the kernel allows no overlays")
    layer = machine_layer(tmp_path / "layer")
    script = written_by_shell(4)
    async with node_world(tmp_path / "state") as world:
        world.images.environment = image_of(layer)
        await world.pod(pod(limited("main", "10Mi", script), limited("quiet", "1Gi", "sleep 600")))
        assert await evicted(world) == ONE.format("main", "10Mi")


async def test_output_counts(tmp_path: Path) -> None:
    script = "yes 'many lines of output' | head -c 9000000; sleep 600"
    async with node_world(tmp_path) as world:
        await world.pod(pod(limited("main", "5Mi", script)))
        assert await evicted(world) == POD.format("5Mi")


async def test_volumes_on_disk_count_for_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_DISK_PERIODS", 1)
    script = f"{FILL.format(path='/data/file', count=20)}; sleep 600"
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = limited("main", "10Mi", script, volumeMounts=mounts)
    async with node_world(tmp_path) as world:
        await world.pod(pod(container, volumes=[{"name": "data", "emptyDir": {}}]))
        assert await evicted(world) == POD.format("10Mi")


@needs_namespaces
@needs_own_proc
async def test_what_is_within_the_limits_is_no_reason(tmp_path: Path) -> None:
    script = f"{FILL.format(path='/tmp/file', count=20)}; {FILL.format(path='/m/f', count=50)}"
    mounts = [{"name": "memory", "mountPath": "/m"}]
    container = limited("main", "40Mi", f"{script}; sleep 2.5", volumeMounts=mounts)
    volume = {"name": "memory", "emptyDir": {"medium": "Memory"}}
    async with node_world(tmp_path) as world:
        await world.pod(pod(container, volumes=[volume], restartPolicy="Never"))
        assert (await world.phase("Succeeded", "Failed"))["phase"] == "Succeeded"
