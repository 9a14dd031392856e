"""Finished jobs: the status fits the end, and another version of the operator leaves it alone."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

import pytest

from plan.chainerjob.world import ChainerWorld, distributed, plain
from plan.elasticjob.world import ElasticWorld, elastic
from plan.mpicluster.manifests import one_shot
from plan.mpicluster.world import MPIWorld
from plan.mxjob import manifests as mxnet
from plan.mxjob.world import MxWorld

if TYPE_CHECKING:
    from collections.abc import Callable

    from plan.world import World

AnyWorld = TypeVar("AnyWorld", bound="World")


def _begun(world: AnyWorld) -> AnyWorld:
    for _ in range(2):
        world.settle()
        world.run()
    world.settle()
    return world


def chainer(code: int) -> World:
    world = _begun(ChainerWorld(distributed(runPolicy={"backoffLimit": 0})))
    world.end(world.master_pod, code)
    world.settle()
    return world


def chainer_alone(code: int) -> World:
    world = _begun(ChainerWorld(plain(runPolicy={"backoffLimit": 0})))
    world.end(world.master_pod, code)
    world.settle()
    return world


def torch(code: int) -> World:
    job = ElasticWorld(elastic(policy="Never", cleanPodPolicy="Running")).begin()
    job.fail(0, code)
    if code == 0:
        job.fail(1, 0)
    job.settle()
    return job


def parameter_servers(code: int) -> World:
    world = MxWorld(mxnet.distributed())
    world.start()
    names = ["worker-0"] if code else ["scheduler-0", "worker-0", "worker-1"]
    for name in names:
        world.end(world.replica(name), code, finishedAt=world.stamp())
    world.settle()
    world.pass_time(11)
    world.settle()
    return world


def mpi(code: int) -> World:
    world = MPIWorld(one_shot(workers=2, transport="exec", runPolicy={"backoffLimit": 0}))
    world.start()
    assert world.master is not None
    world.end(world.master, code)
    world.settle()
    return world


JOBS = [chainer, chainer_alone, torch, parameter_servers, mpi]


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("begin", JOBS)
def test_nothing_runs_in_the_status_of_a_finished_job(
    begin: Callable[[int], World], code: int
) -> None:
    status = begin(code).status
    words = {
        condition["type"] for condition in status["conditions"] if condition["status"] == "True"
    }
    assert ("Succeeded" in words, "Failed" in words) == (code == 0, code != 0)
    assert "Running" not in words
    if "workersReady" in status:
        assert status["workersReady"].startswith("0/")
    roles = status["replicaStatuses"]
    for role in roles.values() if isinstance(roles, dict) else roles:
        assert (role["active"], role["ready"]) == (0, 0)
        assert role.get("state") != "Running"
        assert "Running" not in role.get("ReplicasStates", {})


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("begin", JOBS)
def test_what_another_version_has_stored_of_a_finished_job_stays(
    begin: Callable[[int], World], code: int
) -> None:
    world = begin(code)
    status = world.job["status"]
    status["workersReady"] = "2/4"
    status["message"] = "As another version says it."
    status["restarts"] = 7
    roles = status["replicaStatuses"]
    for role in roles.values() if isinstance(roles, dict) else roles:
        role["ready"] = 3
    for key, child in world.children.items():
        if key.kind == "Role":
            child["rules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    before, writes = copy.deepcopy((status, world.children, world.pods)), world.writes
    world.pass_time(3600)
    world.settle()

    assert (world.job["status"], world.children, world.pods) == before
    assert world.writes == writes


@pytest.mark.parametrize("code", [0, 1])
def test_a_chainer_job_that_has_ended_wants_no_workers(code: int) -> None:
    assert chainer(code).status["workersReady"] == "0/0"
