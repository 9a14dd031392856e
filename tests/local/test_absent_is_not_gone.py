"""Objects missing in a cache or list are looked up before anything irreversible is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from local.controlplane import World, control_plane, template
from local.node import support
from local.node.support import node_world
from traincrew.engine.controller import Manager, Request
from traincrew.engine.errors import NotFoundError
from traincrew.engine.events import EventRecorder
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import (
    ENDPOINTS,
    JOBS,
    PODS,
    SERVICES,
)
from traincrew.local.apiserver.http.faults import AuditRecord, Fault, refuse
from traincrew.local.controllers.endpoints.controller import EndpointsReconciler
from traincrew.local.controllers.endpoints.plan import ENDPOINTS_MANAGER, MANAGED_ENDPOINTS
from traincrew.local.controllers.informers import informer
from traincrew.local.controllers.job.controller import OrphanReconciler
from traincrew.local.controllers.job.model import TRACKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from traincrew.engine.resources import Resource


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane(controllers=False, kubelet=False) as running:
        yield running


@pytest.fixture
def manager(world: World) -> Manager:
    """A manager whose caches are never synced."""
    return Manager(world.client)


def show(manager: Manager, resource: Resource, document: dict[str, Any]) -> None:
    """Put an object into the cache."""
    informer(manager, resource).store.put(msgspec.convert(document, AnyObject))


async def finalizers(world: World) -> list[str]:
    pod = await world.get(PODS, "p")
    assert pod is not None
    return list(pod["metadata"].get("finalizers") or ())


@pytest.mark.parametrize("controlled", [True, False], ids=["controlled", "adoptable"])
async def test_a_pod_whose_job_is_missing_in_the_cache_stays_tracked(
    world: World, manager: Manager, controlled: bool
) -> None:
    spec = {"template": template("Never")}
    job = await world.create(JOBS, {"metadata": {"name": "j"}, "spec": spec})
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "j",
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "name": "p",
        "labels": {"batch.kubernetes.io/job-name": "j"},
        "finalizers": [TRACKING],
        "ownerReferences": [owner] if controlled else [],
    }
    pod = await world.create(PODS, {**template("Never"), "metadata": metadata})
    show(manager, PODS, pod)
    orphans = OrphanReconciler(manager, EventRecorder(world.client, "test"))

    await orphans.reconcile(Request("default", "p"))
    assert await finalizers(world) == [TRACKING]

    await world.client.delete(JOBS, "j", "default")
    await orphans.reconcile(Request("default", "p"))
    assert await finalizers(world) == []


async def test_endpoints_of_a_service_missing_in_the_cache_stay(
    world: World, manager: Manager
) -> None:
    ports = [{"port": 80}]
    await world.create(SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": ports}})
    labels = {MANAGED_ENDPOINTS: ENDPOINTS_MANAGER}
    endpoints = await world.create(ENDPOINTS, {"metadata": {"name": "s", "labels": labels}})
    show(manager, ENDPOINTS, endpoints)
    reconciler = EndpointsReconciler(manager, EventRecorder(world.client, "test"))

    await reconciler.reconcile(Request("default", "s"))
    assert await world.get(ENDPOINTS, "s") is not None

    await world.client.delete(SERVICES, "s", "default")
    await reconciler.reconcile(Request("default", "s"))
    assert await world.get(ENDPOINTS, "s") is None


async def test_only_the_server_confirms_that_an_object_is_gone(world: World) -> None:
    client = world.client
    made = await world.create(
        SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}
    )

    assert not await client.is_gone(SERVICES, "s", "default", uid=made["metadata"]["uid"])
    assert not await client.is_gone(SERVICES, "s", "default", uid="")
    assert await client.is_gone(SERVICES, "s", "default", uid="another")
    assert await client.is_gone(SERVICES, "no-such", "default", uid="")
    unserved = msgspec.structs.replace(SERVICES, version="v9")
    with pytest.raises(NotFoundError):
        await client.is_gone(unserved, "s", "default", uid="")


# -- the node


async def asked_for(world: support.World, path: str, records: list[AuditRecord]) -> None:
    async def asked() -> bool:
        return any(record.path == path and record.code == 200 for record in records)

    await world.until(asked, f"GET {path}")


async def test_a_claim_and_a_pod_missing_in_a_list_keep_their_data(tmp_path: Path) -> None:
    async with node_world(tmp_path / "node") as world:
        records: list[AuditRecord] = []
        uid = (await world.claim("c"))["metadata"]["uid"]
        mount = {"name": "data", "mountPath": "/data"}
        container = support.shell(
            "main", "echo precious > /data/file; sleep 600", volumeMounts=[mount]
        )
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        await world.pod({"containers": [container], "volumes": [volume]})
        await world.phase("Running")
        informers = world.node._informers
        kept: Path = world.state / "claims" / "default" / uid / "file"

        async def written() -> bool:
            return kept.exists()

        await world.until(written)
        failures = 1

        def faults(method: str, path: str, _: str) -> Fault | None:
            nonlocal failures
            if method == "GET" and path.endswith("/persistentvolumeclaims/c") and failures:
                failures -= 1
                return refuse(500)
            return None

        world.server.audit = records.append
        world.server.faults = faults
        version = informers.claims.store.resource_version
        await informers.claims.replace({}, version)
        await informers.pods.replace({}, informers.pods.store.resource_version)

        await asked_for(world, "/api/v1/namespaces/default/persistentvolumeclaims/c", records)
        await asked_for(world, "/api/v1/namespaces/default/pods/p", records)
        assert kept.read_text() == "precious\n"
        status = (await world.status())["containerStatuses"][0]
        assert (status["restartCount"], "running" in status["state"]) == (0, True)

        # Deleted objects are removed all the same, although the caches lack them.
        await world.client.delete(PODS, "p", "default", grace_period=0)
        await world.delete_claim("c")

        async def removed() -> bool:
            return not kept.parent.exists() and not any((world.state / "pods").iterdir())

        await world.until(removed)


async def test_a_conflict_does_not_mean_that_a_pod_is_gone(tmp_path: Path) -> None:
    """The node retries: a status or a deletion may lose a race with another write."""
    async with node_world(tmp_path / "node") as world:
        spoiled: list[tuple[str, str]] = []

        def conflict(method: str, path: str, _: str) -> Fault | None:
            if method not in {"PATCH", "DELETE"} or "/pods/p" not in path:
                return None
            if spoiled.count((method, path)) >= 2:
                return None
            spoiled.append((method, path))
            return refuse(409)

        await world.pod("exec sleep 100")
        world.server.faults = conflict
        await world.phase("Running")

        world.server.faults = None
        await world.client.delete(PODS, "p", "default", grace_period=1)
        world.server.faults = conflict
        await world.gone()
        assert {method for method, _ in spoiled} == {"PATCH", "DELETE"}


async def test_a_claim_whose_deletion_was_missed_is_removed(tmp_path: Path) -> None:
    async with node_world(tmp_path / "node") as world:
        made = await world.claim("c")
        informers = world.node._informers

        async def known() -> bool:
            return informers.claims.store.get("default", "c") is not None

        await world.until(known)
        path = world.state / "claims" / "default" / made["metadata"]["uid"]
        path.mkdir(parents=True)
        seen = informers.claims.store.get("default", "c")
        assert seen is not None
        await world.delete_claim("c")

        async def unknown() -> bool:
            return not path.exists()

        await world.until(unknown)
        # The same if a list is the first to show it.
        path.mkdir(parents=True)
        informers.claims.store.put(seen)
        await informers.claims.replace({}, informers.claims.store.resource_version)
        await world.until(unknown)
