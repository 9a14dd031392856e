"""Garbage collection while the kinds and versions that the server has change."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from local.controlplane import control_plane, template
from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    Resource,
)
from traincrew.local.apiserver.http.faults import AuditRecord, Fault, refuse
from traincrew.local.controllers.discovery import Discovery, Served, discover, parse
from traincrew.local.controllers.garbage import watches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from local.controlplane import World
    from traincrew.engine.client import Client

GROUP = "training.io"
ALPHAS = Resource(GROUP, "v1alpha1", "alphas", "Alpha")
BETAS = Resource(GROUP, "v2beta1", "betas", "Beta")
STABLES = Resource(GROUP, "v1", "stables", "Stable")
VERBS = ("create", "delete", "get", "list", "watch")


def found(resource: Resource, *verbs: str) -> Served:
    return Served(resource, frozenset(verbs or VERBS))


def version_of(resource: Resource, version: str) -> Resource:
    return Resource(resource.group, version, resource.plural, resource.kind, resource.namespaced)


def test_a_resource_outside_the_preferred_version_of_its_group_is_found() -> None:
    old_stables = version_of(STABLES, "v1alpha1")
    discovery = Discovery(map(found, (STABLES, ALPHAS, old_stables, BETAS)))

    assert discovery.preferred({"list"}) == [STABLES, ALPHAS, BETAS]
    assert discovery.find(f"{GROUP}/v1alpha1", "Stable") == old_stables
    assert discovery.find(f"{GROUP}/v1", "Stable") == STABLES
    assert discovery.find(f"{GROUP}/v1", "Alpha") is None


def test_the_version_depends_on_the_verbs() -> None:
    old_stables = version_of(STABLES, "v1alpha1")
    discovery = Discovery([found(STABLES, "get"), found(old_stables), found(ALPHAS, "create")])

    assert discovery.preferred({"list", "delete"}) == [old_stables]


def test_failed_discovery_does_not_imply_absence() -> None:
    entry = {
        "resource": "alphas",
        "responseKind": {"group": GROUP, "version": "v1alpha1", "kind": "Alpha"},
        "scope": "Namespaced",
        "verbs": list(VERBS),
    }
    discovery = parse(
        {
            "kind": "APIGroupDiscoveryList",
            "items": [
                {
                    "metadata": {"name": GROUP},
                    "versions": [
                        {"version": "v1", "freshness": "Stale"},
                        {"version": "v1alpha1", "freshness": "Current", "resources": [entry]},
                    ],
                }
            ],
        }
    )

    assert discovery.failed == {(GROUP, "v1")}
    assert discovery.serves(STABLES)
    assert discovery.serves(ALPHAS)
    assert not discovery.serves(BETAS)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as running:
        yield running


def definition(resource: Resource, *versions: str, unserved: tuple[str, ...] = ()) -> Any:
    names = versions or (resource.version,)
    return {
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [
                {
                    "name": name,
                    "served": name not in unserved,
                    "storage": name == names[0],
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
                for name in names
            ],
        },
    }


async def define(world: World, resource: Resource, *versions: str) -> None:
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, definition(resource, *versions))
    await world.until_condition(
        CUSTOM_RESOURCE_DEFINITIONS, f"{resource.plural}.{resource.group}", "Established"
    )


def owned_by(owner: dict[str, Any], api_version: str = "") -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": api_version or owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
    ]


async def make(
    world: World, name: str, owner: dict[str, Any], api_version: str = "", namespace: str = "work"
) -> dict[str, Any]:
    metadata = {"name": name, "ownerReferences": owned_by(owner, api_version)}
    return await world.create(CONFIG_MAPS, {"metadata": metadata}, namespace)


def ghost(resource: Resource, name: str = "ghost") -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "uid": f"uid-of-{name}"},
    }


async def collected(world: World, resource: Resource, name: str = "sentinel") -> None:
    """Wait until the collector watches a kind and has processed everything queued before."""
    await make(world, name, ghost(resource), namespace="default")
    await world.until_gone(CONFIG_MAPS, name)


def deletions(records: list[AuditRecord]) -> list[str]:
    """Return the paths in the namespace `work` that controllers have deleted."""
    return [
        record.path
        for record in records
        if record.method == "DELETE"
        and record.user_agent == "control"
        and record.code == 200
        and "/namespaces/work/" in record.path
    ]


async def new_namespace(world: World) -> list[AuditRecord]:
    """Create the namespace `work`; return the list of requests recorded from now on."""
    await world.create(NAMESPACES, {"metadata": {"name": "work"}})
    records: list[AuditRecord] = []
    world.server.audit = records.append
    return records


@pytest.mark.parametrize(
    "order",
    list(itertools.permutations((STABLES, ALPHAS, BETAS))),
    ids=lambda order: "-".join(each.version for each in order),
)
async def test_versions_of_a_group_arrive_in_any_order(
    world: World, order: tuple[Resource, ...]
) -> None:
    records = await new_namespace(world)
    for number, resource in enumerate(order):
        await define(world, resource)
        for name in ("kept", "deleted"):
            owner = await world.create(resource, {"metadata": {"name": name}}, "work")
            child = f"{resource.plural}-{name}"
            await make(world, child, owner)
            metadata = {"name": child, "ownerReferences": owned_by(owner)}
            await world.create(PODS, {**template(), "metadata": metadata}, "work")
        await collected(world, resource, f"sentinel-{number}")
        await collected(world, SECRETS, f"another-{number}")

    assert deletions(records) == []

    for resource in order:
        await world.client.delete(resource, "deleted", "work")
    for resource in order:
        await world.until_gone(CONFIG_MAPS, f"{resource.plural}-deleted", "work")
        await world.until_gone(PODS, f"{resource.plural}-deleted", "work")
        assert await world.get(CONFIG_MAPS, f"{resource.plural}-kept", "work") is not None
        assert await world.get(PODS, f"{resource.plural}-kept", "work") is not None

    await world.client.delete(NAMESPACES, "work")
    await world.until_gone(NAMESPACES, "work")
    for resource in (*order, CONFIG_MAPS, PODS):
        assert await world.list(resource, "work") == []


async def test_a_definition_moves_to_another_version(world: World) -> None:
    records = await new_namespace(world)
    await define(world, ALPHAS)
    owner = await world.create(ALPHAS, {"metadata": {"name": "owner"}}, "work")
    other = await world.create(ALPHAS, {"metadata": {"name": "other"}}, "work")
    await make(world, "child", owner)
    await make(world, "of-other", other)
    await collected(world, ALPHAS)

    stable = version_of(ALPHAS, "v1")
    for versions in (
        definition(ALPHAS, "v1alpha1", "v1"),
        definition(ALPHAS, "v1alpha1", "v1", unserved=("v1alpha1",)),
    ):
        await world.client.patch(
            CUSTOM_RESOURCE_DEFINITIONS, f"alphas.{GROUP}", patch={"spec": versions["spec"]}
        )
        await collected(world, stable)
    # References in the version that is no longer served, and in the one that is.
    await make(world, "late-child", owner)
    await make(world, "new-child", owner, stable.api_version)
    await collected(world, SECRETS)

    assert deletions(records) == []
    await world.client.delete(stable, "owner", "work")
    for child in ("child", "late-child", "new-child"):
        await world.until_gone(CONFIG_MAPS, child, "work")
    assert await world.get(CONFIG_MAPS, "of-other", "work") is not None


async def test_a_child_of_an_unknown_kind_stays_until_the_kind_is_known(world: World) -> None:
    await new_namespace(world)
    await define(world, STABLES)
    await make(world, "child", ghost(ALPHAS))
    await collected(world, STABLES)
    assert await world.get(CONFIG_MAPS, "child", "work") is not None

    await define(world, ALPHAS)

    await world.until_gone(CONFIG_MAPS, "child", "work")


async def test_a_cluster_scoped_object_with_a_namespaced_owner_is_kept(
    world: World,
) -> None:
    await new_namespace(world)
    secret = await world.create(SECRETS, {"metadata": {"name": "owner"}}, "work")
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/nowhere"},
    }
    for name, owner in (("of-secret", secret), ("of-ghost", ghost(SECRETS))):
        metadata = {"name": name, "ownerReferences": owned_by(owner)}
        await world.create(PERSISTENT_VOLUMES, {"metadata": metadata, "spec": spec})

    async def warned() -> bool:
        reasons = [reason for reason, _ in await world.events("of-ghost")]
        return "OwnerRefInvalidNamespace" in reasons

    await world.until(warned)
    await collected(world, SECRETS)
    assert await world.get(PERSISTENT_VOLUMES, "of-secret") is not None
    assert await world.get(PERSISTENT_VOLUMES, "of-ghost") is not None


async def test_one_wrong_reference_does_not_affect_the_others(world: World) -> None:
    await new_namespace(world)
    secret = await world.create(SECRETS, {"metadata": {"name": "owner"}}, "work")
    misnamed = {**secret, "metadata": {**secret["metadata"], "name": "another-name"}}

    await make(world, "wrong", misnamed)
    await make(world, "right", secret)

    await world.until_gone(CONFIG_MAPS, "wrong", "work")
    await make(world, "right-too", secret)
    await collected(world, SECRETS)
    assert await world.get(CONFIG_MAPS, "right", "work") is not None
    assert await world.get(CONFIG_MAPS, "right-too", "work") is not None


async def test_a_refused_request_does_not_imply_absence(world: World) -> None:
    await new_namespace(world)
    await define(world, ALPHAS)
    asked = 0

    def faults(method: str, path: str, _: str) -> Fault | None:
        nonlocal asked
        if method == "GET" and path.endswith("/alphas/ghost"):
            asked += 1
            return refuse((500, 403, 404)[asked - 1]) if asked <= 3 else None
        return None

    world.server.faults = faults
    await make(world, "child", ghost(ALPHAS))

    async def refused() -> bool:
        return asked >= 3

    await world.until(refused)
    await collected(world, SECRETS)
    assert await world.get(CONFIG_MAPS, "child", "work") is not None

    await define(world, BETAS)  # kinds that were found are a reason to ask at once
    await world.until_gone(CONFIG_MAPS, "child", "work")


async def content(world: World, namespace: str) -> None:
    await define(world, ALPHAS)
    await world.create(ALPHAS, {"metadata": {"name": "a"}}, namespace)
    await world.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, namespace)


async def condition(world: World, kind: str, status: str) -> dict[str, Any]:
    async def reached() -> dict[str, Any] | None:
        namespace = await world.get(NAMESPACES, "work")
        assert namespace is not None, "the namespace went early"
        for each in namespace["status"].get("conditions") or ():
            if each["type"] == kind and each["status"] == status:
                return dict(each)
        return None

    found: dict[str, Any] = await world.until(reached, f"{kind}={status}")
    return found


async def test_a_namespace_waits_for_a_kind_that_was_added_late(world: World) -> None:
    await new_namespace(world)
    await collected(world, SECRETS)
    slow = Fault(delay=0.5)
    world.server.faults = lambda _, path, agent: (
        slow if agent == "control" and path == "/apis" else None
    )
    await content(world, "work")

    await world.client.delete(NAMESPACES, "work")

    await world.until_gone(NAMESPACES, "work")
    assert await world.list(ALPHAS, "work") == []
    with pytest.raises(NotFoundError):
        await world.client.get(ALPHAS, "a", "work")


async def test_a_namespace_stays_while_its_content_cannot_be_listed(world: World) -> None:
    await new_namespace(world)
    await content(world, "work")
    world.server.faults = lambda method, path, _: (
        refuse(500) if method == "GET" and path.endswith("/work/alphas") else None
    )

    await world.client.delete(NAMESPACES, "work")

    failure = await condition(world, "NamespaceDeletionContentFailure", "True")
    assert failure["reason"] == "ContentDeletionFailed"
    assert "injected fault" in failure["message"]
    await world.until_gone(CONFIG_MAPS, "c", "work")
    assert await world.get(ALPHAS, "a", "work") is not None

    world.server.faults = None
    await world.until_gone(NAMESPACES, "work")
    assert await world.list(ALPHAS, "work") == []


async def test_a_namespace_stays_while_discovery_fails(world: World) -> None:
    await new_namespace(world)
    await content(world, "work")
    world.server.faults = lambda _, path, __: refuse(503) if path == "/apis" else None

    await world.client.delete(NAMESPACES, "work")

    failure = await condition(world, "NamespaceDeletionDiscoveryFailure", "True")
    assert failure["reason"] == "DiscoveryFailed"
    world.server.faults = None
    await world.until_gone(NAMESPACES, "work")
    assert await world.list(ALPHAS, "work") == []


async def test_a_namespace_stays_while_one_group_cannot_be_discovered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await new_namespace(world)
    await content(world, "work")
    await collected(world, ALPHAS)

    async def partly(client: Client) -> Discovery:
        whole = await discover(client)
        return Discovery(
            [each for each in whole._served if each.resource.group != GROUP],
            [(GROUP, "v1alpha1")],
        )

    monkeypatch.setattr(watches, "discover", partly)
    await world.client.delete(NAMESPACES, "work")

    failure = await condition(world, "NamespaceDeletionDiscoveryFailure", "True")
    assert f"{GROUP}/v1alpha1" in failure["message"]
    await world.until_gone(CONFIG_MAPS, "c", "work")
    assert await world.get(ALPHAS, "a", "work") is not None

    monkeypatch.setattr(watches, "discover", discover)
    await world.until_gone(NAMESPACES, "work")
    assert await world.list(ALPHAS, "work") == []
