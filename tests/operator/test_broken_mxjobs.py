"""Invalid MxJobs result in an error or a status that names the field, and the fix."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from api.mxjob.broken import FAILED, REFUSED
from harness import MX_JOBS, OLDER_MX_JOBS, Cluster
from plan.mxjob.manifests import (
    GROUP,
    OLDER_GROUP,
    distributed,
    local,
    replica,
    template,
    upstream,
)
from traincrew.engine.errors import ApiError, InvalidError
from traincrew.engine.resources import JOBS, SERVICES

if TYPE_CHECKING:
    from api.broken import Broken
    from traincrew.engine.resources import Resource

pytestmark = pytest.mark.asyncio(loop_scope="module")
RESOURCES = {resource.group: resource for resource in (MX_JOBS, OLDER_MX_JOBS)}
both_groups = pytest.mark.parametrize("group", [GROUP, OLDER_GROUP])


def resource_of(manifest: dict[str, Any]) -> Resource:
    """Return the resource of a manifest's group."""
    return RESOURCES[manifest["apiVersion"].partition("/")[0]]


def in_group(manifest: dict[str, Any], group: str) -> dict[str, Any]:
    """Return a manifest for another group."""
    return copy.deepcopy(manifest) | {"apiVersion": f"{group}/v1beta1"}


async def remove(cluster: Cluster, manifest: dict[str, Any]) -> None:
    """Delete a job, and wait until nothing is left of it."""
    name = manifest["metadata"]["name"]
    await cluster.client.delete(resource_of(manifest), name, "default")

    async def gone() -> bool:
        return not [
            child
            for resource in (JOBS, SERVICES)
            for child in await cluster.all(resource)
            if child["metadata"].get("labels", {}).get("mxnet.mlkube.io/job-name") == name
        ]

    await cluster.until(gone)


async def get(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a job as it is stored."""
    name = manifest["metadata"]["name"]
    return await cluster.client.get(resource_of(manifest), name, "default")


async def until_phase(cluster: Cluster, manifest: dict[str, Any], phase: str) -> dict[str, Any]:
    """Wait until a job is in a phase, and return it."""

    async def reached() -> dict[str, Any] | None:
        job = await get(cluster, manifest)
        return job if job.get("status", {}).get("phase") == phase else None

    job: dict[str, Any] = await cluster.until(reached)
    return job


# -- create ---------------------------------------------------------------------------------------


async def test_there_are_enough_broken_manifests() -> None:
    assert len(REFUSED) + len(FAILED) >= 120


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


@both_groups
@pytest.mark.parametrize("broken", REFUSED[:3], ids=lambda broken: broken.title)
async def test_both_groups_have_the_same_rules(served: Cluster, broken: Broken, group: str) -> None:
    with pytest.raises(InvalidError) as refused:
        await served.create_strictly(in_group(broken.manifest(), group))

    for text in broken.says:
        assert text in refused.value.message


@both_groups
@pytest.mark.parametrize("broken", FAILED, ids=lambda broken: broken.title)
async def test_failed_with_a_reason(served: Cluster, broken: Broken, group: str) -> None:
    manifest = in_group(broken.manifest(), group)
    await served.create_strictly(manifest)
    try:
        job = await until_phase(served, manifest, "Failed")

        for text in broken.says:
            assert text in job["status"]["reason"]
        assert "state" not in job["status"]

        async def warned() -> bool:
            events = await served.events_of(manifest["metadata"]["name"])
            return any(kind == "Warning" for kind, _, _ in events)

        await served.until(warned)
    finally:
        await remove(served, manifest)


@pytest.mark.parametrize("manifest", upstream(), ids=lambda job: job["metadata"]["name"])
async def test_manifests_of_mxnet_operator_are_accepted(
    served: Cluster, manifest: dict[str, Any]
) -> None:
    await served.create_strictly(manifest)
    try:
        job = await until_phase(served, manifest, "Creating")
        stored, given = job["spec"]["replicaSpecs"], manifest["spec"]["replicaSpecs"]

        assert [each["template"] for each in stored] == [each["template"] for each in given]
        number = sum(each["replicas"] for each in given)

        async def created() -> bool:
            return bool(len(await served.all(JOBS)) == number)

        await served.until(created)
    finally:
        await remove(served, manifest)


# -- changes --------------------------------------------------------------------------------------

FIXED = "cannot be changed"
RESIZED = ("replicaSpecs", "a parameter server cannot be resized", "delete the job and create it")


class Change(NamedTuple):
    """A change of a running job's spec, and what its refusal has to say."""

    title: str
    manifest: dict[str, Any]
    patch: dict[str, Any]
    says: tuple[str, ...]


CHANGES = [
    Change("more workers", distributed(), distributed(workers=3)["spec"], RESIZED),
    Change("fewer workers", distributed(), distributed(workers=1)["spec"], RESIZED),
    Change("more servers", distributed(), distributed(servers=2)["spec"], RESIZED),
    Change(
        "a second worker",
        local(),
        {"replicaSpecs": [replica("WORKER", 2)]},
        ("jobMode local needs exactly one entry", *RESIZED),
    ),
    Change(
        "other types",
        distributed(),
        {"replicaSpecs": [replica("SCHEDULER"), replica("WORKER", 2)]},
        ("jobMode dist needs one entry each", *RESIZED),
    ),
    Change(
        "no entries",
        distributed(),
        {"replicaSpecs": None},
        ("replicaSpecs is required",),
    ),
    Change("another mode", distributed(), local()["spec"], ("jobMode", FIXED, "delete the job")),
    Change("no mode", local(), {"jobMode": None}, ("jobMode is required",)),
    Change(
        "another RuntimeId", distributed(), {"RuntimeId": "zzzzz"}, ("RuntimeId", FIXED, "delete")
    ),
    Change(
        "another runtimeId",
        distributed(runtimeId="mine"),
        {"runtimeId": "yours"},
        ("RuntimeId", FIXED, "delete"),
    ),
    Change(
        "another RuntimeId in the other spelling",
        distributed(RuntimeId="mine"),
        {"RuntimeId": None, "runtimeId": "yours"},
        ("spec.RuntimeId", FIXED, "delete"),
    ),
    Change(
        "another PsRootPort",
        distributed(),
        {"replicaSpecs": distributed(port=9092)["spec"]["replicaSpecs"]},
        ("PsRootPort", FIXED, "delete the job"),
    ),
    Change("a word that does not exist", distributed(), {"workers": 3}, ('"spec.workers"',)),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.title)
async def test_refused_changes(served: Cluster, change: Change) -> None:
    manifest = change.manifest
    await served.create_strictly(manifest)
    try:
        await until_phase(served, manifest, "Creating")
        with pytest.raises(ApiError) as refused:
            await served.client.request(
                "PATCH",
                resource_of(manifest).path("default", manifest["metadata"]["name"]),
                params={"fieldValidation": "Strict"},
                body=json.dumps({"spec": change.patch}).encode(),
                content_type="application/merge-patch+json",
            )

        assert refused.value.code in {400, 422}
        for text in change.says:
            assert text in refused.value.message
    finally:
        await remove(served, manifest)


@both_groups
async def test_scaling_is_refused_with_the_reason(served: Cluster, group: str) -> None:
    """Without a subresource for it, `kubectl scale` would say that the job was not found."""
    manifest = in_group(distributed(), group)
    name = manifest["metadata"]["name"]
    await served.create_strictly(manifest)
    try:
        patch = {"spec": {"replicas": 3}}
        with pytest.raises(InvalidError) as refused:
            await served.client.patch(
                RESOURCES[group], name, "default", patch=patch, subresource="scale"
            )

        assert "an MxJob cannot be scaled" in refused.value.message
        assert "create it again with other replicas in replicaSpecs" in refused.value.message
        assert "replicas" not in (await get(served, manifest))["spec"]
    finally:
        await remove(served, manifest)


async def test_templates_and_policies_can_be_changed(served: Cluster) -> None:
    manifest = distributed()
    await served.create_strictly(manifest)
    try:
        job = await until_phase(served, manifest, "Creating")
        replicas = job["spec"]["replicaSpecs"][::-1]
        replicas[0]["template"]["spec"]["containers"][0]["image"] = "traincrew/mxnet:2"
        patch = {"spec": {"replicaSpecs": replicas, "runPolicy": {"backoffLimit": 1}}}
        await served.client.patch(MX_JOBS, manifest["metadata"]["name"], "default", patch=patch)
        changed = await get(served, manifest)

        assert changed["spec"]["runPolicy"]["backoffLimit"] == 1
        assert changed["spec"]["replicaSpecs"] == replicas
    finally:
        await remove(served, manifest)


# -- objects of others ----------------------------------------------------------------------------

SERVICE = {"spec": {"ports": [{"port": 1}], "selector": {"mine": "yes"}}}
FOREIGN_JOB = {"spec": {"suspend": True, "template": template()}}
FOREIGN = [
    (SERVICES, "digits-scheduler-mine-0", SERVICE),
    (JOBS, "digits-scheduler-mine-0", FOREIGN_JOB),
    (JOBS, "digits-worker-mine-1", FOREIGN_JOB),
]


async def until_it_says(cluster: Cluster, manifest: dict[str, Any], text: str) -> None:
    """Wait until a job that is being created says something, in its status and as an event."""

    async def reported() -> bool:
        status = (await get(cluster, manifest)).get("status", {})
        events = await cluster.events_of(manifest["metadata"]["name"])
        return (
            status.get("phase") == "Creating"
            and text in status["message"]
            and any(kind == "Warning" and text in message for kind, _, message in events)
        )

    await cluster.until(reported)


@pytest.mark.parametrize(("resource", "name", "content"), FOREIGN)
async def test_an_existing_object_of_others_is_reported_and_not_modified(
    served: Cluster, resource: Resource, name: str, content: dict[str, Any]
) -> None:
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        **content,
    }
    before = await served.client.create(resource, document, "default")
    manifest = distributed(RuntimeId="mine")
    await served.create_strictly(manifest)
    try:
        text = f'Resource "{name}" already exists and is not managed by MxJob'
        await until_it_says(served, manifest, text)
        after = await served.client.get(resource, name, "default")

        assert after["spec"] == before["spec"]
        assert "ownerReferences" not in after["metadata"]
    finally:
        await remove(served, manifest)
        await served.client.delete(resource, name, "default")


async def test_a_job_of_the_other_group_with_the_same_name_is_named(served: Cluster) -> None:
    first = distributed(RuntimeId="mine")
    second = in_group(first, OLDER_GROUP)
    await served.create_strictly(first)
    try:
        await until_phase(served, first, "Creating")

        async def created() -> bool:
            return len(await served.all(JOBS)) == 4

        await served.until(created)
        await served.create_strictly(second)
        await until_it_says(served, second, f"its owner is MxJob.{GROUP}")
    finally:
        await served.client.delete(OLDER_MX_JOBS, "digits", "default")
        await remove(served, first)
