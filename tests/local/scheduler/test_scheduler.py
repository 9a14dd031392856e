"""Assignments of pods and reasons against them, by tables; and the running scheduler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from local.controlplane import add_node, control_plane, node, running, template
from traincrew.engine.controller import Manager
from traincrew.engine.events import EventRecorder
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
)
from traincrew.local.scheduler.controller import PRIORITY_CLASSES, Scheduler
from traincrew.local.scheduler.plan import place
from traincrew.local.scheduler.quantity import amount
from traincrew.local.scheduler.state import ClusterState, requests_of

if TYPE_CHECKING:
    from local.controlplane import World
    from traincrew.local.scheduler.outcomes import Plan

UIDS = iter(range(10**9))


def pod(name: str = "p", **more: Any) -> AnyObject:
    meta = {"name": name, "namespace": "default", "uid": f"{name}-{next(UIDS)}"}
    meta |= more.pop("metadata", {})
    requests = more.pop("requests", None)
    spec: dict[str, Any] = {"containers": [{"name": "main"}]}
    if requests:
        spec["containers"][0]["resources"] = {"requests": requests}
    return msgspec.convert({"metadata": meta, "spec": spec | more}, AnyObject)


def cluster(
    *nodes: dict[str, Any], placed: dict[str, list[AnyObject]] | None = None
) -> ClusterState:
    state = ClusterState()
    for document in nodes or (node(),):
        state.set_node(msgspec.convert(document, AnyObject))
    for name, pods in (placed or {}).items():
        for item in pods:
            state.set_pod(item, name)
    return state


def priority(item: AnyObject) -> int:
    return int(item.spec.get("priority") or 0)


def run(state: ClusterState, *pods: AnyObject, missing: str = "") -> Plan:
    return place(pods, state, priority, lambda _: missing)


def where(plan: Plan) -> dict[str, str]:
    return {item.pod.metadata.name: item.node for item in plan.assignments}


# -- quantities and requests ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "value", "expected"),
    [
        ("cpu", "1", 1000),
        ("cpu", "250m", 250),
        ("cpu", "0.1", 100),
        ("cpu", 2, 2000),
        ("cpu", "1n", 1),
        ("memory", "1Ki", 1024),
        ("memory", "1.5Gi", 3 * 2**29),
        ("memory", "1k", 1000),
        ("memory", "1e3", 1000),
        ("memory", "1E", 10**18),
        ("memory", "12E2", 1200),
        ("nvidia.com/gpu", "4", 4),
    ],
)
def test_amounts(resource: str, value: str | int, expected: int) -> None:
    assert amount(resource, value) == expected


@pytest.mark.parametrize("value", ["", "abc", "1Q", "Gi", "1 Gi", "--1", "1e3Mi"])
def test_invalid_quantities_are_named(value: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        amount("memory", value)


def container(cpu: str, *, limit: bool = False, **more: Any) -> dict[str, Any]:
    return {"resources": {"limits" if limit else "requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [container("1", limit=True)]}, 1000),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000),
        (
            {"containers": [container("1")], "initContainers": [container("1"), container("1")]},
            1000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("3")],
            },
            4000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "100m"}}, 1100),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, 4000),
    ],
)
def test_requests_of_a_pod(spec: dict[str, Any], expected: int) -> None:
    assert requests_of(spec) == {"cpu": expected}


# -- one node ------------------------------------------------------------------------------------

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
ZONE: dict[str, Any] = {"labels": {"zone": "a"}}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {key: {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("where_to", "what", "reason"),
    [
        (node(), pod(), None),
        (node(), pod(requests={"cpu": "8"}), None),
        (node(), pod(requests={"cpu": "8001m"}), "Insufficient cpu"),
        (node(), pod(requests={"nvidia.com/gpu": 1}), "Insufficient nvidia.com/gpu"),
        (
            node(),
            pod(requests={"memory": "1Ti", "cpu": "99"}),
            "Insufficient cpu, 1 Insufficient memory",
        ),
        (node(allocatable={"pods": "0"}), pod(), "Too many pods"),
        (node(spec={"unschedulable": True}), pod(), "node(s) were unschedulable"),
        (
            node(spec={"taints": [TAINT]}),
            pod(),
            "node(s) had untolerated taint {gpu: yes}",
        ),
        (node(spec={"taints": [TAINT]}), pod(tolerations=[{"operator": "Exists"}]), None),
        (node(spec={"taints": [TAINT]}), pod(tolerations=[{"key": "gpu", "value": "yes"}]), None),
        (
            node(spec={"taints": [TAINT]}),
            pod(tolerations=[{"key": "gpu", "value": "yes", "effect": "NoExecute"}]),
            "node(s) had untolerated taint {gpu: yes}",
        ),
        (
            node(),
            pod(nodeSelector={"zone": "a"}),
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (node(**ZONE), pod(nodeSelector={"zone": "a"}), None),
        (node(**ZONE), pod(affinity=required(expression("zone", "In", "a", "b"))), None),
        (
            node(**ZONE),
            pod(affinity=required(expression("zone", "NotIn", "a"))),
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (
            node(**ZONE),
            pod(
                affinity=required(expression("zone", "DoesNotExist"), expression("zone", "Exists"))
            ),
            None,
        ),
        (node(labels={"n": "5"}), pod(affinity=required(expression("n", "Gt", "4"))), None),
        (
            node("here"),
            pod(
                affinity=required(
                    {
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": ["here"]}
                        ]
                    }
                )
            ),
            None,
        ),
        (
            node(),
            pod(affinity=required({})),
            "node(s) didn't match Pod's node affinity/selector",
        ),
    ],
)
def test_reasons(where_to: dict[str, Any], what: AnyObject, reason: str | None) -> None:
    plan = run(cluster(where_to), what)

    if reason is None:
        assert where(plan) == {"p": where_to["metadata"]["name"]}
    else:
        (failure,) = plan.failures
        assert failure.message == f"0/1 nodes are available: 1 {reason}."


def test_reasons_are_counted_over_nodes() -> None:
    gpus = [node(f"gpu-{i}", allocatable={"nvidia.com/gpu": "1"}) for i in range(2)]
    state = cluster(
        *gpus,
        node("plain"),
        node("tainted", spec={"taints": [TAINT]}),
        placed={gpu["metadata"]["name"]: [pod(requests={"nvidia.com/gpu": 1})] for gpu in gpus},
    )

    (failure,) = run(state, pod(requests={"nvidia.com/gpu": 1})).failures

    assert failure.message == (
        "0/4 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, "
        "3 Insufficient nvidia.com/gpu."
    )


def test_no_nodes_and_nodes_that_are_not_ready() -> None:
    down = node()
    down["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    (nowhere,) = run(ClusterState(), pod()).failures
    (not_ready,) = run(cluster(down), pod()).failures

    assert nowhere.message == "no nodes available to schedule pods"
    assert not_ready.message == (
        "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."
    )


def test_a_missing_claim_is_named() -> None:
    (failure,) = run(cluster(), pod(), missing='persistentvolumeclaim "x" not found').failures

    assert failure.message == '0/1 nodes are available: persistentvolumeclaim "x" not found.'


def test_host_ports_are_taken_once() -> None:
    def with_port(address: str | None = None, protocol: str = "TCP") -> AnyObject:
        port = {"containerPort": 80, "hostPort": 8080, "protocol": protocol}
        if address:
            port["hostIP"] = address
        return pod(containers=[{"name": "main", "ports": [port]}])

    taken = with_port()

    assert run(cluster(placed={"local": [taken]}), with_port("127.0.0.1")).failures
    assert run(cluster(placed={"local": [taken]}), with_port(protocol="UDP")).assignments
    state = cluster(placed={"local": [with_port("127.0.0.1")]})
    assert run(state, with_port("127.0.0.2")).assignments


def test_host_ports_of_sidecars_are_taken_as_well() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}]
    main = {"name": "main"}
    sidecar = {"name": "side", "ports": ports, "restartPolicy": "Always"}
    taken = pod(containers=[main], initContainers=[sidecar])
    once = pod(containers=[main], initContainers=[{"name": "init", "ports": ports}])
    wants = pod(containers=[{"name": "main", "ports": ports}])

    (failure,) = run(cluster(placed={"local": [taken]}), wants).failures
    reason = "1 node(s) didn't have free ports for the requested pod ports."
    assert failure.message == f"0/1 nodes are available: {reason}"
    assert run(cluster(placed={"local": [once]}), wants).assignments


def test_a_quantity_that_cannot_be_read_is_named() -> None:
    (failure,) = run(cluster(), pod(requests={"cpu": "many"})).failures

    assert "spec.containers[].resources: 'many' is not a quantity" in failure.message


# -- several pods --------------------------------------------------------------------------------


def test_each_decision_counts_for_the_next() -> None:
    pods = [pod(f"p{i}", requests={"cpu": "3"}) for i in range(3)]

    plan = run(cluster(), *pods)

    assert sorted(where(plan)) == ["p0", "p1"]
    assert [item.message for item in plan.failures] == [
        "0/1 nodes are available: 1 Insufficient cpu."
    ]


def test_pods_with_higher_priority_are_scheduled_first() -> None:
    low, high = pod("low", requests={"cpu": "8"}), pod("high", requests={"cpu": "8"}, priority=5)

    plan = run(cluster(), low, high)

    assert where(plan) == {"high": "local"}
    assert not plan.failures[0].would_preempt
    assert run(cluster(placed={"local": [low]}), high).failures[0].would_preempt


def test_finished_pods_use_no_resources() -> None:
    done = pod("done", requests={"cpu": "8"})
    state = cluster(placed={"local": [done]})
    ended = msgspec.convert(msgspec.to_builtins(done) | {"status": {"phase": "Failed"}}, AnyObject)

    assert run(state, pod(requests={"cpu": "8"})).failures
    state.set_pod(ended, "local")
    assert run(state, pod(requests={"cpu": "8"})).assignments


def test_pods_of_one_workload_spread() -> None:
    owner = {"kind": "StatefulSet", "name": "s", "uid": "s", "controller": True}
    pods = [pod(f"p{i}", metadata={"ownerReferences": [owner], "uid": str(i)}) for i in range(6)]

    placed = where(run(cluster(*(node(f"n{i}") for i in range(3))), *pods))

    assert sorted(placed.values()) == ["n0", "n0", "n1", "n1", "n2", "n2"]


def test_preferences() -> None:
    nodes = [node("a", **ZONE), node("b"), node("c")]
    weighted = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "preference": expression("zone", "In", "a")}
            ]
        }
    }
    busy = {"a": [pod(requests={"cpu": "4"})]}
    shunned = node("z", spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})

    assert where(run(cluster(*nodes, placed=busy), pod(affinity=weighted))) == {"p": "a"}
    assert where(run(cluster(*nodes, placed=busy), pod())) == {"p": "b"}
    assert where(run(cluster(shunned, node("y"), placed={"y": [pod()]}), pod())) == {"p": "y"}


# -- neighbours ----------------------------------------------------------------------------------

HOST = "kubernetes.io/hostname"


def affinity(kind: str, *, app: str = "db", key: str = HOST, **more: Any) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key} | more
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def labelled(app: str, **more: Any) -> AnyObject:
    return pod(metadata={"labels": {"app": app}, "uid": f"{app}-{next(UIDS)}"}, **more)


def test_affinity_places_a_pod_with_the_others() -> None:
    nodes = [node("a"), node("b")]
    state = cluster(*nodes, placed={"b": [labelled("db")]})

    assert where(run(state, labelled("web", affinity=affinity("podAffinity")))) == {"p": "b"}
    (failure,) = run(cluster(*nodes), labelled("web", affinity=affinity("podAffinity"))).failures
    assert failure.message == (
        "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    )


def test_the_first_pod_of_a_group_with_affinity_to_itself_is_placed_anywhere() -> None:
    pods = [labelled("db", affinity=affinity("podAffinity")) for _ in range(3)]

    plan = run(cluster(node("a"), node("b")), *pods)

    assert len({item.node for item in plan.assignments}) == 1
    assert plan.failures == []


def test_anti_affinity_works_both_ways() -> None:
    lonely = labelled("db", affinity=affinity("podAntiAffinity"))
    state = cluster(node("a"), placed={"a": [labelled("db")]})
    guarded = cluster(node("a"), placed={"a": [lonely]})

    (first,) = run(state, labelled("db", affinity=affinity("podAntiAffinity"))).failures
    (second,) = run(guarded, labelled("db")).failures

    assert first.message.endswith("1 node(s) didn't match pod anti-affinity rules.")
    assert second.message.endswith("1 node(s) didn't satisfy existing pods anti-affinity rules.")
    assert run(guarded, labelled("web")).assignments


def test_affinity_may_select_other_namespaces() -> None:
    far = pod(metadata={"namespace": "far", "labels": {"app": "db"}, "uid": "far"})
    state = cluster(node("a"), placed={"a": [far]})
    state.namespaces = {"far": {"team": "x"}, "default": {}}
    near = affinity("podAffinity")
    named = affinity("podAffinity", namespaces=["far"])
    selected = affinity("podAffinity", namespaceSelector={"matchLabels": {"team": "x"}})

    assert run(state, labelled("web", affinity=near)).failures
    assert run(state, labelled("web", affinity=named)).assignments
    assert run(state, labelled("web", affinity=selected)).assignments


def spread(hard: bool = True, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        | more
    ]


def test_topology_spread() -> None:
    nodes = [node("a"), node("b", allocatable={"cpu": "0"})]
    pods = [
        labelled("web", topologySpreadConstraints=spread(), requests={"cpu": "1"}) for _ in range(2)
    ]

    plan = run(cluster(*nodes), *pods)

    assert [item.node for item in plan.assignments] == ["a"]
    assert plan.failures[0].message == (
        "0/2 nodes are available: 1 Insufficient cpu, "
        "1 node(s) didn't match pod topology spread constraints."
    )
    bare = node("c")
    bare["metadata"]["labels"] = {}
    (failure,) = run(cluster(bare), labelled("web", topologySpreadConstraints=spread())).failures
    assert failure.message.endswith("topology spread constraints (missing required label).")
    few = labelled("web", topologySpreadConstraints=spread(minDomains=2))
    assert run(cluster(node("a"), placed={"a": [labelled("web")]}), few).failures


def test_a_soft_spread_prefers_the_emptier_place() -> None:
    nodes = [node("a"), node("b")]
    state = cluster(*nodes, placed={"a": [labelled("web")], "b": [labelled("x"), labelled("y")]})

    plan = run(state, labelled("web", topologySpreadConstraints=spread(hard=False)))

    assert where(plan) == {"p": "b"}


# -- running -------------------------------------------------------------------------------------


def pod_document(name: str, **spec: Any) -> dict[str, Any]:
    made = template(**spec)
    return {"metadata": {"name": name}, "spec": made["spec"]}


def greedy(gpus: int = 1) -> list[dict[str, Any]]:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return [{"name": "main", "image": "busybox", "resources": limits}]


async def waits(world: World, name: str) -> dict[str, Any]:
    async def explained() -> list[dict[str, Any]]:
        found = await world.get(PODS, name) or {}
        return [
            item
            for item in found["status"].get("conditions") or ()
            if item["type"] == "PodScheduled" and item["status"] == "False"
        ]

    (condition,) = await world.until(explained, f"{name} reports why it waits")
    return condition


async def node_of(world: World, name: str) -> str:
    async def bound() -> str:
        found = await world.get(PODS, name) or {}
        return str(found.get("spec", {}).get("nodeName", ""))

    return str(await world.until(bound, f"{name} is bound"))


async def test_a_pod_is_bound_and_an_event_recorded() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        await world.create(PODS, pod_document("p"))

        assert await node_of(world, "p") == "local"
        events = await world.events("p")
        assert events == [("Scheduled", "Successfully assigned default/p to local")]
        found = await world.get(PODS, "p") or {}
        assert [(item["type"], item["status"]) for item in found["status"]["conditions"]] == [
            ("PodScheduled", "True")
        ]


async def test_an_unschedulable_pod_reports_why_once_and_is_bound_when_it_fits() -> None:
    gpu = node(allocatable={"nvidia.com/gpu": "1"})
    async with control_plane(nodes=(gpu,), controllers=False, kubelet=False) as world:
        await world.create(PODS, pod_document("first", containers=greedy()))
        await node_of(world, "first")
        await world.create(PODS, pod_document("second", containers=greedy()))

        condition = await waits(world, "second")
        assert condition["reason"] == "Unschedulable"
        assert condition["message"] == ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
        await world.create(PODS, pod_document("small"))
        await node_of(world, "small")
        events = await world.events("second")
        assert events == [("FailedScheduling", condition["message"])]

        await world.client.delete(PODS, "first", "default", grace_period=0)
        await node_of(world, "second")


async def test_pending_pods_are_scheduled_when_a_pod_ends_or_a_node_changes() -> None:
    gpu = node(allocatable={"nvidia.com/gpu": "1"})
    async with control_plane(nodes=(gpu,), controllers=False, kubelet=False) as world:
        for name in ("a", "b", "c", "d"):
            await world.create(PODS, pod_document(name, containers=greedy()))
        await node_of(world, "a")
        await waits(world, "d")
        # The pod that has waited longest is scheduled first, whatever its status was meanwhile.
        for name in ("b", "c"):
            await world.client.patch(
                PODS, name, "default", patch={"metadata": {"labels": {"x": "y"}}}
            )

        first = await world.get(PODS, "a")
        assert first is not None
        await world.finish(first)
        await node_of(world, "b")

        capacity = {"status": {"allocatable": {"nvidia.com/gpu": "2"}}}
        await world.client.patch(NODES, "local", patch=capacity, subresource="status")
        await node_of(world, "c")

        await add_node(world.client, node("other", allocatable={"nvidia.com/gpu": "1"}))
        assert await node_of(world, "d") == "other"


async def test_gates_hold_a_pod_back() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        await world.create(PODS, pod_document("p", schedulingGates=[{"name": "x.y/z"}]))

        condition = await waits(world, "p")
        assert condition["reason"] == "SchedulingGated"
        assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"
        await world.client.patch(PODS, "p", "default", patch={"spec": {"schedulingGates": []}})
        await node_of(world, "p")


async def test_a_claim_has_to_exist_and_to_be_bound() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        await world.create(PODS, pod_document("p", volumes=volumes))

        condition = await waits(world, "p")
        assert 'persistentvolumeclaim "data" not found' in condition["message"]
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await world.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": spec})

        async def unbound() -> bool:
            text = "pod has unbound immediate PersistentVolumeClaims"
            return text in (await waits(world, "p"))["message"]

        await world.until(unbound)
        bound = {"status": {"phase": "Bound"}}
        await world.client.patch(
            PERSISTENT_VOLUME_CLAIMS, "data", "default", patch=bound, subresource="status"
        )
        await node_of(world, "p")


async def test_unsupported_fields_are_reported_once() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        await world.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        everything = [{"name": "main", "image": "busybox", "resources": {"limits": {"cpu": "8"}}}]
        await world.create(PODS, pod_document("low", containers=everything))
        await node_of(world, "low")
        urgent = pod_document("urgent", containers=everything, priorityClassName="high")
        await world.create(PODS, urgent)

        await waits(world, "urgent")

        reported = [
            text for reason, text in await world.events("urgent") if reason == "NotEmulated"
        ]
        assert len(reported) == 1
        assert reported[0].startswith(
            "spec.priorityClassName: the embedded cluster does not preempt"
        )


async def test_pods_of_another_scheduler_are_left_to_it() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        await world.control.kill()
        manager = Manager(world.client)
        events = EventRecorder(world.client, "test")
        scheduler = Scheduler(manager, events, ["claimed"], patience=0.0)
        manager.add(scheduler.controller)
        manager.add_runnable(events.run)
        world.recorder = events
        async with running(manager):
            for name in ("claimed", "volcano"):
                await world.create(PODS, pod_document(name, schedulerName=name))
            await node_of(world, "claimed")
            condition = await waits(world, "volcano")

        assert (condition["status"], condition["reason"]) == ("False", "NoScheduler")
        assert condition["message"] == (
            'spec.schedulerName: no scheduler "volcano" looks after this pod; run one, start the '
            "cluster with --scheduler-name volcano to have the built-in scheduler place it, or "
            "remove the field"
        )
        assert await world.events("volcano") == [("FailedScheduling", condition["message"])]
        (stand_in, _) = await world.events("claimed")
        assert stand_in[1].startswith("spec.schedulerName: the built-in scheduler stands in for")
        assert "nodeName" not in (await world.client.get(PODS, "volcano", "default"))["spec"]


async def test_a_pod_that_another_scheduler_reacted_to_is_left_alone() -> None:
    async with control_plane(controllers=False, kubelet=False) as world:
        await world.control.kill()
        await world.create(PODS, pod_document("p", schedulerName="volcano"))
        own = {"type": "PodScheduled", "status": "False", "reason": "Waiting", "message": "a gang"}
        await world.status((await world.pods())[0], {"conditions": [own]})
        await world.create(PODS, pod_document("last"))
        manager = Manager(world.client)
        events = EventRecorder(world.client, "test")
        manager.add(Scheduler(manager, events, patience=0.0).controller)
        async with running(manager):
            await node_of(world, "last")
        (p,) = [pod for pod in await world.pods() if pod["metadata"]["name"] == "p"]
        assert [each["reason"] for each in p["status"]["conditions"]] == ["Waiting"]


async def test_many_pods_are_bound_quickly() -> None:
    big = node(allocatable={"pods": "500"})
    async with control_plane(nodes=(big,), controllers=False, kubelet=False) as world:
        await asyncio.gather(
            *(world.create(PODS, pod_document(f"p{number}")) for number in range(60))
        )

        async def all_bound() -> bool:
            pods = await world.pods()
            return len(pods) == 60 and all(item["spec"].get("nodeName") for item in pods)

        await world.until(all_bound)
