"""Invalid input results in an error or a condition that names field or object, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from api.chainerjob.broken import FAILED, REFUSED
from harness import CHAINER_JOBS, Cluster
from plan.chainerjob.world import distributed, plain
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import (
    CONFIG_MAPS,
    JOBS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
)

if TYPE_CHECKING:
    from api.broken import Broken
    from traincrew.engine.resources import Resource

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_there_are_enough_broken_manifests() -> None:
    assert len(REFUSED) + len(FAILED) + 16 >= 130


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.title)
async def test_refused_at_create(served: Cluster, broken: Broken) -> None:
    manifest = broken.manifest()
    try:
        await served.create_strictly(manifest)
    except ApiError as error:
        refused = error
    else:
        await remove(served, manifest["metadata"]["name"])
        pytest.fail("was not refused")

    broken.check_refusal(refused)


@pytest.mark.parametrize("broken", FAILED, ids=lambda broken: broken.title)
async def test_failed_with_a_reason(served: Cluster, broken: Broken) -> None:
    manifest = broken.manifest()
    name = manifest["metadata"]["name"]
    await served.create_strictly(manifest)
    try:
        job = await served.until_phase(name, "Failed")

        for text in broken.says:
            assert text in job["status"]["message"]
        assert job["status"]["reason"] in {"FailedValidation", "FailedSynced"}

        async def warned() -> bool:
            return any(kind == "Warning" for kind, _, _ in await served.events_of(name))

        await served.until(warned)
    finally:
        await remove(served, name)


async def remove(cluster: Cluster, name: str) -> None:
    """Delete a job, and wait until nothing is left of it."""
    await cluster.client.delete(CHAINER_JOBS, name, "default")

    async def gone() -> bool:
        return not [
            child
            for resource in (
                SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CONFIG_MAPS, STATEFUL_SETS, JOBS,
            )
            for child in await cluster.all(resource)
            if child["metadata"].get("labels", {}).get("chainerjob.kubeflow.org/name") == name
        ]  # fmt: skip

    await cluster.until(gone)


RULES: dict[str, Any] = {"rules": []}
BINDING = {
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"},
    "subjects": [],
}
POD: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}
SET = {"spec": {"serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": POD}}
JOB = {"spec": {"template": {**POD, "spec": {**POD["spec"], "restartPolicy": "Never"}}}}
FOREIGN = [
    (SERVICE_ACCOUNTS, "launcher", {}),
    (ROLES, "launcher-role", RULES),
    (ROLE_BINDINGS, "launcher-rolebinding", BINDING),
    (CONFIG_MAPS, "assets", {"data": {"mine": "yes"}}),
    (STATEFUL_SETS, "workerset-ws0", SET),
    (JOBS, "master", JOB),
]


@pytest.mark.parametrize("base", [plain(), distributed()], ids=["plain", "distributed"])
@pytest.mark.parametrize(("resource", "suffix", "content"), FOREIGN, ids=lambda item: str(item)[:9])
async def test_an_existing_object_of_others_is_reported_and_not_modified(
    served: Cluster, resource: Resource, suffix: str, content: dict[str, Any], base: dict[str, Any]
) -> None:
    job_name = base["metadata"]["name"]
    if resource in {CONFIG_MAPS, STATEFUL_SETS} and job_name == "digits":
        return  # a plain job has none
    name = f"{job_name}-{suffix}"
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": {"mine": "yes"}},
        **content,
    }
    before = await served.client.create(resource, document, "default")
    await served.create(base)
    try:
        if resource is JOBS and job_name == "digits-mn":
            await served.run_workers(2)
        text = f'Resource "{name}" already exists and is not managed by ChainerJob'
        await served.until_phase(job_name, "Created", message=text, reason="ErrResourceExists")

        async def told() -> bool:
            return ("Warning", "ErrResourceExists", text) in await served.events_of(job_name)

        await served.until(told)
        after = await served.client.get(resource, name, "default")
        assert after["metadata"].get("ownerReferences") is None
        assert after["metadata"]["labels"] == {"mine": "yes"}
        for field in content:
            if field != "spec":
                assert after.get(field) == before.get(field)
    finally:
        await remove(served, job_name)
        await served.client.delete(resource, name, "default")
