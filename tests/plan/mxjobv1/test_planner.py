"""What an MXJob of training-operator does."""

from __future__ import annotations

from typing import Any

import pytest

from plan.mxjobv1.world import example, mxnet
from plan.pytorchjob.world import PyTorchWorld

ALL = ["scheduler-0", "server-0", "worker-0", "worker-1"]


def begun(job: dict[str, Any]) -> PyTorchWorld:
    return PyTorchWorld(job).begin()


def test_every_pod_has_a_service() -> None:
    world = PyTorchWorld(mxnet())
    world.settle()

    assert world.members == ALL
    assert world.names("Service") == [f"digits-{key}" for key in ALL]
    assert world.conditions["Created"]["reason"] == "MXJobCreated"


def test_it_runs_and_succeeds_with_its_scheduler() -> None:
    world = PyTorchWorld(mxnet())
    world.settle()
    world.run("digits-worker-0")
    world.settle()
    assert not world.holds("Running")
    world.run()
    world.settle()
    assert world.conditions["Running"]["message"].startswith("MXJob digits is running.")
    for key in ALL:
        world.exit(key, 0)
    world.settle()

    assert world.conditions["Succeeded"]["reason"] == "MXJobSucceeded"
    assert world.status["message"] == "MXJob digits is successfully completed."
    assert world.status["replicaStatuses"]["Worker"]["succeeded"] == 2


def test_a_single_worker_is_the_job() -> None:
    job = mxnet()
    specs = job["spec"]["mxReplicaSpecs"]
    job["spec"]["mxReplicaSpecs"] = {"Worker": {**specs["Worker"], "replicas": 1}}
    world = begun(job)
    assert world.holds("Running")
    world.exit("worker-0", 0)
    world.settle()

    assert world.holds("Succeeded")


def test_the_tuner_ends_an_auto_tuning_run() -> None:
    world = begun(example("tune", runPolicy={"cleanPodPolicy": "Running"}))
    world.exit("tuner-0", 0)
    world.settle()
    assert not world.holds("Succeeded")  # the servers may have something to say
    world.pass_time(10)
    world.settle()

    assert world.holds("Succeeded")
    assert world.members == ["tuner-0"]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (None, "mxjob digits is failed because 1 Worker replica(s) failed."),
        ("ExitCode", 'job "digits" is failing because "Worker" replica(s) failed.'),
    ],
)
def test_a_failure_ends_it(policy: str | None, message: str) -> None:
    world = begun(mxnet(policy))
    world.exit("worker-0", 1)
    world.settle()

    assert world.conditions["Failed"]["reason"] == "MXJobFailed"
    assert world.status["message"].startswith(message)
    assert "ExitedWithCode" in world.reasons()


def test_a_pod_that_was_killed_is_recreated() -> None:
    world = begun(mxnet("ExitCode"))
    world.exit("server-0", 137)
    world.settle()
    assert world.conditions["Restarting"]["message"].startswith(
        "mxjob digits is restarting because 1 Server replica(s) failed."
    )
    world.pass_time(60)
    world.settle()
    world.run()
    world.settle()

    assert world.members == ALL
    assert world.holds("Running")
    assert world.status["failures"] == 1


def test_the_deadline_deletes_all_pods() -> None:
    world = begun(mxnet(activeDeadlineSeconds=30))
    world.pass_time(30)
    world.settle()

    assert world.conditions["Failed"]["reason"] == "MXJobFailed"
    assert world.members == []
    assert world.names("Service") == []
