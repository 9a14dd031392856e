"""Groups of pods on a running API server, by both kinds of PodGroups."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from gangs_api import is_served
from local.controlplane import add_node, control_plane, node
from traincrew.engine.errors import ForbiddenError, InvalidError
from traincrew.engine.resources import CLUSTER_ROLES, CUSTOM_RESOURCE_DEFINITIONS, PODS, Resource
from traincrew.local.cluster import ClusterOptions, LocalCluster
from traincrew.local.node.machine.specs import NodeSpec
from traincrew.local.scheduler.controller import PRIORITY_CLASSES
from traincrew.local.scheduler.groups import COSCHEDULING, LABEL, NATIVE
from variation import NUMBER, examples

if TYPE_CHECKING:
    from pathlib import Path

    from local.controlplane import World

WORKLOADS = Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload")
SMALL = node(allocatable={"cpu": "2"})


def pod_group(name: str, minimum: int) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }


def member(name: str, group: str = "", label: str = "", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1"}}
    spec |= {"containers": [{"name": "main", "image": "busybox", "resources": resources}]}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    labels = {LABEL: label} if label else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def coscheduling_definition() -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    return {
        "metadata": {
            "name": "podgroups.scheduling.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved"},
        },
        "spec": {
            "group": COSCHEDULING.group,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "kind": "PodGroup", "shortNames": ["pg"]},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


async def bound(world: World) -> list[str]:
    return sorted(
        each["metadata"]["name"] for each in await world.pods() if each["spec"].get("nodeName")
    )


async def until_bound(world: World, *names: str) -> None:
    async def all_bound() -> bool:
        return await bound(world) == sorted(names)

    await world.until(all_bound, f"{names} are bound")


async def until_waits(world: World, name: str, text: str) -> None:
    """Wait until a pod says that it cannot be scheduled, with this text in its message."""

    async def said() -> bool:
        found = await world.get(PODS, name) or {}
        return any(
            (each["type"], each["status"], each.get("reason"))
            == ("PodScheduled", "False", "Unschedulable")
            and text in each.get("message", "")
            for each in found.get("status", {}).get("conditions") or ()
        )

    await world.until(said, f"{name} says: {text}")


async def condition_of(world: World, name: str) -> tuple[str, str]:
    async def said() -> list[dict[str, Any]]:
        found = await world.get(NATIVE, name) or {}
        return list(found.get("status", {}).get("conditions") or ())

    (condition,) = await world.until(said, f"{name} has a condition")
    assert condition["type"] == "PodGroupScheduled"
    return (condition["status"], condition["reason"])


async def create_coscheduling(world: World, name: str, minimum: int) -> None:
    async def created() -> bool:
        try:
            await world.create(
                COSCHEDULING, {"metadata": {"name": name}, "spec": {"minMember": minimum}}
            )
        except Exception:  # noqa: BLE001 - the definition is not served yet
            return False
        return True

    await world.until(created, f"{name} is created")


async def test_a_group_waits_for_its_podgroup_its_pods_and_room() -> None:
    async with control_plane(nodes=(SMALL,), controllers=False, kubelet=False) as world:
        for number in range(2):
            await world.create(PODS, member(f"p{number}", "a"))
        await until_waits(world, "p0", 'waiting for pods\'s pod group "a" to appear')

        await world.create(NATIVE, pod_group("a", 3))
        await until_waits(world, "p0", "waiting for minCount pods from a gang")

        await world.create(PODS, member("p2", "a"))
        await until_waits(world, "p0", "2 pods fit at once, minCount is 3")
        assert await condition_of(world, "a") == ("False", "Unschedulable")
        assert await bound(world) == []

        await add_node(world.client, node("another", allocatable={"cpu": "1"}))
        await until_bound(world, "p0", "p1", "p2")

        async def scheduled() -> bool:
            return await condition_of(world, "a") == ("True", "Scheduled")

        await world.until(scheduled)
        assert not [each for each in await world.events("p0") if each[0] == "NotEmulated"]


async def test_of_two_groups_one_is_placed_and_the_other_follows() -> None:
    async with control_plane(nodes=(SMALL,), controllers=False, kubelet=False) as world:
        for name in ("a", "b"):
            await world.create(NATIVE, pod_group(name, 2))
        for number in range(2):
            for name in ("a", "b"):
                await world.create(PODS, member(f"{name}{number}", name))

        async def one() -> list[str]:
            return await bound(world)

        first = await world.until(one, "a group is placed")
        await until_waits(world, "b0" if first[0] == "a0" else "a0", "minCount is 2")
        assert len({each[0] for each in await bound(world)}) == 1
        for each in await world.pods():
            if each["spec"].get("nodeName"):
                await world.status(each, {"phase": "Succeeded"})
        await until_bound(world, "a0", "a1", "b0", "b1")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("engine", "rounds"), [(NATIVE, 100), (COSCHEDULING, 20)])
async def test_two_groups_that_fit_one_at_a_time_never_block_each_other(
    engine: Resource, rounds: int
) -> None:
    """Their pods come in any order, as those of jobs that start at once."""
    random = Random(NUMBER)
    async with control_plane(nodes=(SMALL,), controllers=False, kubelet=False) as world:
        if engine is COSCHEDULING:
            await world.create(CUSTOM_RESOURCE_DEFINITIONS, coscheduling_definition())
            await world.until(lambda: is_served(world.client, COSCHEDULING))
        for number in range(examples(rounds)):
            names = [f"{letter}{number}" for letter in "ab"]
            pods = []
            for name in names:
                if engine is NATIVE:
                    await world.create(NATIVE, pod_group(name, 2))
                else:
                    await create_coscheduling(world, name, 2)
                group = {"group" if engine is NATIVE else "label": name}
                pods += [member(f"{name}-{index}", **group) for index in range(2)]
            random.shuffle(pods)
            for pod in pods:
                await world.create(PODS, pod)
            left = {each["metadata"]["name"] for each in pods}
            while left:
                first = await one_group_is_bound(world)
                assert first <= left
                left -= first
                for name in first:
                    await world.client.delete(PODS, name, "default", grace_period=0)


async def one_group_is_bound(world: World) -> set[str]:
    """Wait until the pods of a group are placed, and return their names."""

    async def found() -> set[str]:
        names = set(await bound(world))
        return names if len(names) == 2 else set()

    names = await world.until(found, "a group is bound")
    assert len({name.partition("-")[0] for name in names}) == 1
    return names


async def test_the_label_means_nothing_without_the_definition() -> None:
    async with control_plane(nodes=(SMALL,), controllers=False, kubelet=False) as world:
        await world.create(PODS, member("p", label="a"))
        await until_bound(world, "p")


async def test_groups_of_coscheduling_are_found_when_the_definition_comes() -> None:
    async with control_plane(nodes=(SMALL,), kubelet=False) as world:
        await world.create(CUSTOM_RESOURCE_DEFINITIONS, coscheduling_definition())
        await world.create(PODS, member("p0", label="a"))
        await until_waits(world, "p0", "PodGroup default/a not found")

        await create_coscheduling(world, "a", 2)
        await until_waits(world, "p0", "current pods number: 1, minMember of group: 2")
        await world.create(PODS, member("p1", label="a"))
        await until_bound(world, "p0", "p1")

        async def phase(expected: str) -> bool:
            found = await world.get(COSCHEDULING, "a") or {}
            return bool(found.get("status", {}).get("phase") == expected)

        await world.until(lambda: phase("Scheduling"))
        for each in await world.pods():
            await world.status(each, {"phase": "Running"})
        await world.until(lambda: phase("Running"))
        for each in await world.pods():
            await world.status(each, {"phase": "Succeeded"})
        await world.until(lambda: phase("Finished"))
        found = await world.get(COSCHEDULING, "a") or {}
        assert found["status"]["succeeded"] == 2


async def test_pods_with_the_label_are_placed_when_the_definition_goes() -> None:
    async with control_plane(nodes=(SMALL,), kubelet=False) as world:
        definition = coscheduling_definition()
        await world.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await world.create(PODS, member("p0", label="a"))
        await until_waits(world, "p0", "PodGroup default/a not found")
        await world.client.delete(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
        await until_bound(world, "p0")


async def test_a_group_takes_the_place_of_less_important_pods() -> None:
    async with control_plane(nodes=(SMALL,), controllers=False) as world:
        await world.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        for name in ("low0", "low1"):
            await world.create(PODS, member(name))
        await until_bound(world, "low0", "low1")

        await world.create(NATIVE, pod_group("a", 2))
        await world.create(PODS, member("a0", "a", priorityClassName="high"))
        await until_waits(world, "a0", "waiting for minCount")
        assert await bound(world) == ["low0", "low1"]

        await world.create(PODS, member("a1", "a", priorityClassName="high"))
        await until_bound(world, "a0", "a1")
        assert ("Preempted", "Preempted by pod group default/a") in await world.events("low0")


async def test_a_podgroup_in_use_stays_until_its_pods_have_ended() -> None:
    async with control_plane(nodes=(SMALL,), kubelet=False) as world:
        await world.create(NATIVE, pod_group("a", 1))
        await world.create(PODS, member("p0", "a"))
        await world.create(PODS, member("p1", "a"))
        await until_bound(world, "p0", "p1")
        await world.client.delete(NATIVE, "a", "default")
        first, second = await world.pods()
        await world.client.delete(PODS, first["metadata"]["name"], "default", grace_period=0)
        group = await world.get(NATIVE, "a") or {}
        assert group["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
        assert group["metadata"]["deletionTimestamp"]
        await world.status(second, {"phase": "Succeeded"})
        await world.until_gone(NATIVE, "a")


async def test_a_podgroup_that_no_pod_names_is_deleted_at_once() -> None:
    async with control_plane(kubelet=False) as world:
        await world.create(NATIVE, pod_group("a", 1))
        await world.create(PODS, member("p0"))
        await world.client.delete(NATIVE, "a", "default")
        await world.until_gone(NATIVE, "a")


async def test_podgroups_and_workloads_are_validated() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        both = {"basic": {}, "gang": {"minCount": 1}}
        for policy, text in (
            ({}, "must specify one of: `basic`, `gang`"),
            (both, "must specify exactly one of: `basic`, `gang`"),
            ({"gang": {"minCount": 0}}, "spec.schedulingPolicy.gang.minCount: Required value"),
            ({"gang": {"minCount": -1}}, "must be greater than or equal to 1"),
        ):
            with pytest.raises(InvalidError, match=text):
                await world.create(
                    NATIVE, {"metadata": {"name": "a"}, "spec": {"schedulingPolicy": policy}}
                )
        template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}
        controller = {"apiGroup": "batch", "kind": "Job", "name": "train"}
        for spec, text in (
            ({"podGroupTemplates": []}, "spec.podGroupTemplates: Required value"),
            ({"podGroupTemplates": [template] * 9}, "must have at most 8 items"),
            ({"podGroupTemplates": [template] * 2}, "Duplicate value"),
            ({"podGroupTemplates": [template | {"name": "a.b"}]}, "must not contain dots"),
            (
                {"podGroupTemplates": [template], "controllerRef": controller | {"kind": "a/b"}},
                "may not contain '/'",
            ),
        ):
            with pytest.raises(InvalidError, match=text):
                await world.create(WORKLOADS, {"metadata": {"name": "w"}, "spec": spec})


async def test_a_podgroup_names_a_template_that_exists() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        reference = {"workloadName": "w", "podGroupTemplateName": "workers"}
        wanted = pod_group("a", 2)
        wanted["spec"]["podGroupTemplateRef"] = {"workload": reference}
        with pytest.raises(ForbiddenError, match='PodGroup rejected: Workload "w" not found'):
            await world.create(NATIVE, wanted)
        template = {"name": "launcher", "schedulingPolicy": {"basic": {}}}
        await world.create(
            WORKLOADS, {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}}
        )
        with pytest.raises(ForbiddenError, match='Template "workers" not found in Workload "w"'):
            await world.create(NATIVE, wanted)
        reference["podGroupTemplateName"] = "launcher"
        await world.create(NATIVE, wanted)
        found = await world.get(NATIVE, "a") or {}
        assert found["spec"]["podGroupTemplateRef"] == {"workload": reference}


@pytest.mark.parametrize("spec", [{}, None, {"schedulingPolicy": None}])
async def test_a_podgroup_without_policy_is_refused(spec: Any) -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        for resource in (NATIVE, WORKLOADS):
            document = {"metadata": {"name": "a"}} | ({} if spec is None else {"spec": spec})
            with pytest.raises(InvalidError):
                await world.create(resource, document)


async def test_what_groups_are_cannot_be_changed() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        await world.create(NATIVE, pod_group("a", 2) | {"status": {"conditions": []}})
        await world.create(PODS, member("p", "a"))
        template = {"name": "workers", "schedulingPolicy": {"basic": {}}}
        spec = {"podGroupTemplates": [template]}
        await world.create(WORKLOADS, {"metadata": {"name": "w"}, "spec": spec})
        for resource, name, change, text in (
            (NATIVE, "a", {"schedulingPolicy": {"gang": {"minCount": 1}}}, "field is immutable"),
            (WORKLOADS, "w", {"podGroupTemplates": []}, "field is immutable"),
            (PODS, "p", {"schedulingGroup": {"podGroupName": "b"}}, "pod updates may not change"),
        ):
            with pytest.raises(InvalidError, match=text):
                await world.client.patch(resource, name, "default", patch={"spec": change})


@pytest.mark.parametrize(
    ("role", "verb", "resources"),
    [
        ("system:aggregate-to-view", "list", ["podgroups", "podgroups/status", "workloads"]),
        ("system:aggregate-to-edit", "create", ["podgroups", "workloads"]),
    ],
)
async def test_default_roles_include_groups(role: str, verb: str, resources: list[str]) -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        rules = (await world.client.get(CLUSTER_ROLES, role))["rules"]
        (rule,) = (each for each in rules if each["apiGroups"] == [NATIVE.group])
        assert rule["resources"] == resources
        assert verb in rule["verbs"]


async def test_a_pod_must_name_a_possible_group() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        for group, text in (
            ({}, "must specify one of: `podGroupName`"),
            ({"podGroupName": "A"}, r"spec.schedulingGroup.podGroupName: Invalid value: \"A\""),
        ):
            wrong = member("p")
            wrong["spec"]["schedulingGroup"] = group
            with pytest.raises(InvalidError, match=text):
                await world.create(PODS, wrong)


async def test_fields_of_gates_that_are_off_are_dropped() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        gated = {"priority": 5, "schedulingConstraints": {"topology": [{"key": "rack"}]}}
        wanted = pod_group("a", 2)
        wanted["spec"] |= gated
        await world.create(NATIVE, wanted)
        found = await world.get(NATIVE, "a") or {}
        assert found["spec"].keys() <= {"schedulingPolicy", "podGroupTemplateRef"}


async def test_two_groups_of_processes_that_fit_only_one_at_a_time_both_finish(
    tmp_path: Path,
) -> None:
    """Each process waits for the other one of its group, so half a group would wait forever."""
    catalog = tmp_path / "images.yaml"
    catalog.write_text('{"environments": [{"name": "any", "images": ["any"]}]}')
    options = ClusterOptions(
        image_catalogs=(catalog,),
        image_cache=tmp_path / "cache",
        nodes=(NodeSpec(name="local", cpu="2"),),
        sandbox="bare",
    )
    async with LocalCluster(options) as cluster:
        for name in ("a", "b"):
            await cluster.client.create(NATIVE, pod_group(name, 2), "default")
        for number in range(2):
            for name in ("a", "b"):
                mine, other = (tmp_path / f"{name}{each}" for each in (number, 1 - number))
                program = f"touch {mine}; until [ -e {other} ]; do sleep 0.05; done"
                pod = member(f"{name}{number}", name, restartPolicy="Never")
                pod["spec"]["containers"][0] |= {"image": "any", "command": ["sh", "-c", program]}
                await cluster.client.create(PODS, pod, "default")
        async with asyncio.timeout(60.0):
            while (found := await phases_of(cluster)) != {"Succeeded": 4}:
                assert "Failed" not in found
                await asyncio.sleep(0.05)
        for name in ("a", "b"):
            group = await cluster.client.get(NATIVE, name, "default")
            (condition,) = group["status"]["conditions"]
            assert (condition["status"], condition["reason"]) == ("True", "Scheduled")


async def phases_of(cluster: LocalCluster) -> Counter[str]:
    pods = (await cluster.client.list(PODS, "default"))["items"]
    return Counter(each.get("status", {}).get("phase", "Pending") for each in pods)
