"""A manifest that is applied again changes nothing, whoever applies it.

The second application of an unchanged manifest leaves generation and resourceVersion as they are
once the operator has settled; nobody else's application conflicts with what the operator wrote.
"""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from comparison import (
    Document,
    argo_cd_differs,
    normalized,
    three_way,
    with_last_applied,
)
from harness import MX_JOBS, OLDER_MX_JOBS, Cluster
from terse import terse
from traincrew.api.crd import definition
from traincrew.api.kinds import KINDS
from traincrew.engine.errors import ConflictError
from traincrew.operator.kinds import OF_OTHERS, RESOURCES

OPERATOR_KINDS = OF_OTHERS
EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def examples() -> list[Document]:
    """The jobs of the examples."""
    kinds = {resource.kind for resource in RESOURCES}
    return [
        document
        for file in sorted(EXAMPLES.rglob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
        if document and document.get("kind") in kinds
    ]


def name_of(manifest: Document) -> str:
    return f"{manifest['kind']}.{manifest['apiVersion'].partition('/')[0]}"


def each(*sets: list[Document]) -> pytest.MarkDecorator:
    found = [manifest for manifests in sets for manifest in manifests]
    return pytest.mark.parametrize("manifest", found, ids=name_of)


class Applying:
    """Applies one manifest in several ways, and waits until the operator has settled."""

    def __init__(self, served: Cluster, manifest: Document) -> None:
        self._cluster = served
        self.manifest = copy.deepcopy(manifest)
        self.manifest["metadata"]["namespace"] = "default"
        self.name = manifest["metadata"]["name"]
        wanted = manifest["apiVersion"], manifest["kind"]
        (self.resource,) = [one for one in RESOURCES if (one.api_version, one.kind) == wanted]

    async def stored(self) -> Document:
        return await self._cluster.client.get(self.resource, self.name, "default")

    async def client_side(self) -> Document:
        """As `kubectl apply`; no patch is sent if there is nothing to change."""
        if not await self._cluster.find(self.resource, self.name):
            return await self._cluster.client.create(
                self.resource,
                with_last_applied(self.manifest),
                "default",
                field_manager="kubectl-client-side-apply",
            )
        patch = three_way(self.manifest, await self.stored())
        return await self._cluster.client.patch(
            self.resource, self.name, "default", patch=patch, field_manager="kubectl"
        )

    async def server_side(
        self, manager: str, *, dry_run: bool = False, force: bool = False
    ) -> Document:
        return await self._cluster.client.apply(
            self.resource, self.manifest, field_manager=manager, force=force, dry_run=dry_run
        )

    async def settled(self) -> Document:
        """Wait until the operator has acted on the job; return it."""

        async def check() -> Document | None:
            found = await self.stored()
            seen = found.get("status", {}).get("observedGeneration")
            return found if seen == found["metadata"]["generation"] else None

        found: Document = await self._cluster.until(check)
        return found

    async def until_at_rest(self, again: Any) -> Document:
        """Apply until one application changes nothing; return the stored object."""

        async def check() -> Document | None:
            before = await self.settled()
            answer = await again()
            same = answer["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
            return before if same else None

        generation = (await self.settled())["metadata"]["generation"]
        found: Document = await self._cluster.until(check, deadline=20)
        assert found["metadata"]["generation"] == generation
        return found

    async def delete(self) -> None:
        await self._cluster.client.delete(self.resource, self.name, "default")


@each(terse("client"), examples())
@pytest.mark.asyncio(loop_scope="module")
async def test_client_side(served: Cluster, manifest: Document) -> None:
    job = Applying(served, manifest)
    await job.client_side()
    stored = await job.until_at_rest(job.client_side)

    assert three_way(job.manifest, stored) == {}
    assert argo_cd_differs(job.manifest, stored) == {}
    dry = await job.server_side("argocd-controller", dry_run=True, force=True)
    assert normalized(dry) == normalized(stored)
    await job.delete()


@each(terse("server"), examples())
@pytest.mark.asyncio(loop_scope="module")
async def test_server_side_with_two_managers(served: Cluster, manifest: Document) -> None:
    job = Applying(served, manifest)
    await job.server_side("helm")
    first = await job.settled()
    for manager in ("helm", "kustomize-controller"):
        await job.server_side(manager)  # without force, so that a conflict is an error
        stored = await job.until_at_rest(lambda manager=manager: job.server_side(manager))
        assert stored["metadata"]["generation"] == first["metadata"]["generation"]
        dry = await job.server_side(manager, dry_run=True)
        assert normalized(dry) == normalized(stored)
    await job.delete()


@each(terse("replaced"))
@pytest.mark.asyncio(loop_scope="module")
async def test_replacing_twice(served: Cluster, manifest: Document) -> None:
    job = Applying(served, manifest)
    await served.client.create(job.resource, copy.deepcopy(manifest), "default")
    before = await job.settled()

    async def replace() -> Document:
        """As `kubectl replace`, which takes only the version from what is stored."""
        sent = copy.deepcopy(job.manifest)
        version = (await job.stored())["metadata"]["resourceVersion"]
        sent["metadata"]["resourceVersion"] = version
        return await served.client.replace(job.resource, sent)

    await replace()
    stored = await job.until_at_rest(replace)
    assert stored["status"]["phase"] == before["status"]["phase"]
    assert stored["status"].get("runtimeId") == before["status"].get("runtimeId")
    await job.delete()


@each(terse("own"))
@pytest.mark.asyncio(loop_scope="module")
async def test_the_operator_owns_nothing_in_the_spec_but_the_runtime_id(
    served: Cluster, manifest: Document
) -> None:
    job = Applying(served, manifest)
    await job.server_side("somebody")
    stored = await job.settled()
    (theirs,) = [
        entry["fieldsV1"]["f:spec"]
        for entry in stored["metadata"]["managedFields"]
        if entry["manager"] == "somebody"
    ]
    ours = [
        entry["fieldsV1"]["f:spec"]
        for entry in stored["metadata"]["managedFields"]
        if entry["manager"] != "somebody" and "f:spec" in entry["fieldsV1"]
    ]

    assert theirs
    assert ours == ([{"f:RuntimeId": {}}] if manifest["kind"] == "MxJob" else [])
    await job.delete()


@pytest.mark.parametrize("resource", [MX_JOBS, OLDER_MX_JOBS], ids=["current", "older"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_runtime_id_of_somebody_else(served: Cluster, resource: Any) -> None:
    (manifest,) = [one for one in terse("given") if one["apiVersion"] == resource.api_version]
    manifest["spec"]["RuntimeId"] = "mine"
    job = Applying(served, manifest)
    await job.server_side("helm")
    stored = await job.until_at_rest(lambda: job.server_side("helm"))
    assert stored["spec"]["RuntimeId"] == stored["status"]["runtimeId"] == "mine"
    job.manifest["spec"]["RuntimeId"] = "yours"
    with pytest.raises(ConflictError, match="RuntimeId"):
        await job.server_side("other")
    await job.delete()


@pytest.mark.parametrize("resource", [MX_JOBS, OLDER_MX_JOBS], ids=["current", "older"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_job_into_whose_spec_mxnet_operator_wrote(served: Cluster, resource: Any) -> None:
    """It wrote ports and the RuntimeId; the manifest has neither."""
    (manifest,) = [one for one in terse("stored") if one["apiVersion"] == resource.api_version]
    job = Applying(served, manifest)
    sent = with_last_applied(manifest)
    for entry in sent["spec"]["replicaSpecs"]:
        entry |= {"PsRootPort": 9091, "replicas": 1}
        entry.setdefault("mxReplicaType", "WORKER")
    sent["spec"]["RuntimeId"] = "old1"
    await served.client.create(job.resource, sent, "default", field_manager="mx-job-operator")
    before = await job.settled()
    assert before["status"]["runtimeId"] == "old1"

    await job.client_side()
    stored = await job.until_at_rest(job.client_side)
    assert stored["spec"]["RuntimeId"] == "old1"
    assert stored["spec"]["replicaSpecs"] == manifest["spec"]["replicaSpecs"]
    assert stored["status"]["psRootPort"] == 9091
    assert stored["status"]["phase"] == before["status"]["phase"]
    await job.delete()


def in_lists(node: Any, path: str = "", *, listed: bool = False) -> list[str]:
    """Return the paths of the defaults of a schema that are in lists."""
    found = [path] if listed and "default" in node else []
    for name, child in node.get("properties", {}).items():
        found += in_lists(child, f"{path}.{name}", listed=listed)
    if isinstance(node.get("items"), dict):
        found += in_lists(node["items"], f"{path}[]", listed=True)
    if isinstance(node.get("additionalProperties"), dict):
        found += in_lists(node["additionalProperties"], f"{path}.*", listed=listed)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_the_schema_adds_nothing_to_lists(kind: Any) -> None:
    (version,) = definition(kind)["spec"]["versions"]
    assert in_lists(version["schema"]["openAPIV3Schema"]) == []
