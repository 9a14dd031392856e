"""Groups of pods: their minimum is placed at once or not at all. Tables and properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.controlplane import node
from traincrew.engine.objects import AnyObject
from traincrew.local.scheduler import groups
from traincrew.local.scheduler.groups import COSCHEDULING, NATIVE, Group, GroupKey
from traincrew.local.scheduler.plan import place
from traincrew.local.scheduler.state import ClusterState, requests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.local.scheduler.outcomes import Plan


def pod(name: str, cpu: int = 1, group: str = "", priority: int = 0, **more: Any) -> AnyObject:
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}],
        "priority": priority,
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    meta = {"name": name, "namespace": "default", "uid": name} | more.pop("metadata", {})
    return msgspec.convert({"metadata": meta, "spec": spec | more}, AnyObject)


def cluster(
    *cpus: int, placed: Iterable[tuple[AnyObject, str]] = (), pods: int = 100
) -> ClusterState:
    """Return nodes `n0`, `n1` and so on, with these numbers of cpus."""
    state = ClusterState()
    for number, cpu in enumerate(cpus):
        document = node(f"n{number}", allocatable={"cpu": str(cpu), "pods": str(pods)})
        state.set_node(msgspec.convert(document, AnyObject))
    for item, where in placed:
        state.set_pod(item, where)
    return state


def priority(item: AnyObject) -> int:
    return int(item.spec.get("priority") or 0)


def finder(*known: Group) -> Callable[[AnyObject], Group | None]:
    by_key = {group.key: group for group in known}

    def find(item: AnyObject) -> Group | None:
        key = groups.membership(item)
        return None if key is None else by_key.get(key, groups.missing(key))

    return find


def gang(name: str, minimum: int, **more: Any) -> Group:
    return Group(GroupKey(NATIVE.group, "default", name), minimum, **more)


def run(state: ClusterState, pods: Iterable[AnyObject], *known: Group) -> Plan:
    return place(pods, state, priority, groups=finder(*known))


def bound(plan: Plan) -> list[str]:
    return sorted(item.pod.metadata.name for item in plan.assignments)


def messages(plan: Plan) -> set[str]:
    return {failure.message for failure in plan.failures}


def members(name: str, number: int, cpu: int = 1, **more: Any) -> list[AnyObject]:
    return [pod(f"{name}-{index}", cpu, name, **more) for index in range(number)]


def doomed(item: AnyObject) -> AnyObject:
    meta = msgspec.structs.replace(item.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(item, metadata=meta)


def test_a_group_that_fits_is_placed_whole() -> None:
    plan = run(cluster(2, 2), members("a", 4), gang("a", 4))
    assert bound(plan) == ["a-0", "a-1", "a-2", "a-3"]
    assert plan.groups == {}


def test_a_group_that_does_not_fit_takes_nothing() -> None:
    state = cluster(2, 1)
    plan = run(state, [*members("a", 4), pod("single", 3), pod("small")], gang("a", 4))

    assert bound(plan) == ["small"]
    text = (
        'pod group "a" is unschedulable: 3 pods fit at once, minCount is 4. '
        "0/2 nodes are available: 2 Insufficient cpu."
    )
    assert messages(plan) == {text, "0/2 nodes are available: 2 Insufficient cpu."}
    assert list(plan.groups.values()) == [text]
    assert sum(each.used.get("cpu", 0) for each in state.nodes()) == 1000


def test_a_group_without_podgroup_waits() -> None:
    plan = run(cluster(8), members("a", 2))
    assert bound(plan) == []
    assert messages(plan) == {
        'waiting for pods\'s pod group "a" to appear in scheduling queue',
    }
    assert all(failure.incomplete for failure in plan.failures)


def test_a_group_with_too_few_pods_waits() -> None:
    plan = run(cluster(8), members("a", 2), gang("a", 3))
    assert bound(plan) == []
    assert messages(plan) == {
        "waiting for minCount pods from a gang to appear in scheduling queue",
    }


def test_as_many_as_fit_are_placed_beyond_the_minimum() -> None:
    plan = run(cluster(3), members("a", 5), gang("a", 2))
    assert len(plan.assignments) == 3
    assert messages(plan) == {"0/1 nodes are available: 1 Insufficient cpu."}
    assert plan.groups == {}


def test_pods_on_nodes_count_towards_the_minimum() -> None:
    first, *others = members("a", 3)
    assert bound(run(cluster(3, placed=[(first, "n0")]), others, gang("a", 3))) == ["a-1", "a-2"]


def test_pods_that_are_being_deleted_do_not_count() -> None:
    first, *others = members("a", 3)
    assert bound(run(cluster(3, placed=[(doomed(first), "n0")]), others, gang("a", 3))) == []


def test_a_group_that_stands_takes_pods_one_by_one() -> None:
    placed = [(each, "n0") for each in members("a", 2)]
    more = [pod("x", 9, "a"), pod("y", 1, "a")]
    plan = run(cluster(3, placed=placed), more, gang("a", 2))
    assert bound(plan) == ["y"]
    assert messages(plan) == {"0/1 nodes are available: 1 Insufficient cpu."}


def test_pods_of_a_basic_group_are_placed_one_by_one() -> None:
    assert bound(run(cluster(2), members("a", 4), gang("a", 0))) == ["a-0", "a-1"]


def test_the_largest_are_tried_first_when_the_order_of_creation_does_not_fit() -> None:
    sizes = [pod("s", 1, "a"), pod("t", 1, "a"), pod("large", 2, "a")]
    assert len(run(cluster(2, 2), sizes, gang("a", 3)).assignments) == 3


def test_coscheduling_groups_speak_as_the_plugin_does() -> None:
    label = {groups.LABEL: "a"}
    pods = [pod(f"p{n}", metadata={"labels": label}) for n in range(2)]
    key = GroupKey(COSCHEDULING.group, "default", "a")

    assert messages(run(cluster(4), pods)) == {"PodGroup default/a not found"}
    assert messages(run(cluster(4), pods, Group(key, 3))) == {
        "cannot find enough sibling pods, current pods number: 2, minMember of group: 3"
    }
    assert bound(run(cluster(4), pods, Group(key, 2))) == ["p0", "p1"]


def test_the_nodes_must_have_the_minimal_resources_free() -> None:
    wanted = gang("a", 1, resources={"cpu": 4000})
    assert bound(run(cluster(2, 1), members("a", 1), wanted)) == []
    assert bound(run(cluster(2, 2), members("a", 1), wanted)) == ["a-0"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minMember": 3}, (3, {}, "")),
        ({"minMember": 3, "minResources": {"cpu": "2"}}, (3, {"cpu": 2000}, "")),
        ({"minMember": "many"}, (0, {}, "spec cannot be read")),
        ({"minMember": 1, "minResources": {"cpu": "two"}}, (0, {}, "spec cannot be read")),
        ({}, (0, {}, "")),
    ],
)
def test_podgroups_of_coscheduling_are_read(spec: Any, expected: tuple[int, Any, str]) -> None:
    found = msgspec.convert({"metadata": {"name": "a"}, "spec": spec}, AnyObject)
    group = groups.read(GroupKey(COSCHEDULING.group, "default", "a"), found)
    assert (group.minimum, group.resources) == expected[:2]
    assert expected[2] in group.problem


# -- preemption ----------------------------------------------------------------------------------


def test_a_group_preempts_as_few_pods_as_it_needs() -> None:
    low = [(pod(f"low-{n}", priority=n), f"n{n % 2}") for n in range(4)]
    state = cluster(2, 2, placed=low)
    plan = run(state, members("a", 2, priority=9), gang("a", 2))

    assert bound(plan) == []
    assert {each.victim.metadata.name for each in plan.preemptions} == {"low-0", "low-1"}
    assert messages(plan) == {"pod group is waiting for preemption to complete"}
    assert [each.used["cpu"] for each in state.nodes()] == [2000, 2000]


def test_no_pod_is_preempted_when_the_minimum_would_not_fit_even_then() -> None:
    placed = [(pod("low"), "n0"), (pod("high", priority=9), "n0")]
    plan = run(cluster(2, placed=placed), members("a", 2, priority=5), gang("a", 2))
    assert plan.preemptions == []


def test_equally_important_pods_are_not_preempted() -> None:
    placed = [(pod("other", priority=5), "n0")]
    plan = run(cluster(1, placed=placed), members("a", 1, priority=5), gang("a", 1))
    assert plan.preemptions == []


def test_a_group_that_never_preempts_waits() -> None:
    placed = [(pod("low"), "n0")]
    pods = members("a", 1, priority=5, preemptionPolicy="Never")
    assert run(cluster(1, placed=placed), pods, gang("a", 1)).preemptions == []


def test_room_of_victims_that_end_is_kept_for_the_group() -> None:
    placed = [(doomed(pod("low-0")), "n0"), (pod("low-1"), "n0")]
    state = cluster(3, placed=placed)
    plan = run(state, [*members("a", 2, priority=5), pod("late")], gang("a", 2))

    assert bound(plan) == []
    assert plan.preemptions == []
    state.drop_pod("low-0")
    assert bound(run(state, [*members("a", 2, priority=5), pod("late")], gang("a", 2))) == [
        "a-0",
        "a-1",
    ]


# -- properties ----------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@st.composite
def situations(draw: st.DrawFn) -> tuple[ClusterState, list[AnyObject], list[Group]]:
    """Draw nodes with some pods, and pending pods of which some are in groups."""
    cpus = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    state = cluster(*cpus)
    known: list[Group] = []
    pending: list[AnyObject] = []
    for number in range(draw(st.integers(0, 3))):
        name = f"g{number}"
        known.append(gang(name, draw(st.integers(0, 5))))
        pending += [
            pod(f"{name}-{index}", cpu, name, draw(st.integers(0, 2)))
            for index, cpu in enumerate(draw(SIZES))
        ]
    pending += [
        pod(f"single-{index}", cpu, "", draw(st.integers(0, 2)))
        for index, cpu in enumerate(draw(SIZES))
    ]
    pending = draw(st.permutations(pending))
    placed = draw(st.integers(0, 3))
    for item in pending[:placed]:
        fits = [each for each in state.nodes() if each.free("cpu") >= requests_of(item.spec)["cpu"]]
        if fits:
            state.set_pod(item, draw(st.sampled_from(fits)).name)
    return state, [each for each in pending if not state.is_placed(each.metadata.uid)], known


@given(situations())
def test_no_group_is_placed_below_its_minimum(
    situation: tuple[ClusterState, list[AnyObject], list[Group]],
) -> None:
    state, pending, known = situation
    before = {group.key: state.standing(group.key) for group in known}
    plan = run(state, pending, *known)

    for group in known:
        gained = sum(groups.membership(each.pod) == group.key for each in plan.assignments)
        assert gained == 0 or before[group.key] + gained >= group.minimum


@given(situations())
def test_every_pod_gets_one_answer_and_no_node_too_many(
    situation: tuple[ClusterState, list[AnyObject], list[Group]],
) -> None:
    state, pending, known = situation
    placed = {info.pod.metadata.name for _, info in state.pods()}
    plan = run(state, pending, *known)

    answers = bound(plan) + [each.pod.metadata.name for each in plan.failures]
    assert sorted(answers) == sorted(each.metadata.name for each in pending)
    assert all(each.free("cpu") >= 0 for each in state.nodes())
    shown = {info.pod.metadata.name for _, info in state.pods()}
    assert shown == placed | set(bound(plan))
    victims = [each.victim.metadata.name for each in plan.preemptions]
    assert len(victims) == len(set(victims))
    assert placed >= set(victims)


@given(situations())
def test_victims_are_less_important_and_none_is_preempted_in_vain(
    situation: tuple[ClusterState, list[AnyObject], list[Group]],
) -> None:
    state, pending, known = situation
    before = {group.key: state.standing(group.key) for group in known}
    plan = run(state, pending, *known)
    for preempted in {each.group for each in plan.preemptions}:
        waiting = [each for each in pending if groups.membership(each) == preempted]
        lowest = min(priority(each) for each in waiting)
        mine = [each.victim for each in plan.preemptions if each.group == preempted]
        assert all(priority(each) < lowest for each in mine)
        (group,) = (each for each in known if each.key == preempted)
        # Other decisions of the round may have used the room as well.
        if {each.group for each in plan.preemptions} == {preempted} and not plan.assignments:
            for victim in mine:
                state.drop_pod(victim.metadata.uid)
            again = run(state, waiting, group)
            assert len(again.assignments) >= group.minimum - before[preempted]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=12),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_no_victim_can_be_spared(low: list[tuple[int, int]], number: int, cpu: int) -> None:
    def full(without: set[str]) -> ClusterState:
        state = cluster(6, 6)
        for index, (size, level) in enumerate(low):
            item = pod(f"low-{index}", size, priority=level)
            first = next((each for each in state.nodes() if each.free("cpu") >= size * 1000), None)
            if first is not None:
                state.set_pod(item, first.name)
        for uid in without:
            state.drop_pod(uid)
        return state

    wanted, known = members("a", number, cpu, priority=2), gang("a", number)
    victims = {each.victim.metadata.uid for each in run(full(set()), wanted, known).preemptions}
    if victims:
        assert len(bound(run(full(victims), wanted, known))) == number
    for spared in victims:
        assert bound(run(full(victims - {spared}), wanted, known)) == []


@given(situations())
def test_without_groups_pods_are_placed_one_after_another(
    situation: tuple[ClusterState, list[AnyObject], list[Group]],
) -> None:
    state, pending, _ = situation
    alone = ClusterState()
    for each in state.nodes():
        document = node(each.name, allocatable={"cpu": f"{each.allocatable['cpu']}m", "pods": "9"})
        alone.set_node(msgspec.convert(document, AnyObject))
        for info in each.pods.values():
            alone.set_pod(info.pod, each.name)
    expected = []
    for item in sorted(pending, key=lambda item: -priority(item)):
        expected += [
            (each.pod.metadata.name, each.node)
            for each in place([item], alone, priority).assignments
        ]
    plan = place(pending, state, priority)
    assert [(each.pod.metadata.name, each.node) for each in plan.assignments] == expected


def test_of_two_groups_that_fit_only_one_at_a_time_each_gets_its_turn() -> None:
    for turn in range(100):
        state = cluster(2, 2)
        waiting = [*members("a", 4), *members("b", 4)]
        if turn % 2:
            waiting = waiting[4:] + waiting[:4]
        # In any order of arrival, even one pod of each in turn.
        shift = turn % 8
        waiting = waiting[shift:] + waiting[:shift]
        done: list[str] = []
        while waiting:
            plan = run(state, waiting, gang("a", 4), gang("b", 4))
            (winner,) = {
                each.pod.spec["schedulingGroup"]["podGroupName"] for each in plan.assignments
            }
            assert len(plan.assignments) == 4
            done.append(winner)
            for each in plan.assignments:
                state.drop_pod(each.pod.metadata.uid)
            placed = set(bound(plan))
            waiting = [each for each in waiting if each.metadata.name not in placed]
        assert sorted(done) == ["a", "b"]


# -- status --------------------------------------------------------------------------------------


def phases(**counts: int) -> list[AnyObject]:
    return [
        msgspec.convert(
            {"metadata": {"name": f"{phase}{n}"}, "status": {"phase": phase}}, AnyObject
        )
        for phase, number in counts.items()
        for n in range(number)
    ]


@pytest.mark.parametrize(
    ("before", "pods", "phase"),
    [
        ({}, {}, "Pending"),
        ({}, {"Pending": 2}, "Pending"),
        ({}, {"Pending": 3}, "Scheduling"),
        ({}, {"Running": 1, "Pending": 2}, "Scheduling"),
        ({}, {"Running": 3}, "Running"),
        ({}, {"Running": 2, "Succeeded": 1}, "Running"),
        ({}, {"Succeeded": 3}, "Finished"),
        ({}, {"Succeeded": 3, "Failed": 1}, "Finished"),
        ({}, {"Running": 2, "Failed": 1}, "Failed"),
        ({"phase": "Finished"}, {}, None),
        ({"phase": "Failed"}, {"Running": 3}, None),
    ],
)
def test_phases_of_coscheduling(
    before: dict[str, Any], pods: dict[str, int], phase: str | None
) -> None:
    """Those of scheduler-plugins 0.33."""
    found = msgspec.convert(
        {"metadata": {"name": "a"}, "spec": {"minMember": 3}, "status": before}, AnyObject
    )
    status = groups.coscheduling_status(found, phases(**pods))
    assert (status and status["phase"]) == phase


def test_a_group_of_coscheduling_names_the_owners_of_its_first_pod() -> None:
    found = msgspec.convert({"metadata": {"name": "a"}, "spec": {"minMember": 1}}, AnyObject)
    owner = {"apiVersion": "v1", "kind": "X", "name": "job", "uid": "u"}
    metadata = {"name": "p", "namespace": "n", "ownerReferences": [owner]}
    pod = msgspec.convert({"metadata": metadata, "status": {"phase": "Running"}}, AnyObject)
    assert groups.coscheduling_status(found, [pod]) == {
        "phase": "Running",
        "running": 1,
        "occupiedBy": "n/job",
    }


def test_a_group_that_was_scheduled_stays_so() -> None:
    found = msgspec.convert({"metadata": {"name": "a"}, "spec": {}}, AnyObject)
    scheduled = groups.native_condition(found, "", "t0")
    assert scheduled is not None
    assert (scheduled["status"], scheduled["reason"]) == ("True", "Scheduled")
    after = msgspec.structs.replace(found, status={"conditions": [scheduled]})
    assert groups.native_condition(after, "no room", "t1") is None
    assert groups.native_condition(after, "", "t1") is None

    waiting = groups.native_condition(found, "no room", "t0")
    assert waiting is not None
    assert (waiting["status"], waiting["reason"]) == ("False", "Unschedulable")
    other = msgspec.structs.replace(found, status={"conditions": [waiting]})
    again = groups.native_condition(other, "less room", "t1")
    assert again is not None
    assert again["lastTransitionTime"] == "t0"
