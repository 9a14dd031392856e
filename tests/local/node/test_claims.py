"""Claims as pods see them: directories of the node, or paths of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import control_plane, node_world, running_node, shell
from traincrew.engine.resources import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
)
from traincrew.local.node import PodOptions

if TYPE_CHECKING:
    from pathlib import Path

    from local.node.support import World

Document = dict[str, Any]


def with_claim(script: str, **more: Any) -> Document:
    """Return the spec of a pod that runs a script with the claim `c` at `/data`."""
    mounts = [{"name": "v", "mountPath": "/data"}]
    return {
        "restartPolicy": "Never",
        "containers": [shell("main", script, volumeMounts=mounts)],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        **more,
    }


async def volume(world: World, **source: Any) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    await world.create(PERSISTENT_VOLUMES, {"metadata": {"name": "v"}, "spec": spec})


NODE = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}
        ]
    }
}


@pytest.mark.parametrize("kind", ["hostPath", "local"])
async def test_a_volume_of_the_machine_is_mounted(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "data"
    place.mkdir()
    (place / "images").write_text("here")
    async with node_world(tmp_path / "node") as world:
        more = {"nodeAffinity": NODE} if kind == "local" else {}
        await volume(world, **{kind: {"path": str(place)}}, **more)
        await world.claim("c", volumeName="v")
        assert await world.result(with_claim("cat /data/images; echo new > /data/result")) == "here"
        assert (place / "result").read_text() == "new\n"
        # Nothing of it was written to the directory of a claim: nothing is discarded with it.
        assert await world.node.claim_contents() == []
        await world.client.delete(PODS, "p", "default")
        await world.gone()
        await world.delete_claim("c")
    assert (place / "result").exists()


async def test_a_relative_path_of_a_volume_is_next_to_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "x").write_text("relative")
    options = PodOptions(host_directory=tmp_path)
    async with node_world(tmp_path / "node", pods=options) as world:
        await volume(world, hostPath={"path": "./set"})
        await world.claim("c", volumeName="v")
        assert await world.result(with_claim("cat /data/x")) == "relative"


async def test_a_local_volume_without_its_directory(tmp_path: Path) -> None:
    async with node_world(tmp_path / "node") as world:
        missing = str(tmp_path / "missing")
        await volume(world, local={"path": missing}, nodeAffinity=NODE)
        await world.claim("c", volumeName="v")
        await world.pod(with_claim("true"))
        event = await world.event("FailedMount")
        assert event["message"] == (
            f'MountVolume.SetUp failed for volume "v" : path "{missing}" does not exist'
        )


async def test_other_volumes_are_directories_of_their_claims(tmp_path: Path) -> None:
    async with node_world(tmp_path / "node") as world:
        await volume(world, nfs={"server": "files", "path": "/"})
        claim = await world.claim("c", volumeName="v")
        await world.result(with_claim("echo kept > /data/x"))
        place = world.state / "claims" / "default" / claim["metadata"]["uid"]
        assert (place / "x").read_text() == "kept\n"
        (contents,) = await world.node.claim_contents()
        assert contents[1:] == ("c", place, 1, 5, True)


async def test_a_pod_waits_in_silence_until_its_claim_is_bound(tmp_path: Path) -> None:
    async with node_world(tmp_path / "node") as world:
        await world.create(
            PERSISTENT_VOLUME_CLAIMS,
            {
                "metadata": {"name": "c"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1"}},
                },
            },
        )
        await world.pod(with_claim("echo ran"))

        def waits(status: Document) -> bool:
            message = (status["state"].get("waiting") or {}).get("message", "")
            return bool(message == "")

        await world.container(waits)
        bound = {"status": {"phase": "Bound"}}
        await world.client.patch(
            PERSISTENT_VOLUME_CLAIMS, "c", "default", patch=bound, subresource="status"
        )
        await world.phase("Succeeded")
        events = (await world.client.list(EVENTS, "default"))["items"]
        assert not [event for event in events if event["type"] == "Warning"]


async def test_no_pod_is_started_with_a_claim_that_is_being_deleted(tmp_path: Path) -> None:
    async with node_world(tmp_path / "node") as world:
        await world.claim("c")
        await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "c", "default")
        await world.pod(with_claim("true"))
        event = await world.event("FailedMount")
        assert event["message"].endswith("error processing PVC default/c: PVC is being deleted")


async def test_a_running_pod_keeps_its_claim_over_a_restart_of_the_node(tmp_path: Path) -> None:
    async with control_plane(tmp_path / "node") as world:
        async with running_node(world, kill=False):
            await world.claim("c")
            script = "until [ -e /data/go ]; do sleep 0.1; done; cat /data/go"
            await world.pod(with_claim(script))
            await world.ready()
            await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "c", "default")
        async with running_node(world):
            (place,) = (world.state / "claims" / "default").iterdir()
            (place / "go").write_text("adopted")
            await world.phase("Succeeded")
            assert await world.logs() == "adopted"


async def test_the_files_of_a_running_pod_stay_whoever_removes_the_finalizer(
    tmp_path: Path,
) -> None:
    async with node_world(tmp_path / "node") as world:
        claim = await world.claim("c")
        place: Path = world.state / "claims" / "default" / claim["metadata"]["uid"]
        script = "echo one > /data/file; until [ -e /data/go ]; do sleep 0.1; done; cat /data/file"
        await world.pod(with_claim(script))

        async def written() -> bool:
            return (place / "file").exists()

        await world.until(written)
        await world.delete_claim("c")

        claims = world.node._informers.claims.store

        async def known_to_be_gone() -> bool:
            return not claims.list()

        await world.until(known_to_be_gone)
        (place / "go").write_text("")
        await world.phase("Succeeded")
        assert await world.logs() == "one\n"
        await world.client.delete(PODS, "p", "default")

        async def removed() -> bool:
            return not place.exists()

        await world.until(removed)


async def test_an_ephemeral_volume_is_the_claim_of_its_pod(tmp_path: Path) -> None:
    async with node_world(tmp_path / "node") as world:
        await world.claim("p-v")
        template = {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1"}},
            }
        }
        volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
        pod = await world.pod(with_claim("echo mine > /data/x", volumes=volumes))
        event = await world.event("FailedMount")
        assert "was not created for pod default/p (pod is not owner)" in event["message"]
        meta = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": meta["uid"]}
        patch = {"metadata": {"ownerReferences": [owner | {"controller": True}]}}
        await world.client.patch(PERSISTENT_VOLUME_CLAIMS, "p-v", "default", patch=patch)
        await world.phase("Succeeded")


async def test_the_end_of_a_pod_keeps_the_wish_of_who_deleted_it(tmp_path: Path) -> None:
    async with node_world(tmp_path / "node") as world:
        await world.pod("exec sleep 100")
        await world.ready()
        await world.client.delete(PODS, "p", "default", propagation="Orphan", grace_period=1)

        async def ended() -> Document | None:
            meta = ((await world.get()) or {"metadata": {}})["metadata"]
            return meta if meta.get("deletionGracePeriodSeconds") == 0 else None

        # Only the garbage collector, which does not run here, removes the finalizer.
        assert (await world.until(ended))["finalizers"] == ["orphan"]
