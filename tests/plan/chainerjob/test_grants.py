"""The Role of a ChainerJob names pods that exist and are its own; never names alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from plan.chainerjob.world import ChainerWorld, distributed
from traincrew.plan.shared.model import ChildKey

ROLE = ChildKey("Role", "digits-mn-launcher-role")
SET = ChildKey("StatefulSet", "digits-mn-workerset-ws0")
MASTER = ChildKey("Job", "digits-mn-master")


def workers(*indexes: int) -> list[str]:
    return [f"digits-mn-workerset-ws0-{index}" for index in indexes]


def scaled(world: ChainerWorld, replicas: int) -> None:
    sets = copy.deepcopy(world.job["spec"]["workerSets"])
    sets["ws0"]["replicas"] = replicas
    world.edit(workerSets=sets)


def running() -> ChainerWorld:
    world = ChainerWorld(distributed())
    world.settle()
    world.run()
    world.settle()
    world.run()
    world.settle()
    assert world.status["phase"] == "Running"
    return world


class Roles(ChainerWorld):
    """Notes the pods of every version of the Role."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        super().__init__(manifest)
        self.versions: list[list[str]] = []

    def _assert_own_pods(self, key: ChildKey) -> None:
        super()._assert_own_pods(key)
        if key == ROLE:
            self.versions.append(self.granted)


def test_nothing_is_granted_as_long_as_there_is_no_pod() -> None:
    world = ChainerWorld(distributed())
    while ROLE not in world.children:
        world.step()
    assert world.children[ROLE]["rules"] == []
    world.step()
    assert world.children[ROLE]["rules"] == [], "a StatefulSet without its pods"


def test_nothing_is_granted_for_a_set_of_somebody_else() -> None:
    """Jobs `a` and `a-workerset` may want a StatefulSet of one name; one of them has it."""
    world = ChainerWorld(distributed())
    world.foreign = {SET}
    for name in workers(0, 1):  # those of the other job
        world._pod(name, "StatefulSet", SET.name, "uid-of-another", template())
    world.run()
    world.settle()
    assert world.children[ROLE]["rules"] == []
    assert MASTER not in world.children


def test_a_pod_that_only_has_the_name_of_a_worker_is_not_granted() -> None:
    world = ChainerWorld(distributed())
    world._pod(workers(0)[0], "Other", "other", "uid-of-another", template())
    world.settle()
    world.run()
    world.settle()
    assert world.children[ROLE]["rules"] == []
    assert MASTER not in world.children

    del world.pods[workers(0)[0]]
    world.settle()
    assert world.granted == workers(0, 1)


def template() -> dict[str, Any]:
    return {"spec": {"template": {"metadata": {"labels": {}}}}}


def test_the_master_waits_for_pods_that_are_not_observed_yet() -> None:
    """The status of a StatefulSet may be in the caches before its pods are."""

    class Late(ChainerWorld):
        late = True

        def seen_pods(self, confirmed: bool) -> dict[str, dict[str, Any]]:
            return {} if self.late else self.pods

    world = Late(distributed())
    world.settle()
    world.run()
    world.settle()
    assert world.children[SET]["status"]["readyReplicas"] == 2
    assert MASTER not in world.children
    world.late = False
    world.settle()
    assert MASTER in world.children


@pytest.mark.parametrize("replicas", [2, 64])
def test_the_number_of_writes_does_not_depend_on_that_of_the_workers(replicas: int) -> None:
    manifest = distributed()
    manifest["spec"]["workerSets"]["ws0"]["replicas"] = replicas
    world = Roles(manifest)
    world.step()
    world.step()
    stateful_set, wanted = world.children[SET], replicas
    for count in range(1, wanted + 1):  # one pod after the other
        stateful_set["spec"]["replicas"] = count
        world.controllers()
        stateful_set["spec"]["replicas"] = wanted
        world.step()
    world.settle()
    world.run()
    world.settle()
    world.run()
    world.settle()
    world.end(world.master_pod, 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"
    assert world.versions == [[], workers(*range(replicas)), []]


def test_a_worker_that_is_gone_leaves_the_role_until_its_next_pod_is_there() -> None:
    world = running()
    del world.pods[workers(0)[0]]
    world.step()
    assert world.granted == workers(1)
    assert world.readable == [], "a launcher that is tried again waits for the next pod"
    world.settle()
    assert world.granted == workers(0, 1)
    assert world.readable == [SET.name]


def test_a_set_is_not_read_before_the_role_names_its_new_pods() -> None:
    world = running()
    scaled(world, 3)
    world.step()
    assert world.children[SET]["spec"]["replicas"] == 3
    assert (world.granted, world.readable) == (workers(0, 1), [])
    world.settle()
    assert (world.granted, world.readable) == (workers(0, 1, 2), [SET.name])


def test_pods_leave_the_role_with_their_set_made_smaller() -> None:
    world = running()
    scaled(world, 1)
    world.settle()
    assert (world.granted, world.readable) == (workers(0), [SET.name])


@pytest.mark.parametrize("suspend", [True, False])
def test_nobody_needs_a_suspended_or_finished_job(suspend: bool) -> None:
    world = running()
    if suspend:
        world.edit(runPolicy={"suspend": True})
    else:
        world.end(world.master_pod, 0)
    world.settle()
    assert world.children[ROLE]["rules"] == []


def test_workers_that_are_kept_after_the_end_are_not_granted_either() -> None:
    world = ChainerWorld(distributed(runPolicy={"cleanPodPolicy": "None"}))
    for _ in range(3):
        world.settle()
        world.run()
    world.end(world.master_pod, 0)
    world.settle()
    assert set(workers(0, 1)) <= world.pods.keys()
    assert world.children[ROLE]["rules"] == []


def test_a_spec_that_has_become_invalid_grants_no_pod_that_is_gone() -> None:
    world = running()
    world.edit(backend="gloo")
    world.settle()
    assert world.granted == workers(0, 1)
    del world.pods[workers(1)[0]]
    world.step()
    assert (world.granted, world.readable) == (workers(0), [])


def test_another_version_of_the_operator_writes_no_role_that_is_right() -> None:
    """Earlier ones wrote the same rules, from names."""
    world = running()
    assert world.children[ROLE]["rules"][0]["resourceNames"] == [SET.name]
    before = world.writes
    world.settle()
    assert world.writes == before
