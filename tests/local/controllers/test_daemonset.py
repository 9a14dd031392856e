"""Plans of a DaemonSet by tables, and DaemonSets on the embedded API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.controlplane import add_node, control_plane, node, template
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import CONTROLLER_REVISIONS, NODES, PODS
from traincrew.local.controllers.common import format_time
from traincrew.local.controllers.daemonset.backoff import Backoff
from traincrew.local.controllers.daemonset.history import History, choose, obsolete
from traincrew.local.controllers.daemonset.nodes import (
    DAEMON_SETS,
    Fit,
    Node,
    fit,
    pod_of,
    target_of,
    tolerations,
)
from traincrew.local.controllers.daemonset.plan import Plan, plan_daemon_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from local.controlplane import World

NOW = 1_700_000_000.0
NODE_NAMES = ("n1", "n2", "n3")
OTHER = {"type": "OnDelete"}


def daemon_set(
    status: dict[str, Any] | None = None, rolling: dict[str, Any] | None = None, **spec: Any
) -> AnyObject:
    meta = spec.pop("metadata", {})
    update = {"type": "RollingUpdate", "rollingUpdate": rolling or {"maxUnavailable": 1}}
    return msgspec.convert(
        {
            "metadata": {"name": "agent", "namespace": "default", "uid": "D", "generation": 3}
            | meta,
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": template(),
                "updateStrategy": update,
            }
            | spec,
            "status": status or {},
        },
        AnyObject,
    )


def pod(
    where: str, state: str = "ready", revision: str = "new", *, name: str = "", ready: float = 10
) -> AnyObject:
    """Return a pod of a node; its state is a phase, or ready, starting, waiting or going."""
    phases = {"ready": "Running", "starting": "Running", "going": "Running", "waiting": "Pending"}
    metadata: dict[str, Any] = {
        "name": name or f"agent-{where}",
        "namespace": "default",
        "uid": f"u-{name or where}",
        "labels": {"app": "a", "controller-revision-hash": revision},
    }
    made = pod_of(daemon_set(), where, revision)
    spec = made["spec"] | ({} if state == "waiting" else {"nodeName": where})
    status: dict[str, Any] = {"phase": phases.get(state, state)}
    if state == "going":
        metadata["deletionTimestamp"] = format_time(NOW + 30)
    if state in {"ready", "going"}:
        since = format_time(NOW - ready)
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, AnyObject)


def nodes(*names: str) -> list[Node]:
    return [Node(name, {}, []) for name in names or NODE_NAMES]


def decide(
    subject: AnyObject,
    *pods: AnyObject,
    on: Iterable[Node] | None = None,
    backoff: Backoff | None = None,
    now: float = NOW,
) -> Plan:
    return plan_daemon_set(
        subject,
        nodes() if on is None else on,
        pods,
        History("new"),
        now=now,
        backoff=backoff or Backoff(),
    )


def changes(plan: Plan) -> tuple[list[str], list[str]]:
    """Return the nodes that get a pod, and the names of the pods that are deleted."""
    made = [msgspec.convert(document, AnyObject) for document in plan.create]
    return [target_of(item) for item in made], [item.metadata.name for item in plan.delete]


# -- nodes ---------------------------------------------------------------------------------------

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
EXECUTE = {"key": "gpu", "value": "yes", "effect": "NoExecute"}
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
LOST = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("spec", "labels", "taints", "expected"),
    [
        ({}, {}, [], (True, True)),
        ({"nodeName": "n1"}, {}, [], (True, True)),
        ({"nodeName": "n2"}, {}, [], (False, False)),
        ({"nodeSelector": {"zone": "a"}}, {"zone": "a"}, [], (True, True)),
        ({"nodeSelector": {"zone": "a"}}, {"zone": "b"}, [], (False, False)),
        ({"affinity": AFFINITY}, {"zone": "b"}, [], (True, True)),
        ({"affinity": AFFINITY}, {}, [], (False, False)),
        ({}, {}, [GPU], (False, True)),
        ({}, {}, [EXECUTE], (False, False)),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, {}, [GPU, EXECUTE], (True, True)),
        ({}, {}, [CORDONED, LOST], (True, True)),
        ({}, {}, [{"key": "gpu", "effect": "PreferNoSchedule"}], (True, True)),
    ],
)
def test_nodes(
    spec: dict[str, Any],
    labels: dict[str, str],
    taints: list[dict[str, Any]],
    expected: tuple[bool, bool],
) -> None:
    assert fit(spec, Node("n1", labels, taints)) == Fit(*expected)


def test_a_pod_is_bound_by_its_affinity_and_has_the_default_tolerations() -> None:
    affinity = {"podAffinity": {"x": []}, **AFFINITY}
    subject = daemon_set(
        template=template(affinity=affinity, hostNetwork=True),
        metadata={"annotations": {"deprecated.daemonset.template.generation": "4"}},
    )

    made = pod_of(subject, "n2", "abc")

    assert made["metadata"]["generateName"] == "agent-"
    assert made["metadata"]["labels"] == {
        "app": "a",
        "controller-revision-hash": "abc",
        "pod-template-generation": "4",
    }
    assert made["spec"]["affinity"]["podAffinity"] == {"x": []}
    (terms,) = made["spec"]["affinity"]["nodeAffinity"].values()
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    assert terms == {"nodeSelectorTerms": [{"matchFields": [field]}]}
    assert [each["key"].partition("/")[2] for each in made["spec"]["tolerations"]] == [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
        "network-unavailable",
    ]


def test_a_toleration_for_a_while_becomes_one_without_a_limit() -> None:
    given = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }

    found = tolerations({"tolerations": [given]})

    assert len(found) == 6
    assert "tolerationSeconds" not in found[0]


# -- one pod on each node ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "created", "deleted"),
    [
        ([], ["n1", "n2", "n3"], []),
        ([pod("n1"), pod("n2", "waiting")], ["n3"], []),
        ([pod("n1"), pod("n2"), pod("n3")], [], []),
        # A successor is created when the pod is gone.
        ([pod("n1", "going"), pod("n2"), pod("n3")], [], []),
        ([pod("n1", "Failed"), pod("n2"), pod("n3")], [], ["agent-n1"]),
        ([pod("n1", "Succeeded"), pod("n2"), pod("n3")], [], ["agent-n1"]),
        # One too many: the one that is bound stays.
        ([pod("n1", "waiting", name="b"), pod("n1"), pod("n2"), pod("n3")], [], ["b"]),
        # Nodes that are gone.
        ([pod("n1"), pod("n2"), pod("n3"), pod("n4")], [], []),
        ([pod("n1"), pod("n2"), pod("n3"), pod("n4", "waiting")], [], ["agent-n4"]),
    ],
)
def test_each_node_has_one(pods: list[AnyObject], created: list[str], deleted: list[str]) -> None:
    for update in (OTHER, {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}):
        assert changes(decide(daemon_set(updateStrategy=update), *pods)) == (created, deleted)


def test_a_node_that_no_longer_fits_loses_its_pod_unless_only_new_ones_are_kept_away() -> None:
    pods = [pod("n1"), pod("n2")]
    places = [Node("n1", {}, [GPU]), Node("n2", {}, [EXECUTE])]

    plan = decide(daemon_set(), *pods, on=places)

    assert changes(plan) == ([], ["agent-n2"])
    assert plan.status["numberMisscheduled"] == 2
    assert plan.status["desiredNumberScheduled"] == 0


def test_pods_that_have_ended_are_reported() -> None:
    plan = decide(daemon_set(), pod("n1", "Failed"), pod("n2", "Succeeded"), pod("n3"))

    assert [(event.type, event.reason, event.message) for event in plan.events] == [
        (
            "Warning",
            "FailedDaemonPod",
            "Found failed daemon pod default/agent-n1 on node n1, will try to kill it",
        ),
        (
            "Normal",
            "SucceededDaemonPod",
            "Found succeeded daemon pod default/agent-n2 on node n2, will try to delete it",
        ),
    ]


def test_a_pod_that_fails_again_waits_longer_each_time() -> None:
    subject, failed, now, backoff = daemon_set(), pod("n1", "Failed"), NOW, Backoff()
    waits = []
    for _ in range(12):
        plan = decide(subject, failed, on=nodes("n1"), backoff=backoff, now=now)
        assert changes(plan) == ([], ["agent-n1"])
        waiting = decide(subject, failed, on=nodes("n1"), backoff=plan.backoff, now=now)
        assert changes(waiting) == ([], [])
        assert waiting.requeue_at is not None
        waits.append(waiting.requeue_at - now)
        now, backoff = waiting.requeue_at, waiting.backoff

    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    later = decide(subject, failed, on=nodes("n1"), backoff=backoff, now=now + 2 * 900)
    assert later.backoff.failures["n1"].delay == 1
    changed = daemon_set({"observedGeneration": 4})
    assert changes(decide(changed, failed, on=nodes("n1"), backoff=backoff)) == ([], ["agent-n1"])


def test_a_node_without_room_changes_nothing_and_nothing_is_made_beyond_the_burst() -> None:
    many = [Node(f"n{number:03}", {}, []) for number in range(300)]

    plan = decide(daemon_set(), on=many)

    assert len(plan.create) == 250
    assert plan.status["numberUnavailable"] == 300


# -- updates -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "states", "deleted"),
    [
        (1, ["old", "old", "old"], ["agent-n1"]),
        (2, ["old", "old", "old"], ["agent-n1", "agent-n2"]),
        ("50%", ["old", "old", "old"], ["agent-n1", "agent-n2"]),
        (1, ["new", "old", "old"], ["agent-n2"]),
        (1, ["new starting", "old", "old"], []),
        (1, ["old going", "old", "old"], []),
        # One that is not available is replaced at once, beyond the limit, too.
        (1, ["old starting", "old starting", "old"], ["agent-n1", "agent-n2"]),
        (1, ["new", "new", "new"], []),
    ],
)
def test_rolling_update(limit: int | str, states: list[str], deleted: list[str]) -> None:
    pods = [
        pod(name, state.partition(" ")[2] or "ready", state.partition(" ")[0])
        for name, state in zip(NODE_NAMES, states, strict=True)
    ]

    assert changes(decide(daemon_set(rolling={"maxUnavailable": limit}), *pods)) == ([], deleted)
    assert changes(decide(daemon_set(updateStrategy=OTHER), *pods)) == ([], [])


def test_pods_are_waited_for_until_they_are_available() -> None:
    pods = [pod("n1", ready=4), pod("n2", revision="old"), pod("n3", revision="old")]
    subject = daemon_set(minReadySeconds=6)

    plan = decide(subject, *pods)

    assert changes(plan) == ([], [])
    assert plan.requeue_at == NOW + 2
    assert changes(decide(subject, *pods, now=NOW + 2)) == ([], ["agent-n2"])


def old(where: str, state: str = "ready") -> AnyObject:
    return pod(where, state, "old", name=f"old-{where}")


@pytest.mark.parametrize(
    ("pods", "created", "deleted"),
    [
        ([old("n1"), old("n2"), old("n3")], ["n1"], []),
        ([old("n1"), pod("n1", "starting"), old("n2"), old("n3")], [], []),
        ([old("n1"), pod("n1"), old("n2"), old("n3")], [], ["old-n1"]),
        # The old one is of no use any more.
        ([old("n1", "starting"), old("n2"), old("n3")], ["n1", "n2"], []),
        ([old("n1", "starting"), pod("n1", "starting"), old("n2"), old("n3")], [], ["old-n1"]),
        # One is on its way out, and not counted.
        ([pod("n1", "going"), old("n2"), old("n3")], ["n1"], []),
        ([old("n1"), pod("n1"), pod("n1", name="z"), old("n2"), old("n3")], [], ["z", "old-n1"]),
    ],
)
def test_an_update_that_surges(
    pods: list[AnyObject], created: list[str], deleted: list[str]
) -> None:
    subject = daemon_set(rolling={"maxUnavailable": 0, "maxSurge": 1})

    assert changes(decide(subject, *pods)) == (created, deleted)


def test_a_surge_leaves_a_node_when_another_one_has_taken_over() -> None:
    subject = daemon_set(rolling={"maxUnavailable": 0, "maxSurge": 1})
    places = [Node("n1", {}, [GPU]), Node("n2", {}, [])]

    assert changes(decide(subject, old("n1"), pod("n2", "starting"), on=places)) == ([], [])
    assert changes(decide(subject, old("n1"), pod("n2"), on=places)) == ([], ["old-n1"])


class Cluster:
    """Pods of a DaemonSet as they come and go; each becomes ready a step after its creation."""

    def __init__(self, subject: AnyObject, states: dict[str, list[str]]) -> None:
        self.subject, self.made = subject, 0
        self.pods = {
            f"{name}-{number}": pod(name, state, revision, name=f"{name}-{number}")
            for name, each in states.items()
            for number, (revision, state) in enumerate(map(str.split, each))
        }

    def step(self) -> bool:
        """Carry out a plan; return whether anything has changed."""
        plan, starting = decide(self.subject, *self.pods.values()), len(self.pods)
        starting -= len(self.available())
        for name, each in self.pods.items():
            if each.status["phase"] != "Failed":
                revision = each.metadata.labels["controller-revision-hash"]
                self.pods[name] = pod(target_of(each), "ready", revision, name=name)
        created, deleted = changes(plan)
        for name in deleted:
            del self.pods[name]
        for name in created:
            self.made += 1
            self.pods[f"made-{self.made}"] = pod(name, "starting", name=f"made-{self.made}")
        return bool(created or deleted or starting)

    def available(self) -> list[str]:
        return [target_of(each) for each in self.pods.values() if each.status.get("conditions")]


_STATES = st.sampled_from(
    ["old ready", "old starting", "old waiting", "old Failed", "new ready", "new starting"]
)
_LIMITS = st.sampled_from(
    [{"maxUnavailable": 1}, {"maxUnavailable": 2}, {"maxUnavailable": 0, "maxSurge": 1}]
)


@given(
    _LIMITS,
    st.fixed_dictionaries({name: st.lists(_STATES, max_size=3) for name in NODE_NAMES}),
)
def test_every_update_ends_with_one_new_pod_on_each_node(
    rolling: dict[str, Any], states: dict[str, list[str]]
) -> None:
    cluster = Cluster(daemon_set(rolling=rolling), states)

    steps = 0
    while cluster.step():
        steps += 1
        assert steps < 40

    labels = [each.metadata.labels["controller-revision-hash"] for each in cluster.pods.values()]
    assert labels == ["new"] * 3
    assert sorted(map(target_of, cluster.pods.values())) == list(NODE_NAMES)


@given(_LIMITS)
def test_an_update_keeps_its_limit(rolling: dict[str, Any]) -> None:
    cluster = Cluster(daemon_set(rolling=rolling), {name: ["old ready"] for name in NODE_NAMES})
    going_on = True
    while going_on:
        going_on = cluster.step()
        assert len(set(cluster.available())) >= len(NODE_NAMES) - rolling["maxUnavailable"]
        assert len(cluster.pods) <= len(NODE_NAMES) + rolling.get("maxSurge", 0)


# -- status and revisions ------------------------------------------------------------------------


def test_status() -> None:
    pods = [pod("n1"), pod("n2", "starting"), pod("n3", revision="old"), pod("n4")]
    known = {"collisionCount": 2, "numberAvailable": 7}
    places = [*nodes(), Node("n4", {}, [GPU]), Node("n5", {}, [])]

    plan = decide(daemon_set(known, minReadySeconds=10), *pods, on=places)

    assert plan.status == {
        "collisionCount": 2,
        "observedGeneration": 3,
        "desiredNumberScheduled": 4,
        "currentNumberScheduled": 3,
        "numberMisscheduled": 1,
        "numberReady": 2,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
        "numberUnavailable": 2,
    }


def revision(number: int, image: str = "busybox", name: str = "") -> AnyObject:
    subject = daemon_set(template=template(containers=[{"name": "main", "image": image}]))
    document = choose(subject, []).create
    assert document is not None
    document["revision"] = number
    if name:
        document["metadata"]["name"] = name
        document["metadata"]["labels"]["controller-revision-hash"] = name
    return msgspec.convert(document, AnyObject)


def test_the_revision_of_a_template_is_found_again() -> None:
    first, second = revision(1), revision(2, "other")

    fresh, back = choose(daemon_set(), []), choose(daemon_set(), [second, first])

    assert fresh.create is not None
    assert fresh.create["revision"] == 1
    assert fresh.create["metadata"]["labels"] == {
        "app": "a",
        "controller-revision-hash": fresh.current,
    }
    assert list(fresh.create["data"]["spec"]["template"]) == ["$patch", "metadata", "spec"]
    assert (back.create, back.current, back.old) == (None, fresh.current, [second])
    assert back.renumber == (first, 3)
    again = choose(daemon_set({"collisionCount": 1}), [second])
    assert again.current not in {fresh.current, back.current}


def test_duplicates_of_a_revision_are_found_and_those_in_use_are_kept() -> None:
    same = [revision(1), revision(2, name="twin")]
    olds = [revision(number, f"i{number}") for number in range(3, 7)]

    history = choose(daemon_set(revisionHistoryLimit=2), [*same, *olds])

    assert history.current == "twin"
    assert history.duplicates == [same[0]]
    assert history.renumber == (same[1], 7)
    used = olds[0].metadata.labels["controller-revision-hash"]
    assert obsolete(daemon_set(revisionHistoryLimit=2), history, {used}) == olds[1:3]


# -- on the embedded API server ------------------------------------------------------------------


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane(nodes=(node("n1"), node("n2"), node("n3"))) as running:
        yield running


def manifest(**spec: Any) -> dict[str, Any]:
    inner = {"selector": {"matchLabels": {"app": "a"}}, "template": template()} | spec
    return {"metadata": {"name": "agent"}, "spec": inner}


def places(pods: list[dict[str, Any]]) -> list[str]:
    return sorted(each["spec"]["nodeName"] for each in pods)


async def until_places(world: World, *expected: str) -> list[dict[str, Any]]:
    async def there() -> list[dict[str, Any]] | None:
        pods = await world.pods()
        settled = all(each["status"]["phase"] == "Running" for each in pods)
        return pods if settled and places(pods) == sorted(expected) else None

    return await world.until(there, f"pods on {expected}")


async def test_every_node_has_a_pod_also_a_new_one_and_a_cordoned_one(world: World) -> None:
    await world.client.patch(NODES, "n2", patch={"spec": {"unschedulable": True}})
    await world.create(DAEMON_SETS, manifest())
    await until_places(world, "n1", "n2", "n3")

    await add_node(world.client, node("n4"))
    await until_places(world, "n1", "n2", "n3", "n4")
    found = await world.until_status(
        DAEMON_SETS, "agent", desiredNumberScheduled=4, numberReady=4, numberAvailable=4
    )

    assert found["status"] == {
        "currentNumberScheduled": 4,
        "desiredNumberScheduled": 4,
        "numberAvailable": 4,
        "numberMisscheduled": 0,
        "numberReady": 4,
        "observedGeneration": 1,
        "updatedNumberScheduled": 4,
    }
    events = [reason for reason, _ in await world.events("agent")]
    assert events == ["SuccessfulCreate"] * 4


async def test_labels_and_taints_of_nodes_decide(world: World) -> None:
    await world.client.patch(NODES, "n1", patch={"metadata": {"labels": {"disk": "ssd"}}})
    await world.create(DAEMON_SETS, manifest(template=template(nodeSelector={"disk": "ssd"})))
    await until_places(world, "n1")

    await world.client.patch(NODES, "n2", patch={"metadata": {"labels": {"disk": "ssd"}}})
    await until_places(world, "n1", "n2")
    await world.client.patch(NODES, "n1", patch={"metadata": {"labels": {"disk": None}}})
    await until_places(world, "n2")
    await world.client.patch(NODES, "n2", patch={"spec": {"taints": [EXECUTE]}})
    await world.until_pods(0)


async def test_pods_that_are_deleted_or_fail_are_replaced(world: World) -> None:
    await world.create(DAEMON_SETS, manifest())
    first = await until_places(world, "n1", "n2", "n3")
    names = {each["metadata"]["name"] for each in first}

    await world.client.delete(PODS, first[0]["metadata"]["name"], "default")
    await world.finish(first[1], 1)

    async def replaced() -> bool:
        pods = await until_places(world, "n1", "n2", "n3")
        return len(names & {each["metadata"]["name"] for each in pods}) == 1

    await world.until(replaced)
    reasons = [reason for reason, _ in await world.events("agent")]
    assert reasons.count("FailedDaemonPod") == 1
    assert reasons.count("SuccessfulDelete") == 1


async def revisions(world: World) -> list[tuple[int, str]]:
    found = await world.list(CONTROLLER_REVISIONS)
    label = "controller-revision-hash"
    return sorted((each["revision"], each["metadata"]["labels"][label]) for each in found)


async def until_image(world: World, image: str) -> list[dict[str, Any]]:
    async def updated() -> list[dict[str, Any]] | None:
        pods = await until_places(world, "n1", "n2", "n3")
        images = {each["spec"]["containers"][0]["image"] for each in pods}
        return pods if images == {image} else None

    return await world.until(updated, f"pods with {image}")


def image_patch(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


async def test_a_rolling_update_and_back(world: World) -> None:
    await world.create(DAEMON_SETS, manifest())
    await until_image(world, "busybox")
    ((number, first),) = await revisions(world)
    assert number == 1

    await world.client.patch(DAEMON_SETS, "agent", "default", patch=image_patch("other"))
    pods = await until_image(world, "other")
    await world.until_status(DAEMON_SETS, "agent", updatedNumberScheduled=3, numberAvailable=3)
    _, (number, second) = await revisions(world)
    assert number == 2
    labels = [each["metadata"]["labels"] for each in pods]
    assert {each["controller-revision-hash"] for each in labels} == {second}
    assert {each["pod-template-generation"] for each in labels} == {"2"}

    await world.restart()
    await world.client.patch(DAEMON_SETS, "agent", "default", patch=image_patch("busybox"))
    await until_image(world, "busybox")
    assert await revisions(world) == [(2, second), (3, first)]


async def test_an_update_that_surges_and_one_that_waits_for_deletions(world: World) -> None:
    strategy = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "100%"}}
    await world.create(DAEMON_SETS, manifest(updateStrategy=strategy))
    await until_image(world, "busybox")
    await world.client.patch(DAEMON_SETS, "agent", "default", patch=image_patch("other"))
    before = await until_image(world, "other")

    change = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    patch = {"spec": image_patch("third")["spec"] | change}
    await world.client.patch(DAEMON_SETS, "agent", "default", patch=patch)
    await world.until_status(DAEMON_SETS, "agent", observedGeneration=3)
    assert await until_image(world, "other") == before
    for each in before:
        await world.client.delete(PODS, each["metadata"]["name"], "default")
    await until_image(world, "third")


async def test_names_of_revisions_that_are_taken_are_counted(world: World) -> None:
    await world.control.kill()
    created = await world.create(DAEMON_SETS, manifest())
    document = choose(msgspec.convert(created, AnyObject), []).create
    assert document is not None
    name = document["metadata"]["name"]
    await world.create(
        CONTROLLER_REVISIONS, {"metadata": {"name": name}, "data": {}, "revision": 1}
    )

    await world.start()

    await until_places(world, "n1", "n2", "n3")
    await world.until_status(DAEMON_SETS, "agent", collisionCount=1, numberReady=3)


async def test_orphans_are_adopted_and_deleted_with_the_set(world: World) -> None:
    await world.create(DAEMON_SETS, manifest())
    before = await until_places(world, "n1", "n2", "n3")
    await world.client.delete(DAEMON_SETS, "agent", "default", propagation="Orphan")
    await world.until_gone(DAEMON_SETS, "agent")

    await world.create(DAEMON_SETS, manifest())
    await world.until_status(DAEMON_SETS, "agent", numberReady=3, updatedNumberScheduled=3)
    names = [each["metadata"]["name"] for each in before]
    assert [each["metadata"]["name"] for each in await world.pods()] == names
    await world.client.delete(DAEMON_SETS, "agent", "default")
    await world.until_pods(0)

    async def no_revisions() -> bool:
        return not await world.list(CONTROLLER_REVISIONS)

    await world.until(no_revisions)
