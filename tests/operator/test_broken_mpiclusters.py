"""Invalid MPIClusters result in an error or a status that names the field, and the fix."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from api.broken import ABSENT, Broken
from api.mpicluster.broken import FAILED, REFUSED, REFUSED_LATER
from api.mpicluster.manifests import interactive, one_shot, with_code
from harness import MPI_CLUSTERS, Cluster
from traincrew.api.kinds.mpicluster.convert import cluster as converted
from traincrew.api.kinds.mpicluster.values import merged
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import PODS, STATEFUL_SETS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def remove(cluster: Cluster, manifest: dict[str, Any]) -> None:
    """Delete a cluster, and wait until nothing is left of it."""
    await cluster.client.delete(MPI_CLUSTERS, manifest["metadata"]["name"], "default")

    async def gone() -> bool:
        return not [*await cluster.all(STATEFUL_SETS), *await cluster.all(PODS)]

    await cluster.until(gone)


async def get(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a cluster as it is stored."""
    return await cluster.client.get(MPI_CLUSTERS, manifest["metadata"]["name"], "default")


# -- create ---------------------------------------------------------------------------------------


async def test_there_are_enough_broken_manifests() -> None:
    assert len(REFUSED) + len(FAILED) + len(REFUSED_LATER) >= 100


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.title)
async def test_refused_at_create(served: Cluster, broken: Broken) -> None:
    manifest = broken.manifest()
    try:
        await served.create_strictly(manifest)
    except ApiError as error:
        refused = error
    else:
        await remove(served, manifest)
        pytest.fail("was not refused")

    broken.check_refusal(refused)


@pytest.mark.parametrize("broken", [*FAILED, *REFUSED_LATER], ids=lambda broken: broken.title)
async def test_failed_with_a_reason(served: Cluster, broken: Broken) -> None:
    manifest = broken.manifest()
    await served.create_strictly(manifest)
    try:

        async def failed() -> dict[str, Any] | None:
            status = (await get(served, manifest)).get("status", {})
            return status if status.get("phase") == "Failed" else None

        status: dict[str, Any] = await served.until(failed)
        for text in broken.says:
            assert text in status["message"]

        async def warned() -> bool:
            events = await served.events_of(manifest["metadata"]["name"])
            return any(kind == "Warning" for kind, _, _ in events)

        await served.until(warned)
    finally:
        await remove(served, manifest)


@pytest.mark.parametrize(
    "manifest", [interactive(), one_shot(), with_code(), interactive(transport="exec")]
)
async def test_valid_manifests_are_accepted(served: Cluster, manifest: dict[str, Any]) -> None:
    await served.create_strictly(manifest)
    try:
        stored = (await get(served, manifest))["spec"]

        assert stored["appName"] == "kube-openmpi"
        pod = stored["master"]["template"]["spec"]
        assert pod["restartPolicy"] == "OnFailure"
        assert stored["workers"]["podManagementPolicy"] == "Parallel"
    finally:
        await remove(served, manifest)


async def test_what_values_become_is_accepted(served: Cluster) -> None:
    manifest = converted(merged(), "mine")
    await served.create_strictly(manifest)
    try:

        async def created() -> bool:
            return bool(await served.all(STATEFUL_SETS))

        await served.until(created)
    finally:
        await remove(served, manifest)


async def test_a_single_container_needs_no_name(served: Cluster) -> None:
    manifest = interactive()
    for role in ("master", "workers"):
        del manifest["spec"][role]["template"]["spec"]["containers"][0]["name"]
    await served.create_strictly(manifest)
    try:
        stored = (await get(served, manifest))["spec"]
        for role in ("master", "workers"):
            (container,) = stored[role]["template"]["spec"]["containers"]
            assert "name" not in container

        name = manifest["metadata"]["name"]
        workers = await served.until(lambda: served.find(STATEFUL_SETS, f"{name}-worker"))
        (container,) = workers["spec"]["template"]["spec"]["containers"]
        assert container["name"] == "mpi-worker"
    finally:
        await remove(served, manifest)


# -- changes --------------------------------------------------------------------------------------


class Change(NamedTuple):
    """A change of a cluster's spec, and what its refusal has to say."""

    title: str
    manifest: dict[str, Any]
    patch: dict[str, Any]
    says: tuple[str, ...]


DELETE = "delete the cluster and create it again"
CHANGES = [
    Change("another appName", interactive(), {"appName": "x"}, ("appName cannot be", DELETE)),
    Change("no appName", interactive(appName="x"), {"appName": None}, ("appName cannot", DELETE)),
    Change(
        "one-shot", interactive(), {"master": {"oneShot": {"command": "x"}}},
        ("master.oneShot", "cannot become", DELETE),
    ),
    Change(
        "interactive", one_shot(), {"master": {"oneShot": None}},
        ("master.oneShot", "cannot become", DELETE),
    ),
    Change(
        "another podManagementPolicy", interactive(),
        {"workers": {"podManagementPolicy": "OrderedReady"}},
        ("workers.podManagementPolicy cannot be changed", "a StatefulSet's cannot", DELETE),
    ),
    Change("no ssh", interactive(), {"transport": "exec"}, ("transport cannot be", DELETE)),
    Change("ssh", interactive(transport="exec"), {"transport": None}, ("transport cannot", DELETE)),
    Change("no workers", interactive(), {"workers": None}, ("workers is required",)),
    Change("too many workers", interactive(), {"workers": {"replicas": 2000}}, ("1000",)),
    Change("a key of the values", interactive(), {"mpiWorkers": {"num": 3}}, ("write workers",)),
    Change("an unknown field", interactive(), {"replicas": 3}, ('"spec.replicas"',)),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.title)
async def test_refused_changes(served: Cluster, change: Change) -> None:
    manifest = change.manifest
    await served.create_strictly(manifest)
    try:
        with pytest.raises(ApiError) as refused:
            await served.client.request(
                "PATCH",
                MPI_CLUSTERS.path("default", manifest["metadata"]["name"]),
                params={"fieldValidation": "Strict"},
                body=json.dumps({"spec": change.patch}).encode(),
                content_type="application/merge-patch+json",
            )

        assert refused.value.code in {400, 422}
        for text in change.says:
            assert text in refused.value.message
    finally:
        await remove(served, manifest)


async def test_everything_else_can_be_changed(served: Cluster) -> None:
    manifest = interactive()
    await served.create_strictly(manifest)
    try:
        patch = {
            "slots": 2,
            "hostfile": {"updateSeconds": 5},
            "ssh": {"gateway": {"enabled": True, "nodePort": 30333}},
            "networkPolicy": {"enabled": True},
            "workers": {"replicas": 0, "podDisruptionBudget": {"enabled": True}},
            "runPolicy": {"suspend": True},
        }
        name = manifest["metadata"]["name"]
        await served.client.patch(MPI_CLUSTERS, name, "default", patch={"spec": patch})
        stored = (await get(served, manifest))["spec"]

        assert (stored["slots"], stored["workers"]["replicas"]) == (2, 0)
    finally:
        await remove(served, manifest)


async def test_scaling_writes_the_workers(served: Cluster) -> None:
    manifest = interactive()
    name = manifest["metadata"]["name"]
    await served.create_strictly(manifest)
    try:
        await served.client.patch(
            MPI_CLUSTERS, name, "default", patch={"spec": {"replicas": 3}}, subresource="scale"
        )
        assert (await get(served, manifest))["spec"]["workers"]["replicas"] == 3

        async def followed() -> bool:
            return [each["spec"]["replicas"] for each in await served.all(STATEFUL_SETS)] == [3]

        await served.until(followed)
        with pytest.raises(ApiError):
            await served.client.patch(
                MPI_CLUSTERS, name, "default", patch={"spec": {"replicas": -1}},
                subresource="scale",
            )  # fmt: skip
    finally:
        await remove(served, manifest)


async def test_a_manifest_without_templates_gets_both_messages_at_once(served: Cluster) -> None:
    manifest = Broken(interactive(), "spec/master", ABSENT, ()).manifest()
    del manifest["spec"]["workers"]
    manifest["spec"] |= {"mpiMaster": {}, "mpiWorkers": {}}
    with pytest.raises(ApiError) as refused:
        await served.create_strictly(manifest)

    assert "write master, or convert" in refused.value.message
    assert "write workers (num is workers.replicas)" in refused.value.message
