"""What a PyTorchJob does: by training-operator's rules, and where its counters were not real."""

from __future__ import annotations

from typing import Any

import pytest

from plan.pytorchjob.world import PyTorchWorld, example, group, pytorch
from plan.world import CrashedError

ALL = ["master-0", "worker-0", "worker-1"]


def begun(job: dict[str, Any]) -> PyTorchWorld:
    return PyTorchWorld(job).begin()


def test_every_pod_has_a_service() -> None:
    world = PyTorchWorld(pytorch())
    world.settle()

    assert world.members == ALL
    assert world.names("Service") == [f"digits-{key}" for key in ALL]
    assert world.status["phase"] == "Created"
    assert world.conditions["Created"]["reason"] == "PyTorchJobCreated"


def test_it_runs_when_its_master_does() -> None:
    world = PyTorchWorld(pytorch())
    world.settle()
    world.run("digits-worker-0")
    world.settle()
    assert not world.holds("Running")

    world.run("digits-master-0")
    world.settle()

    assert world.conditions["Running"]["reason"] == "PyTorchJobRunning"
    assert world.conditions["Running"]["message"].startswith("PyTorchJob digits is running.")


def test_it_succeeds_with_its_master_when_the_others_have_ended() -> None:
    world = begun(pytorch())
    world.exit("master-0", 0)
    world.settle()
    assert world.holds("Running")
    world.exit("worker-0", 0)
    world.exit("worker-1", 0)
    world.settle()

    assert world.conditions["Succeeded"]["reason"] == "PyTorchJobSucceeded"
    assert world.status["message"] == "PyTorchJob digits is successfully completed."
    assert world.status["replicaStatuses"]["Worker"]["succeeded"] == 2
    assert world.members == ALL  # the default of cleanPodPolicy is None
    assert "PyTorchJobSucceeded" in world.reasons()


def test_workers_that_go_on_do_not_keep_it_from_succeeding() -> None:
    world = begun(pytorch())
    world.exit("master-0", 0)
    world.settle()
    assert world.requeue_after is not None
    world.pass_time(world.requeue_after)
    world.settle()

    assert world.holds("Succeeded")
    assert world.members == ALL


@pytest.mark.parametrize(("policy", "left"), [("Running", ["master-0"]), ("All", [])])
def test_pods_are_cleaned_up_with_their_services(policy: str, left: list[str]) -> None:
    world = begun(pytorch(cleanPodPolicy=policy))
    world.exit("master-0", 0)
    world.settle()
    world.pass_time(10)
    world.settle()

    assert world.members == left
    assert world.names("Service") == [f"digits-{key}" for key in left]


def test_without_a_master_all_workers_must_succeed() -> None:
    job = example("master")
    del job["spec"]["pytorchReplicaSpecs"]["Master"]
    world = begun(job)
    assert world.conditions["Running"]["message"].startswith("PyTorchJob default/digits is")
    world.exit("worker-0", 0)
    world.settle()
    assert world.holds("Running")
    world.exit("worker-1", 0)
    world.settle()

    assert world.status["message"] == "PyTorchJob default/digits successfully completed."


def test_one_worker_of_an_elastic_group_is_enough() -> None:
    world = begun(group(2))
    world.exit("worker-1", 0)
    world.settle()
    world.pass_time(10)
    world.settle()

    assert world.holds("Succeeded")


@pytest.mark.parametrize(
    ("policy", "code", "message"),
    [
        ("Never", 1, "PyTorchJob digits is failed because 1 Worker replica(s) failed."),
        ("Never", 137, "PyTorchJob digits is failed because 1 Worker replica(s) failed."),
        ("ExitCode", 1, 'job "digits" is failing because "Worker" replica(s) failed.'),
        ("ExitCode", 127, 'job "digits" is failing because "Worker" replica(s) failed.'),
    ],
)
def test_a_permanent_failure_ends_it(policy: str, code: int, message: str) -> None:
    world = begun(pytorch(policy))
    world.exit("worker-0", code)
    world.settle()

    failed = world.conditions["Failed"]
    assert failed["reason"] == "PyTorchJobFailed"
    assert failed["message"].startswith(message)
    assert f"exited with code {code}" in failed["message"]
    assert "ExitedWithCode" in world.reasons()


@pytest.mark.parametrize("code", [128, 137, 143, 255])
def test_a_retryable_exit_code_recreates_the_pod(code: int) -> None:
    world = begun(pytorch("ExitCode"))
    before = world.pod("worker-0")["metadata"]["uid"]
    world.exit("worker-0", code)
    world.settle()

    assert world.pod("worker-0")["metadata"]["uid"] != before
    assert world.conditions["Restarting"]["status"] == "True"
    assert world.status["message"].startswith(
        "PyTorchJob digits is restarting because 1 Worker replica(s) failed."
    )
    assert (world.status["failures"], world.status["restarts"]) == (1, 1)
    world.run()
    world.settle()
    assert world.holds("Running")
    assert world.status["conditions"][-1]["type"] == "Running"  # which kubectl shows as State


def test_an_evicted_pod_is_recreated_and_not_counted() -> None:
    world = begun(pytorch("OnFailure", backoffLimit=0))
    world.evict("worker-0")
    world.settle()

    assert world.members == ALL
    assert "failures" not in world.status
    assert world.status["restarts"] == 1
    assert not world.holds("Failed")


def test_recreated_pods_count_against_the_limit() -> None:
    """training-operator would recreate them forever: its number of retries is always 0."""
    world = begun(pytorch("ExitCode", backoffLimit=1))
    for _ in range(2):
        world.run()
        world.settle()
        world.pass_time(600)
        world.exit("worker-0", 137)
        world.settle()
    world.settle()

    assert world.conditions["Failed"]["reason"] == "PyTorchJobFailed"
    assert world.conditions["Failed"]["message"] == (
        "Job digits has failed because it has reached the specified backoff limit"
    )


def test_it_fails_past_its_deadline() -> None:
    world = begun(pytorch(activeDeadlineSeconds=100))
    world.pass_time(100)
    world.settle()

    assert world.conditions["Failed"]["message"] == (
        "Job digits has failed because it was active longer than specified deadline"
    )
    assert (world.members, world.names("Service")) == ([], [])  # whatever cleanPodPolicy is


def test_suspension_deletes_pods_services_and_autoscaler() -> None:
    world = begun(group(2))
    assert world.names("HorizontalPodAutoscaler") == ["digits"]
    world.edit(runPolicy={"suspend": True})
    world.settle()

    assert world.status["phase"] == "Suspended"
    assert (world.members, world.names("Service")) == ([], [])
    assert world.names("HorizontalPodAutoscaler") == []
    assert "startTime" not in world.status
    world.edit(runPolicy={"suspend": False})
    world.begin()

    assert world.holds("Running")
    assert world.status["restarts"] == 0
    found = [each for each in world.reasons() if each.startswith("PyTorchJob")]
    assert found[-2:] == ["PyTorchJobSuspended", "PyTorchJobResumed"]


def test_workers_are_scaled_with_their_services() -> None:
    world = begun(group(2))
    world.scale(1)
    world.settle()
    assert world.members == ["worker-0"]
    assert world.names("Service") == ["digits-worker-0"]
    world.scale(3)
    world.settle()

    assert world.members == ["worker-0", "worker-1", "worker-2"]
    assert world.status["restarts"] == 0
    selector = world.status["replicaStatuses"]["Worker"]["selector"]
    assert selector == (
        "training.kubeflow.org/job-name=digits,"
        "training.kubeflow.org/operator-name=pytorchjob-controller,"
        "training.kubeflow.org/replica-type=worker"
    )


def test_the_autoscaler_follows_the_policy() -> None:
    world = begun(group(2))
    policy = {**world.job["spec"]["elasticPolicy"], "maxReplicas": 5}
    world.edit(elasticPolicy=policy)
    world.settle()
    (found,) = [child for key, child in world.children.items() if key.name == "digits"]
    assert found["spec"]["maxReplicas"] == 5
    del policy["metrics"]
    world.edit(elasticPolicy=policy)
    world.settle()

    assert world.names("HorizontalPodAutoscaler") == []


@pytest.mark.parametrize("manager", ["kueue.x-k8s.io/multikueue", "example.com/other"])
def test_a_job_of_another_manager_is_left_alone(manager: str) -> None:
    world = PyTorchWorld(pytorch(managedBy=manager))
    world.settle()

    assert (world.members, world.status) == ([], {})


def test_a_job_of_training_operator_is_ours() -> None:
    world = begun(pytorch(managedBy="kubeflow.org/training-operator"))

    assert world.holds("Running")


def test_a_queue_is_kueues_own_business() -> None:
    job = pytorch()
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    world = begun(job)

    assert world.holds("Running")
    assert world.workloads == {}


def test_it_is_deleted_after_its_time_to_live() -> None:
    world = begun(pytorch(ttlSecondsAfterFinished=60))
    for key in ALL:
        world.exit(key, 0)
    world.settle()
    world.pass_time(60)
    world.settle_or_delete()

    assert world.deleted


def test_an_invalid_job_names_the_field() -> None:
    job = pytorch()
    job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] = 2
    world = PyTorchWorld(job)
    world.settle()

    assert world.conditions["Failed"]["reason"] == "FailedValidation"
    said = "spec.pytorchReplicaSpecs.Master.replicas: there is one master; write 1"
    assert said in world.status["message"]


@pytest.mark.parametrize("crash", range(14))
def test_a_crash_at_any_write_changes_nothing(crash: int) -> None:
    world = PyTorchWorld(pytorch("ExitCode"))
    world.crash_at = crash
    done = False
    for _ in range(3):
        try:
            if not done:
                world.begin()
                world.exit("worker-1", 137)
                done = True
            world.settle()
        except CrashedError:
            world.restart_operator()
    world.run()
    world.settle()

    assert world.members == ALL
    assert (world.status["phase"], world.status["failures"]) == ("Running", 1)
