"""Claims and volumes: what protects them, and what a claim is bound to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from local.controlplane import control_plane, template
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from traincrew.local.controllers.volumes.binding import (
    PATIENCE,
    StorageClass,
    came_too_late,
    claim_status,
    decide,
    not_mounted,
    volume_phase,
)
from traincrew.local.controllers.volumes.ephemeral import ephemeral_claims
from traincrew.local.controllers.volumes.usage import UsedClaims, may_release

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from local.controlplane import World

Document = dict[str, Any]
DELETED = "2026-01-01T00:00:00Z"


def obj(**document: Any) -> AnyObject:
    return msgspec.convert(document, AnyObject)


def claim(name: str = "c", *, status: Document | None = None, **spec: Any) -> Document:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made: Document = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}}
    return made | {"spec": wanted | spec, "status": status or {"phase": "Pending"}}


def volume(name: str = "v", *, size: str = "1Gi", **spec: Any) -> Document:
    base = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}
    if not any(key in spec for key in ("nfs", "local")):
        base["hostPath"] = {"path": f"/data/{name}"}
    return {"metadata": {"name": name}, "spec": base | spec}


def user(name: str = "p", *, claims: tuple[str, ...] = ("c",), **spec: Any) -> Document:
    volumes = [
        {"name": f"v{index}", "persistentVolumeClaim": {"claimName": each}}
        for index, each in enumerate(claims)
    ]
    return {"metadata": {"name": name}, "spec": template()["spec"] | {"volumes": volumes} | spec}


# -- who uses a claim ----------------------------------------------------------------------------


def ephemeral(**metadata: Any) -> AnyObject:
    spec = {"nodeName": "n", "volumes": [{"name": "c", "ephemeral": {"volumeClaimTemplate": {}}}]}
    return obj(metadata={"name": "p", "uid": "1", **metadata}, spec=spec)


def owned(uid: str) -> AnyObject:
    owner = {"kind": "Pod", "name": "p", "uid": uid, "controller": True}
    return obj(metadata={"name": "p-c", "ownerReferences": [owner]})


@pytest.mark.parametrize(
    ("pod", "wanted", "used"),
    [
        (obj(**user(nodeName="n")), obj(**claim()), True),
        # As upstream: the node may still unmount the volumes of a pod that has ended.
        (obj(**user(nodeName="n"), status={"phase": "Succeeded"}), obj(**claim()), True),
        (obj(**user()), obj(**claim()), False),
        (obj(**user(nodeName="n")), obj(**claim("other")), False),
        (ephemeral(), owned("1"), True),
        (ephemeral(), owned("2"), False),
        (ephemeral(deletionTimestamp=DELETED, deletionGracePeriodSeconds=30), owned("1"), True),
        (ephemeral(deletionTimestamp=DELETED, deletionGracePeriodSeconds=0), owned("1"), False),
    ],
)
def test_who_uses_a_claim(pod: AnyObject, wanted: AnyObject, used: bool) -> None:
    assert UsedClaims([pod]).uses(wanted) is used


def test_which_changes_of_pods_release_claims() -> None:
    pod = obj(metadata={"uid": "1"}, spec=user()["spec"])
    plain = obj(metadata={"uid": "1"}, spec=template()["spec"])
    assert may_release(pod, None)
    assert may_release(pod, obj(metadata={"uid": "2"}))
    assert not may_release(pod, pod)
    assert not may_release(None, pod)
    assert not may_release(plain, None)
    ended = {"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 0}
    assert may_release(ephemeral(), ephemeral(**ended))


def test_the_claims_of_ephemeral_volumes_belong_to_their_pod() -> None:
    kept = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    chosen = {"metadata": kept, "spec": {"accessModes": ["ReadWriteOnce"]}}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": chosen}}]
    meta = {"name": "p", "namespace": "default", "uid": "1"}
    pod = obj(metadata=meta, spec={"volumes": volumes})

    (made,) = ephemeral_claims(pod)

    assert made["metadata"]["name"] == "p-scratch"
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {"c": "d"}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", "1", True)
    assert made["spec"] == chosen["spec"]
    assert not ephemeral_claims(obj(metadata=meta | {"deletionTimestamp": DELETED}))


# -- what a claim is bound to --------------------------------------------------------------------

CLASSES = {
    "local": StorageClass(provisioner="kubernetes.io/no-provisioner"),
    "disk": StorageClass(provisioner="disks.example.com"),
}


def bound_to(wanted: Document, *volumes: Document, age: float = 0.0) -> str:
    """Return the name of the volume, `a directory`, or why the claim waits."""
    decision = decide(obj(**wanted), [obj(**each) for each in volumes], CLASSES, age)
    if decision.volume is not None:
        return decision.volume.metadata.name
    if decision.directory:
        return "a directory"
    return decision.event.message if decision.event is not None else "waits"


RESERVED = {"namespace": "default", "name": "c"}


@pytest.mark.parametrize(
    ("wanted", "volumes", "expected"),
    [
        (claim(), [volume()], "v"),
        (claim(), [volume("a", size="9Gi"), volume("b", size="5Gi"), volume("c")], "c"),
        (claim(), [volume(size="1000M")], "a directory"),
        (claim(accessModes=["ReadWriteMany"]), [volume()], "a directory"),
        (claim(volumeMode="Block"), [volume()], "a directory"),
        (claim(), [volume(storageClassName="fast")], "a directory"),
        (claim(storageClassName="fast"), [volume(storageClassName="fast")], "v"),
        (claim(), [volume(claimRef={"namespace": "x", "name": "c"})], "a directory"),
        (claim(), [volume(claimRef=RESERVED | {"uid": "old"})], "a directory"),
        (claim(), [volume("a"), volume("b", size="9Gi", claimRef=RESERVED)], "b"),
        (claim(), [volume(storageClassName="fast", claimRef=RESERVED)], "v"),
        (claim(), [volume() | {"status": {"phase": "Released"}}], "a directory"),
        (claim(), [volume() | {"metadata": {"deletionTimestamp": DELETED}}], "a directory"),
        (claim(volumeName="v"), [volume("a"), volume("v", size="9Gi")], "v"),
        (claim(volumeName="v"), [], 'volume "v" does not exist'),
        (
            claim(volumeName="v"),
            [volume(claimRef={"namespace": "x", "name": "y"})],
            'volume "v" already bound to a different claim.',
        ),
        (
            claim(volumeName="v"),
            [volume(size="1Mi")],
            'Cannot bind to requested volume "v": requested PV is too small',
        ),
        (
            claim(volumeName="v"),
            [volume(storageClassName="fast")],
            'Cannot bind to requested volume "v": storageClassName does not match',
        ),
        (
            claim(storageClassName=""),
            [],
            "no persistent volumes available for this claim and no storage class is set",
        ),
        (claim(storageClassName=""), [volume()], "v"),
        (
            claim(storageClassName="local"),
            [],
            "no persistent volume fits this claim, and no volumes are made for StorageClass local",
        ),
        (claim(storageClassName="disk"), [], "a directory"),
        (
            claim(selector={"matchLabels": {"a": "b"}}),
            [volume()],
            "no persistent volume with the labels of spec.selector fits this claim",
        ),
    ],
)
def test_what_a_claim_is_bound_to(wanted: Document, volumes: list[Document], expected: str) -> None:
    assert bound_to(wanted, *volumes) == expected


def test_a_volume_of_a_class_may_come_a_moment_after_its_claim() -> None:
    wanted = claim(storageClassName="fast")
    assert bound_to(wanted) == "waits"
    assert decide(obj(**wanted), [], {}, 0.5).retry_after == PATIENCE - 0.5

    decision = decide(obj(**wanted), [], {}, PATIENCE)

    assert decision.directory
    assert decision.event is not None
    assert decision.event.reason == "NotEmulated"
    assert decision.event.message.startswith("spec.storageClassName: fast is not asked")


def test_the_status_of_a_bound_claim_is_that_of_its_volume() -> None:
    assert claim_status(obj(**claim()), None) == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
    }
    assert claim_status(obj(**claim()), obj(**volume(size="5Gi"))) == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "capacity": {"storage": "5Gi"},
    }


@pytest.mark.parametrize(
    ("made", "holder", "phase"),
    [
        (volume(), None, "Available"),
        (volume(claimRef=RESERVED), None, "Available"),
        (volume(claimRef=RESERVED | {"uid": "uid-c"}), claim(volumeName="v"), "Bound"),
        (volume(claimRef=RESERVED | {"uid": "uid-c"}), claim(), None),
        (volume(claimRef=RESERVED | {"uid": "uid-c"}), None, "Released"),
        (
            volume(claimRef=RESERVED | {"uid": "uid-c"}, persistentVolumeReclaimPolicy="Delete"),
            None,
            "Failed",
        ),
    ],
)
def test_phases_of_volumes(made: Document, holder: Document | None, phase: str | None) -> None:
    found = volume_phase(obj(**made), obj(**holder) if holder else None)
    assert (found.phase if found else None) == phase


def test_a_source_that_is_not_mounted_is_said() -> None:
    assert not_mounted(obj(**volume())) is None
    assert not_mounted(obj(**volume(local={"path": "/data"}))) is None
    event = not_mounted(obj(**volume(nfs={"server": "files", "path": "/"})))
    assert event is not None
    assert event.message == (
        "spec.volumeName: volume v is of the type nfs, which is not mounted here; the claim is a "
        "directory on this machine, which starts empty"
    )


def test_a_volume_that_came_too_late_for_its_claim() -> None:
    bound: Document = {"phase": "Bound"}
    classed = obj(**claim(status=bound, storageClassName="fast"))
    plain = obj(**claim(status=bound))
    assert came_too_late(obj(**volume(storageClassName="fast")), [classed, plain]) == [classed]
    assert came_too_late(obj(**volume(claimRef=RESERVED)), [plain]) == [plain]
    assert came_too_late(obj(**volume()), [plain]) == []


# -- on the control plane ------------------------------------------------------------------------


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as running:
        yield running


def new(document: Document) -> Document:
    """Return an object to create."""
    return {"metadata": {"name": document["metadata"]["name"]}, "spec": document["spec"]}


async def terminating(world: World, name: str) -> Document:
    found = await world.get(PERSISTENT_VOLUME_CLAIMS, name)
    assert found is not None, f"the claim {name} is gone"
    assert found["metadata"]["deletionTimestamp"]
    assert found["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    return found


async def test_a_claim_in_use_stays_until_its_last_pod_is_gone(world: World) -> None:
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim()))
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim("unused")))
    for name in ("a", "b"):
        await world.create(PODS, user(name))
    await world.until_pods(2)
    for name in ("c", "unused"):
        await world.client.delete(PERSISTENT_VOLUME_CLAIMS, name, "default")

    await world.until_gone(PERSISTENT_VOLUME_CLAIMS, "unused")
    await terminating(world, "c")
    pod = await world.get(PODS, "a")
    assert pod is not None
    await world.finish(pod)
    await world.client.delete(PODS, "b", "default")
    await world.until_gone(PODS, "b")
    # Whoever is asked later has decided on the earlier changes, too.
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim("later")))
    await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "later", "default")
    await world.until_gone(PERSISTENT_VOLUME_CLAIMS, "later")
    await terminating(world, "c")
    # A pod that comes now is not started with it.
    await world.create(PODS, user("late"))

    async def refused() -> bool:
        conditions = ((await world.get(PODS, "late")) or {})["status"].get("conditions") or ()
        text = 'persistentvolumeclaim "c" is being deleted'
        return any(text in each.get("message", "") for each in conditions)

    await world.until(refused, "the late pod is told")
    await world.client.delete(PODS, "a", "default")
    await world.until_gone(PERSISTENT_VOLUME_CLAIMS, "c")


async def test_the_protection_outlives_the_controllers(world: World) -> None:
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim()))
    await world.create(PODS, user())
    await world.until_pods(1)
    await world.control.kill()
    await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "c", "default")
    await terminating(world, "c")
    await world.client.delete(PODS, "p", "default", grace_period=0)
    await world.start()
    await world.until_gone(PERSISTENT_VOLUME_CLAIMS, "c")


async def test_objects_without_protection_get_it(world: World) -> None:
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim()))
    await world.create(PERSISTENT_VOLUMES, new(volume("other", storageClassName="other")))
    for resource, name, finalizer in (
        (PERSISTENT_VOLUME_CLAIMS, "c", "kubernetes.io/pvc-protection"),
        (PERSISTENT_VOLUMES, "other", "kubernetes.io/pv-protection"),
    ):
        patch = {"metadata": {"finalizers": ["example.com/mine"]}}
        await world.client.patch(resource, name, "default", patch=patch)

        async def protected(
            resource: Any = resource, name: str = name, own: str = finalizer
        ) -> Any:
            found = await world.get(resource, name)
            return found and found["metadata"]["finalizers"] == ["example.com/mine", own]

        await world.until(protected, f"{name} is protected")


async def test_a_namespace_with_claims_in_use_ends(world: World) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": "team"}})
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim()), "team")
    await world.create(PODS, user(), "team")

    async def runs() -> bool:
        return all(each["status"]["phase"] == "Running" for each in await world.pods("team"))

    await world.until(runs, "the pod runs")
    await world.client.delete(NAMESPACES, "team")
    await world.until_gone(NAMESPACES, "team")


async def test_a_pod_of_a_set_waits_for_a_claim_that_is_being_deleted(world: World) -> None:
    templates = [{"metadata": {"name": "data"}, "spec": claim()["spec"]}]
    spec = {
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "a"}},
        "template": template(),
        "volumeClaimTemplates": templates,
    }
    await world.create(STATEFUL_SETS, {"metadata": {"name": "web"}, "spec": spec})
    await world.until_pods(1)
    first = await world.until_status(PERSISTENT_VOLUME_CLAIMS, "data-web-0", phase="Bound")
    held = {"metadata": {"finalizers": ["example.com/backup", *first["metadata"]["finalizers"]]}}
    await world.client.patch(PERSISTENT_VOLUME_CLAIMS, "data-web-0", "default", patch=held)
    await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "data-web-0", "default")
    await world.client.delete(PODS, "web-0", "default")

    async def told() -> bool:
        events = await world.events("web")
        return any("pvc data-web-0 is being deleted" in message for _, message in events)

    await world.until(told, "an event of the set")
    assert await world.pods() == []
    patch = {"metadata": {"finalizers": None}}
    await world.client.patch(PERSISTENT_VOLUME_CLAIMS, "data-web-0", "default", patch=patch)
    await world.until_pods(1)
    second = await world.get(PERSISTENT_VOLUME_CLAIMS, "data-web-0")
    assert second is not None
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_volume_is_bound_kept_and_released_with_its_claim(world: World) -> None:
    await world.create(PERSISTENT_VOLUMES, new(volume(size="5Gi", storageClassName="manual")))
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim(storageClassName="manual")))

    bound = await world.until_status(PERSISTENT_VOLUME_CLAIMS, "c", phase="Bound")
    assert bound["spec"]["volumeName"] == "v"
    assert bound["status"]["capacity"] == {"storage": "5Gi"}
    assert bound["metadata"]["annotations"] == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    holder = await world.until_status(PERSISTENT_VOLUMES, "v", phase="Bound")
    assert holder["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
    await world.client.delete(PERSISTENT_VOLUMES, "v")
    await world.create(PERSISTENT_VOLUMES, new(volume("next", storageClassName="next")))
    await world.client.delete(PERSISTENT_VOLUMES, "next")
    await world.until_gone(PERSISTENT_VOLUMES, "next")
    kept = await world.get(PERSISTENT_VOLUMES, "v")
    assert kept is not None
    assert kept["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert kept["metadata"]["deletionTimestamp"]
    await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "c", "default")
    await world.until_gone(PERSISTENT_VOLUMES, "v")


async def test_what_happens_to_a_volume_without_its_claim(world: World) -> None:
    for name, policy in (("keep", "Retain"), ("erase", "Delete")):
        made = volume(name, storageClassName=name, persistentVolumeReclaimPolicy=policy)
        await world.create(PERSISTENT_VOLUMES, new(made))
        await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim(name, storageClassName=name)))
        await world.until_status(PERSISTENT_VOLUMES, name, phase="Bound")
        await world.until_status(PERSISTENT_VOLUME_CLAIMS, name, phase="Bound")
        await world.client.delete(PERSISTENT_VOLUME_CLAIMS, name, "default")

    await world.until_status(PERSISTENT_VOLUMES, "keep", phase="Released")
    failed = await world.until_status(PERSISTENT_VOLUMES, "erase", phase="Failed")
    assert "deletes no files that it did not create" in failed["status"]["message"]
    # The next claim of this class does not get what another one has left.
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim("keep", storageClassName="keep")))
    again = await world.until_status(PERSISTENT_VOLUME_CLAIMS, "keep", phase="Bound")
    assert "volumeName" not in again["spec"]


async def test_a_claim_that_lost_its_volume(world: World) -> None:
    await world.create(PERSISTENT_VOLUMES, new(volume()))
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim(storageClassName="")))
    await world.until_status(PERSISTENT_VOLUME_CLAIMS, "c", phase="Bound")
    await world.until_status(PERSISTENT_VOLUMES, "v", phase="Bound")
    await world.client.delete(PERSISTENT_VOLUMES, "v")
    await world.client.patch(PERSISTENT_VOLUMES, "v", patch={"metadata": {"finalizers": None}})

    await world.until_status(PERSISTENT_VOLUME_CLAIMS, "c", phase="Lost")
    assert (
        "ClaimLost",
        "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
    ) in (await world.events("c"))


async def test_a_claim_without_class_waits_for_a_volume_and_its_pod_with_it(world: World) -> None:
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim(storageClassName="")))
    await world.create(PODS, user())

    async def told() -> bool:
        conditions = ((await world.get(PODS, "p")) or {})["status"].get("conditions") or ()
        text = "pod has unbound immediate PersistentVolumeClaims"
        return any(text in each.get("message", "") for each in conditions)

    await world.until(told, "the pod says what it waits for")
    reason = "no persistent volumes available for this claim and no storage class is set"
    assert ("FailedBinding", reason) in await world.events("c")
    await world.create(PERSISTENT_VOLUMES, new(volume(nfs={"server": "files", "path": "/"})))
    await world.until_pods(1)
    reasons = [each for each in await world.events("c") if each[0] == "NotEmulated"]
    assert [message.partition(":")[0] for _, message in reasons] == ["spec.volumeName"]


async def test_a_volume_that_is_created_after_its_claim_is_bound_or_told(world: World) -> None:
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim(storageClassName="manual")))
    await world.create(PERSISTENT_VOLUMES, new(volume(storageClassName="manual")))
    bound = await world.until_status(PERSISTENT_VOLUME_CLAIMS, "c", phase="Bound")
    assert bound["spec"]["volumeName"] == "v"
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim("early")))
    await world.until_status(PERSISTENT_VOLUME_CLAIMS, "early", phase="Bound")
    reserved = {"namespace": "default", "name": "early"}
    await world.create(PERSISTENT_VOLUMES, new(volume("late", claimRef=reserved)))

    async def told() -> bool:
        found = await world.events("late")
        return any("default/early has become a directory" in message for _, message in found)

    await world.until(told, "an event of the volume")


async def test_an_ephemeral_volume_has_a_claim_as_long_as_its_pod(world: World) -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim()["spec"]}}}]
    await world.create(PODS, user(volumes=volumes))
    await world.until_pods(1)
    made = await world.until_status(PERSISTENT_VOLUME_CLAIMS, "p-v", phase="Bound")
    await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "p-v", "default")
    await terminating(world, "p-v")
    await world.client.delete(PODS, "p", "default")
    await world.until_gone(PERSISTENT_VOLUME_CLAIMS, "p-v")
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Pod"


async def test_a_pod_that_waits_for_its_claim_does_not_block_it(world: World) -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim()["spec"]}}}]
    await world.create(PODS, user(volumes=volumes))
    await world.until_pods(1)
    await world.until_status(PERSISTENT_VOLUME_CLAIMS, "p-v", phase="Bound")
    await world.client.delete(PODS, "p", "default", propagation="Foreground")
    await world.until_gone(PODS, "p")
    assert await world.get(PERSISTENT_VOLUME_CLAIMS, "p-v") is None


async def test_a_claim_for_a_pod_alone_is_no_other_pods(world: World) -> None:
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim("p-v")))
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim()["spec"]}}}]
    await world.create(PODS, user(volumes=volumes))

    async def told() -> bool:
        conditions = ((await world.get(PODS, "p")) or {})["status"].get("conditions") or ()
        text = "PVC default/p-v was not created for pod default/p (pod is not owner)"
        return any(text in each.get("message", "") for each in conditions)

    await world.until(told, "the pod says why it waits")


async def test_the_default_class_is_that_of_new_claims(world: World) -> None:
    marked = {
        "name": "disk",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    }
    made = {"metadata": marked, "provisioner": "disks.example.com"}
    await world.create(STORAGE_CLASSES, made)
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim()))
    await world.create(PERSISTENT_VOLUME_CLAIMS, new(claim("none", storageClassName="")))
    found = [await world.get(PERSISTENT_VOLUME_CLAIMS, name) for name in ("c", "none")]
    assert [(each or {})["spec"]["storageClassName"] for each in found] == ["disk", ""]
