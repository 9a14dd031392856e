"""``recoverWorkers``: a worker that is lost is recreated alone, once the scheduler has noticed it.

MXNet's scheduler does not take back a worker before that, and takes back one in its life.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plan.mxjob.manifests import distributed, local
from plan.mxjob.world import MxWorld
from traincrew.api.meta import parse_time
from traincrew.plan.shared.model import ChildKey

ROLES = ["scheduler-0", "server-0", "worker-0", "worker-1"]


def started(**spec: Any) -> MxWorld:
    """A job whose pods all run, and that may recreate workers."""
    world = MxWorld(distributed(recoverWorkers=True, **spec))
    world.start()
    return world


def assert_all_restarted(world: MxWorld) -> None:
    """Assert that all replicas run in the second attempt."""
    world.start()
    assert world.status["attempt"] == 1
    assert world.status.get("recoveries", {}) == {}
    assert world.jobs == ROLES


def recreated_after(world: MxWorld, seconds: float) -> None:
    """Assert that worker 1 is recreated so many seconds from now, and the others stay."""
    others = {name for name in world.pods if "worker" not in name or name.endswith("-0")}
    world.settle()
    assert world.status["recoveries"] == {"1": 1}
    assert world.status["phase"] == "Running"
    assert world.jobs == ROLES[:-1]
    assert parse_time(world.status["recreateAfter"]) - world.now == timedelta(seconds=seconds)
    assert world.requeue_after == pytest.approx(seconds)
    world.pass_time(seconds)
    world.start()
    assert world.jobs == ROLES
    assert others < set(world.pods)
    assert "recreateAfter" not in world.status
    assert (world.status.get("attempt", 0), world.status["phase"]) == (0, "Running")
    assert [event.reason for event in world.events].count("WorkerRecreated") == 1


def test_the_others_go_on() -> None:
    world = started()
    world.end(world.replica("worker-1"), 137, finishedAt=world.stamp())
    recreated_after(world, 7)
    assert world.status["failures"] == 1
    assert world.status["lastRestartReason"].endswith("It is recreated (restart 1 of 6).")


def test_a_worker_that_is_deleted_sends_heartbeats_until_its_grace_period_is_over() -> None:
    world = started()
    world.leave(world.replica("worker-1"))
    recreated_after(world, 12)
    assert world.status.get("failures", 0) == 0


def test_the_job_of_a_worker_is_deleted_by_hand() -> None:
    world = started()
    world.remove(next(key for key in world.children if key.name.endswith("1")))
    recreated_after(world, 12)


def test_a_job_that_ends_meanwhile_recreates_nothing() -> None:
    world = started(runPolicy={"activeDeadlineSeconds": 3})
    world.end(world.replica("worker-1"), 137, finishedAt=world.stamp())
    world.settle()
    assert "recreateAfter" in world.status
    world.pass_time(3)
    world.settle()
    assert (world.status["phase"], world.status["state"]) == ("Done", "Failed")
    assert "recreateAfter" not in world.status


def with_timeout(world: MxWorld, value: str) -> None:
    """Set the time-out in the template of the scheduler, which is the first one."""
    (container,) = world.job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    container["env"] = [{"name": "PS_HEARTBEAT_TIMEOUT", "value": value}]


def test_the_template_of_the_scheduler_may_have_another_time_out() -> None:
    world = MxWorld(distributed(recoverWorkers=True))
    with_timeout(world, "20")
    world.start()
    world.end(world.replica("worker-1"), 137, finishedAt=world.stamp())
    recreated_after(world, 22)


def test_a_scheduler_that_notices_no_loss_takes_nobody_back() -> None:
    world = MxWorld(distributed(recoverWorkers=True))
    with_timeout(world, "0")
    world.start()
    world.end(world.replica("worker-1"), 137)
    assert_all_restarted(world)


@pytest.mark.parametrize("role", ["scheduler-0", "server-0"])
def test_other_roles_are_not_taken_back(role: str) -> None:
    world = started()
    world.end(world.replica(role), 137)
    assert_all_restarted(world)


def test_two_workers_together_restart_all() -> None:
    world = started()
    world.end(world.replica("worker-0"), 137)
    world.end(world.replica("worker-1"), 137)
    assert_all_restarted(world)


@pytest.mark.parametrize("role", ["worker-0", "worker-1"])
def test_the_second_loss_in_an_attempt_restarts_all(role: str) -> None:
    world = started()
    world.end(world.replica("worker-1"), 137, finishedAt=world.stamp())
    recreated_after(world, 7)
    world.end(world.replica(role), 137)
    world.settle()
    world.pass_time(10)
    assert_all_restarted(world)
    assert (world.status["failures"], world.status["restarts"]) == (2, 2)
    world.end(world.replica("worker-1"), 137)  # the new scheduler takes one back again
    world.settle()
    assert world.status["recoveries"] == {"1": 1}


def test_another_loss_before_the_first_is_mended_restarts_all() -> None:
    world = started()
    world.end(world.replica("worker-1"), 137, finishedAt=world.stamp())
    world.settle()
    world.remove(next(key for key in world.children if key.name.endswith("worker-0")
                      or (key.kind == "Job" and "worker" in key.name)))  # fmt: skip
    assert_all_restarted(world)


def test_the_limit_counts_both() -> None:
    world = started(runPolicy={"backoffLimit": 1})
    world.end(world.replica("worker-1"), 137, finishedAt=world.stamp())
    recreated_after(world, 7)
    world.end(world.replica("worker-1"), 137)
    world.settle()
    assert world.status["state"] == "Failed"


def test_a_job_that_trains_alone_has_no_scheduler_to_wait_for() -> None:
    world = MxWorld(local(recoverWorkers=True))
    world.start()
    world.end(world.replica("worker-0"), 137)
    world.start()
    assert (world.status["attempt"], world.jobs) == (1, ["worker-0"])
    assert ChildKey("Service", "digits") not in world.children
