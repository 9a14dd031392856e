"""What an MPIJob does, by the rules of mpi-operator."""

from __future__ import annotations

from typing import Any

import pytest

from plan.mpijob.world import JOB, MPIJobWorld, example, pi
from plan.world import OPTIONS, CrashedError
from traincrew.plan.mpijob import KIND
from traincrew.plan.shared import pods
from traincrew.plan.shared.model import ChildKey, Confirm, Refusal

ALL = ["pi-worker-0", "pi-worker-1"]


def begun(job: dict[str, Any] | None = None) -> MPIJobWorld:
    return MPIJobWorld(job or pi()).begin()


def test_all_pods_are_created_together() -> None:
    world = MPIJobWorld(pi())
    world.settle()

    assert world.workers == ALL
    assert JOB in world.children
    assert world.secrets == {"pi-ssh"}
    assert world.hosts() == ALL
    assert world.discovered() == []
    assert world.status["startTime"]
    assert world.reasons() == ["MPIJobCreated"]


def test_it_runs_when_the_launcher_and_all_workers_do() -> None:
    world = MPIJobWorld(pi())
    world.settle()
    world.run("pi-worker-0", world.launcher["metadata"]["name"])
    world.settle()
    assert not world.holds("Running")
    assert "1/2 workers running" in world.status["message"]

    world.run("pi-worker-1")
    world.settle()

    assert world.conditions["Running"]["reason"] == "MPIJobRunning"
    assert world.status["message"] == "MPIJob default/pi is running."
    assert world.discovered() == ALL
    assert world.reasons() == ["MPIJobCreated", "MPIJobRunning"]


def test_a_launcher_may_wait_for_its_workers() -> None:
    job = pi()
    job["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    world = MPIJobWorld(job)
    world.settle()
    assert JOB not in world.children
    assert "Launcher" not in world.status["replicaStatuses"]
    assert world.status["reason"] == "WaitingForWorkers"

    world.run()
    world.settle()

    assert JOB in world.children


def test_keys_that_somebody_deleted_are_made_again_when_the_launcher_waits_for_them() -> None:
    job = pi()
    job["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    world = MPIJobWorld(job)
    world.settle()
    world.delete_keys()
    world.run()
    world.settle()
    assert JOB in world.children
    assert world.secrets == set()
    world.launcher["status"]["conditions"] = []

    world.pass_time(pods.START_PATIENCE.total_seconds() + 1)
    world.settle()

    assert world.secrets == {"pi-ssh"}


def test_a_launcher_alone() -> None:
    world = begun(pi(None))
    assert world.holds("Running")
    assert world.status["replicaStatuses"]["Worker"]["active"] == 0
    world.launcher_exits(0)
    world.settle()

    assert world.holds("Succeeded")


@pytest.mark.parametrize(
    ("policy", "left"), [(None, ALL), ("Running", ["pi-worker-1"]), ("All", [])]
)
def test_it_succeeds_with_its_launcher_and_workers_are_cleaned_up(
    policy: str | None, left: list[str]
) -> None:
    world = begun(pi(cleanPodPolicy=policy) if policy else pi())
    world.worker_ends(1, 0)
    world.launcher_exits(0)
    world.settle()

    assert world.conditions["Succeeded"]["reason"] == "MPIJobSucceeded"
    assert world.status["message"] == "MPIJob default/pi successfully completed."
    assert world.status["replicaStatuses"]["Launcher"]["succeeded"] == 1
    assert not world.status["replicaStatuses"]["Launcher"].get("active")
    assert world.workers == left
    assert world.launcher["status"]["phase"] == "Succeeded"
    assert "MPIJobSucceeded" in world.reasons()


def test_a_launcher_is_tried_again_by_its_job() -> None:
    world = begun(pi(backoffLimit=1))
    world.launcher_exits(1)
    world.settle()
    assert world.conditions["Restarting"]["reason"] == "LauncherFailed"
    world.run()
    world.settle()
    assert world.holds("Running")
    world.launcher_exits(3)
    world.settle()

    assert world.conditions["Failed"]["reason"] == "BackoffLimitExceeded"
    assert "exited with code 3" in world.status["message"]
    assert world.status["replicaStatuses"]["Launcher"]["failed"] == 2
    assert world.workers == ALL


def test_the_deadline_is_that_of_the_job() -> None:
    world = begun(pi(activeDeadlineSeconds=100))
    world.pass_time(100)
    world.settle()

    assert world.conditions["Failed"]["reason"] == "DeadlineExceeded"


def test_a_worker_that_has_ended_stays_and_one_that_is_deleted_is_created_again() -> None:
    world = begun()
    world.worker_ends(0)
    world.leave(world.pods["pi-worker-1"])
    world.controllers()
    world.settle()

    assert world.pods["pi-worker-0"]["status"]["phase"] == "Failed"
    assert world.pods["pi-worker-1"]["status"]["phase"] == "Pending"
    assert world.holds("Running")
    assert "pi-worker-0" in world.status["message"]
    assert world.status["replicaStatuses"]["Worker"]["failed"] == 1


def test_an_evicted_worker_fails_the_job_and_ends_the_launcher() -> None:
    world = begun()
    world.worker_ends(0, 137, "Evicted")
    world.settle()

    assert world.conditions["Failed"]["reason"] == "MPIJobEvicted"
    assert world.status["message"].startswith("1/2 workers are evicted")
    assert world.job_of_launcher["spec"]["suspend"] is True


def test_suspended_and_resumed() -> None:
    world = begun()
    world.edit(runPolicy={"suspend": True})
    world.settle()
    assert world.holds("Suspended")
    assert not world.pods
    assert world.job_of_launcher["spec"]["suspend"] is True
    assert "startTime" not in world.status

    world.edit(runPolicy={"suspend": False})
    world.begin()

    assert world.holds("Running")
    assert world.workers == ALL
    assert world.status["restarts"] == 0
    assert {"MPIJobSuspended", "MPIJobResumed"} <= set(world.reasons())


def test_a_launcher_that_was_changed_meanwhile_is_replaced() -> None:
    world = begun()
    world.edit(runPolicy={"suspend": True})
    world.settle()
    before = world.job_of_launcher["metadata"]["uid"]
    world.edit(slotsPerWorker=2)
    world.settle()
    world.edit(runPolicy={"suspend": False})
    world.begin()

    assert world.job_of_launcher["metadata"]["uid"] != before
    assert "slots=2" in world.config["hostfile"]
    assert world.holds("Running")


def test_scaled_out_and_in() -> None:
    world = begun()
    world.scale(3)
    world.settle()
    assert world.hosts() == [*ALL, "pi-worker-2"]
    assert world.discovered() == ALL
    world.run()
    world.settle()
    assert world.discovered() == [*ALL, "pi-worker-2"]
    world.scale(1)
    world.settle()

    assert world.workers == ["pi-worker-0"]
    assert world.discovered() == world.hosts() == ["pi-worker-0"]
    assert world.holds("Running")
    assert world.status["restarts"] == 0


def test_only_the_job_of_the_launcher_has_a_time_to_live() -> None:
    world = begun(pi(ttlSecondsAfterFinished=60))
    world.launcher_exits(0)
    world.settle()
    assert world.requeue_after == 60
    world.pass_time(60)
    world.settle()

    assert JOB not in world.children
    assert not world.deleted
    assert world.status["replicaStatuses"]["Launcher"]["succeeded"] == 1


def test_a_launcher_without_progress_is_tried_again() -> None:
    world = begun(pi(progressDeadlineSeconds=600))
    world.print(world.launcher)
    world.settle()
    world.pass_time(700)
    world.settle()

    assert world.conditions["Restarting"]["reason"] == "NoProgress"
    assert "the launcher is tried again" in world.status["message"]


def test_a_launcher_that_is_not_in_the_cache_is_asked_for() -> None:
    world = begun()
    del world.children[JOB]

    decision = KIND.plan(world.observed(), world.now, OPTIONS)

    assert decision == Confirm(unseen=(JOB,))


def test_pods_that_the_api_refuses_fail_a_job_that_has_not_begun() -> None:
    world = MPIJobWorld(pi())
    world.refuse[JOB] = Refusal("spec.template: Invalid value", permanent=True)
    world.settle()

    assert "Invalid value" in world.status["message"]


def test_a_name_in_use_is_said() -> None:
    world = MPIJobWorld(pi())
    world.foreign.add(ChildKey("ConfigMap", "pi-config"))
    world.step()

    assert world.status["reason"] == "ErrResourceExists"
    assert not world.pods


@pytest.mark.parametrize("writes", range(7))
def test_a_crash_at_any_write_changes_nothing(writes: int) -> None:
    world = MPIJobWorld(example("pi"))
    world.crash_at = writes
    try:
        world.settle()
    except CrashedError:
        world.restart_operator()
    world.begin()

    assert world.holds("Running")
    assert world.made == {"pi-launcher": 1, "pi-worker-0": 1, "pi-worker-1": 1}
    world.launcher_exits(0)
    world.settle()
    assert world.holds("Succeeded")
