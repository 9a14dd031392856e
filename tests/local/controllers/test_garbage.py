"""Garbage collection: the decision by tables, and the collector against the real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from local.controlplane import control_plane, template
from traincrew.engine.objects import FullObjectMeta
from traincrew.engine.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    PODS,
    SECRETS,
    Resource,
)
from traincrew.local.controllers.garbage.decide import (
    Await,
    Delete,
    DropOwners,
    Finish,
    Keep,
    Orphan,
    Owner,
    decide,
)
from traincrew.local.controllers.garbage.graph import Graph, Item

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from local.controlplane import World

WIDGETS = Resource("t.io", "v1", "widgets", "Widget")


def item(uid: str, *owners: str, blocks: bool = False, **more: Any) -> Item:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner}
        | {"blockOwnerDeletion": blocks}
        for owner in owners
    ]
    document = {"name": uid, "namespace": "n", "uid": uid, "ownerReferences": references} | more
    return Item(CONFIG_MAPS, msgspec.convert(document, FullObjectMeta))


def going(uid: str, *owners: str, finalizer: str = "", **more: Any) -> Item:
    finalizers = [finalizer] if finalizer else []
    return item(
        uid, *owners, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=finalizers, **more
    )


FOREGROUND = "foregroundDeletion"
SOLID, ABSENT, WAITING, UNKNOWN = Owner.SOLID, Owner.ABSENT, Owner.WAITING, Owner.UNKNOWN


@pytest.mark.parametrize(
    ("subject", "owners", "dependents", "expected"),
    [
        (item("a"), {}, [], Keep()),
        (item("a", "o"), {"o": SOLID}, [], Keep()),
        (item("a", "o"), {"o": ABSENT}, [], Delete("Background")),
        (item("a", "o", finalizers=["orphan"]), {"o": ABSENT}, [], Delete("Orphan")),
        (item("a", "o", finalizers=[FOREGROUND]), {"o": ABSENT}, [], Delete("Foreground")),
        (item("a", "o", "p"), {"o": SOLID, "p": ABSENT}, [], DropOwners(frozenset({"p"}))),
        (item("a", "o", "p"), {"o": SOLID, "p": WAITING}, [], DropOwners(frozenset({"p"}))),
        (item("a", "o"), {"o": WAITING}, [], Delete("Background")),
        (item("a", "o"), {"o": WAITING}, [item("d", "a")], Delete("Foreground")),
        # A cycle: the dependent waits for this object, which would wait for its owner.
        (
            item("a", "o"),
            {"o": WAITING},
            [going("o", "a", finalizer=FOREGROUND)],
            Delete("Foreground", unblock=True),
        ),
        (going("a", "o"), {"o": ABSENT}, [], Keep()),
        (item("a", "o"), {"o": UNKNOWN}, [], Keep()),
        (item("a", "o", "p"), {"o": UNKNOWN, "p": ABSENT}, [], Keep()),
        (item("a", "o", "p"), {"o": UNKNOWN, "p": WAITING}, [item("d", "a")], Keep()),
        (item("a", "o", "p"), {"o": UNKNOWN, "p": SOLID}, [], Keep()),
        (going("a", finalizer="orphan"), {}, [item("d", "a")], Orphan()),
        (going("a", finalizer=FOREGROUND), {}, [], Finish()),
        (going("a", finalizer=FOREGROUND), {}, [item("d", "a")], Finish()),
        (
            going("a", finalizer=FOREGROUND),
            {},
            [item("d", "a", blocks=True), item("e", "a"), going("f", "a", blocks=True)],
            Await(frozenset({"d", "e"})),
        ),
    ],
)
def test_verdicts(
    subject: Item, owners: dict[str, Owner], dependents: list[Item], expected: Any
) -> None:
    assert decide(subject, owners, dependents) == expected


def test_the_graph_returns_the_objects_to_reconcile() -> None:
    graph = Graph()

    assert graph.put(item("owner")) == set()
    assert graph.put(item("child", "owner")) == set()
    assert graph.put(item("stray", "nobody")) == {"stray"}
    assert [other.uid for other in graph.dependents("owner")] == ["child"]

    assert graph.put(going("owner", finalizer=FOREGROUND)) == {"owner", "child"}
    assert graph.put(going("child", "owner")) == {"owner"}
    assert graph.remove("child", deleted=True) == {"owner"}
    assert graph.remove("owner", deleted=True) == set()
    assert graph.put(item("late", "owner")) == {"late"}


def test_only_a_reported_deletion_of_exactly_that_owner_is_remembered() -> None:
    graph = Graph()
    for uid in ("deleted", "unlisted"):
        graph.put(item(uid))
    child = item("child", "deleted", "unlisted")
    graph.put(child)

    assert graph.remove("deleted", deleted=True) == {"child"}
    assert graph.remove("unlisted", deleted=False) == {"child"}

    deleted, unlisted = child.owners
    assert graph.was_deleted(deleted, child)
    assert not graph.was_deleted(unlisted, child)
    assert graph.was_deleted(msgspec.structs.replace(deleted, api_version="v9"), child)
    for other in ({"name": "x"}, {"kind": "Secret"}, {"api_version": "x.io/v1"}):
        assert not graph.was_deleted(msgspec.structs.replace(deleted, **other), child)
    assert not graph.was_deleted(deleted, item("far", "deleted", namespace="elsewhere"))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as running:
        yield running


def owned_by(*owners: dict[str, Any], block: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for owner in owners
    ]


async def make(
    world: World, name: str, *owners: dict[str, Any], block: bool = False
) -> dict[str, Any]:
    metadata = {"name": name, "ownerReferences": owned_by(*owners, block=block)}
    return await world.create(CONFIG_MAPS, {"metadata": metadata})


async def test_a_chain_of_owners_is_deleted_with_its_head(world: World) -> None:
    first = await make(world, "first")
    second = await make(world, "second", first)
    await make(world, "third", second)

    await world.client.delete(CONFIG_MAPS, "first", "default")

    await world.until_gone(CONFIG_MAPS, "third")
    assert await world.get(CONFIG_MAPS, "second") is None


async def test_an_owner_that_never_existed(world: World) -> None:
    ghost = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ghost", "uid": "no-such"}}

    await make(world, "child", ghost)

    await world.until_gone(CONFIG_MAPS, "child")


async def test_a_recreated_owner_is_another_owner(world: World) -> None:
    old = await world.create(SECRETS, {"metadata": {"name": "owner"}})
    await world.client.delete(SECRETS, "owner", "default")
    await world.create(SECRETS, {"metadata": {"name": "owner"}})

    await make(world, "child", old)

    await world.until_gone(CONFIG_MAPS, "child")


async def test_dependents_of_an_owner_of_unknown_kind_are_kept(world: World) -> None:
    unknown = {"apiVersion": "z.io/v1", "kind": "Zap", "metadata": {"name": "z", "uid": "u-z"}}
    await make(world, "kept", unknown)
    ghost = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ghost", "uid": "no-such"}}
    await make(world, "child", ghost)

    await world.until_gone(CONFIG_MAPS, "child")

    assert await world.get(CONFIG_MAPS, "kept") is not None


async def test_an_owner_in_another_namespace_does_not_count(world: World) -> None:
    other = await world.client.create(
        SECRETS,
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "far"}},
        "kube-system",
    )

    await make(world, "child", other)

    await world.until_gone(CONFIG_MAPS, "child")
    reasons = [reason for reason, _ in await world.events("child")]
    assert "OwnerRefInvalidNamespace" in reasons


async def test_one_remaining_owner_keeps_a_dependent(world: World) -> None:
    first, second = await make(world, "first"), await make(world, "second")
    await make(world, "child", first, second)

    await world.client.delete(CONFIG_MAPS, "first", "default")

    async def dropped() -> bool:
        found = await world.get(CONFIG_MAPS, "child") or {}
        return [owner["name"] for owner in found["metadata"]["ownerReferences"]] == ["second"]

    await world.until(dropped)


async def test_a_cycle_of_owners_is_deleted(world: World) -> None:
    first = await make(world, "first")
    second = await make(world, "second", first, block=True)
    third = await make(world, "third", second, block=True)
    patch = {"metadata": {"ownerReferences": owned_by(third, block=True)}}
    await world.client.patch(CONFIG_MAPS, "first", "default", patch=patch)

    await world.client.delete(CONFIG_MAPS, "first", "default", propagation="Foreground")

    for name in ("first", "second", "third"):
        await world.until_gone(CONFIG_MAPS, name)


async def test_foreground_deletion_waits_only_for_blocking_dependents(world: World) -> None:
    owner = await make(world, "owner")
    await make(world, "free", owner)
    metadata = {
        "name": "held",
        "ownerReferences": owned_by(owner, block=True),
        "finalizers": ["a.b/c"],
    }
    await world.create(CONFIG_MAPS, {"metadata": metadata})

    await world.client.delete(CONFIG_MAPS, "owner", "default", propagation="Foreground")
    await world.until_gone(CONFIG_MAPS, "free")
    assert await world.get(CONFIG_MAPS, "owner") is not None

    patch = {"metadata": {"finalizers": None}}
    await world.client.patch(CONFIG_MAPS, "held", "default", patch=patch)
    await world.until_gone(CONFIG_MAPS, "owner")


async def test_orphans_lose_their_owner_only(world: World) -> None:
    first, second = await make(world, "first"), await make(world, "second")
    await make(world, "child", first, second)

    await world.client.delete(CONFIG_MAPS, "first", "default", propagation="Orphan")

    await world.until_gone(CONFIG_MAPS, "first")
    found = await world.get(CONFIG_MAPS, "child") or {}
    assert [owner["name"] for owner in found["metadata"]["ownerReferences"]] == ["second"]


def definition() -> dict[str, Any]:
    return {
        "metadata": {"name": "widgets.t.io"},
        "spec": {
            "group": "t.io",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


async def test_custom_resources_may_be_owners_and_dependents(world: World) -> None:
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    await world.until_condition(CUSTOM_RESOURCE_DEFINITIONS, "widgets.t.io", "Established")
    owner = await world.create(WIDGETS, {"metadata": {"name": "w"}})
    part = await world.create(
        WIDGETS, {"metadata": {"name": "part", "ownerReferences": owned_by(owner)}}
    )
    labels = {"metadata": {"name": "p", "ownerReferences": owned_by(part)}}
    await world.create(PODS, {**template(), **labels})

    await world.client.delete(WIDGETS, "w", "default")

    await world.until_gone(WIDGETS, "part")
    await world.until_gone(PODS, "p")


async def test_dependents_of_custom_resources_are_deleted_with_the_definition(world: World) -> None:
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    await world.until_condition(CUSTOM_RESOURCE_DEFINITIONS, "widgets.t.io", "Established")
    other = await world.create(WIDGETS, {"metadata": {"name": "other"}})
    await make(world, "of-other", other)
    await world.client.delete(WIDGETS, "other", "default")
    await world.until_gone(CONFIG_MAPS, "of-other")
    owner = await world.create(WIDGETS, {"metadata": {"name": "w"}})
    await make(world, "child", owner)

    await world.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.t.io")

    await world.until_gone(CONFIG_MAPS, "child")
