"""The Role of a cluster without ssh names pods that exist and are its own."""

from __future__ import annotations

from typing import Any

import pytest

from plan.mpicluster.manifests import interactive, one_shot, without_ssh
from plan.mpicluster.world import MPIWorld
from traincrew.plan.shared.model import ChildKey

ROLE = ChildKey("Role", "hello-master")


def workers(*indexes: int) -> list[str]:
    return [f"hello-worker-{index}" for index in indexes]


class Roles(MPIWorld):
    """Notes the pods of every version of the Role."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        super().__init__(manifest)
        self.versions: list[list[str]] = []

    def _assert_own_pods(self, key: ChildKey) -> None:
        super()._assert_own_pods(key)
        if key == ROLE:
            self.versions.append(self.granted)


def test_a_pod_of_another_kind_with_the_name_of_a_worker_is_not_granted() -> None:
    """As that of worker 0 of an ElasticJob with the name of the cluster."""
    world = MPIWorld(without_ssh(workers=1))
    template: dict[str, Any] = {"spec": {"template": {"metadata": {"labels": {}}}}}
    world.settle()
    world.pods.clear()
    world._pod("hello-worker-0", "ElasticJob", "hello", "uid-of-another", template)
    world.step()
    assert world.children[ROLE]["rules"] == []
    assert world.master is None


@pytest.mark.parametrize("replicas", [2, 64])
def test_the_number_of_writes_does_not_depend_on_that_of_the_workers(replicas: int) -> None:
    world = Roles(without_ssh(workers=replicas))
    world.step()
    for count in range(1, replicas + 1):  # one pod after the other
        world.set["spec"]["replicas"] = count
        world.controllers()
        world.set["spec"]["replicas"] = replicas
        world.step()
    world.start()
    world.succeed()
    world.settle()
    assert world.status["phase"] == "Succeeded"
    assert world.versions == [[], workers(*range(replicas)), []]


def test_a_new_worker_is_in_the_role_before_it_is_in_the_hostfile() -> None:
    world = MPIWorld(interactive(workers=2, transport="exec"))
    world.start()
    world.scale(4)
    world.step()
    world.controllers()
    del world.pods["hello-worker-3"]  # its controller has not come to it
    world.step()
    assert world.granted == workers(0, 1), "nobody needs the new one yet"
    world.run("hello-worker-2")
    world.step()  # the world asserts that hosts of a new hostfile are in the Role
    assert world.hosts == ["master", "worker-0", "worker-1", "worker-2"]
    assert world.granted == workers(0, 1, 2)
    world.start()
    assert world.granted == workers(0, 1, 2, 3)


def test_a_worker_that_is_gone_leaves_the_role_until_its_next_pod_is_there() -> None:
    world = MPIWorld(interactive(workers=2, transport="exec"))
    world.start()
    del world.pods["hello-worker-0"]
    world.step()
    assert world.granted == workers(1)
    world.start()
    assert world.granted == workers(0, 1)


@pytest.mark.parametrize("suspend", [True, False])
def test_nobody_needs_a_suspended_or_finished_cluster(suspend: bool) -> None:
    world = MPIWorld(without_ssh())
    world.start()
    if suspend:
        world.edit(runPolicy={"suspend": True})
    else:
        world.succeed()
    world.settle()
    assert world.children[ROLE]["rules"] == []


def test_with_ssh_there_is_no_role() -> None:
    world = MPIWorld(one_shot())
    world.start()
    world.succeed()
    world.settle()
    assert ROLE not in world.children
