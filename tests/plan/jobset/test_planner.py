"""What a JobSet does: by the rules of JobSet 0.12.0."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from plan.jobset.world import JobSetWorld, pair, restarting
from plan.world import CrashedError
from traincrew.plan.shared.model import ChildKey, Refusal

ALL = ["driver-0", "workers-0", "workers-1"]


def begun(job: dict[str, Any]) -> JobSetWorld:
    return JobSetWorld(job).begin()


def in_order() -> dict[str, Any]:
    return pair(startupPolicy={"startupPolicyOrder": "InOrder"})


def dependent(status: str) -> dict[str, Any]:
    job = pair()
    job["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": status}]
    return job


def test_it_runs_and_succeeds_with_all_its_jobs() -> None:
    world = begun(pair())

    assert world.jobs == ALL
    assert ("Service", "digits") in world.children
    assert world.status["phase"] == "Running"
    assert world.counts("workers") == {
        "name": "workers", "ready": 2, "succeeded": 0, "failed": 0, "active": 2, "suspended": 0
    }  # fmt: skip
    assert [each["name"] for each in world.status["replicatedJobsStatus"]] == ["workers", "driver"]
    for name in ALL[:2]:
        world.exit(name, 0)
        world.settle()
        assert not world.holds("Completed")
    world.exit("workers-1", 0)
    world.settle()

    completed = world.conditions["Completed"]
    assert completed["reason"] == "AllJobsCompleted"
    assert completed["message"] == "jobset completed successfully"
    assert (world.status["terminalState"], world.status["restarts"]) == ("Completed", 0)
    assert world.status["phase"] == "Succeeded"
    assert "AllJobsCompleted" in world.reasons()
    assert world.jobs == ALL  # finished Jobs stay


def test_one_of_the_targets_is_enough() -> None:
    policy = {"operator": "Any", "targetReplicatedJobs": ["workers"]}
    world = begun(pair(successPolicy=policy))
    world.exit("driver-0", 0)
    world.settle()
    assert not world.holds("Completed")
    world.exit("workers-1", 0)
    world.settle()

    assert world.holds("Completed")
    assert world.jobs == ["driver-0", "workers-1"]  # the one that ran is deleted
    assert world.counts("workers")["active"] == 0


def test_it_fails_with_the_first_job() -> None:
    world = begun(pair())
    world.fail("workers-1")

    failed = world.conditions["Failed"]
    assert failed["reason"] == "FailedJobs"
    assert failed["message"].startswith(
        "jobset failed due to one or more job failures (first failed job: digits-workers-1)"
    )
    assert "exited with code 1" in failed["message"]
    assert world.jobs == ["workers-1"]
    assert world.status["terminalState"] == "Failed"


def test_all_jobs_are_created_again() -> None:
    world = begun(restarting())
    world.fail("workers-1")

    assert world.attempts() == dict.fromkeys(ALL, "1")
    assert (world.status["restarts"], world.status["restartsCountTowardsMax"]) == (1, 1)
    restarts = world.conditions["RestartingJobSet"]
    assert (restarts["status"], restarts["reason"]) == ("True", "DefaultFailurePolicy")
    assert world.status["phase"] == "Restarting"
    world.run()
    world.settle()
    assert world.status["phase"] == "Running"
    restarts = world.conditions["RestartingJobSet"]
    assert (restarts["status"], restarts["reason"]) == ("False", "JobsReady")
    world.fail("driver-0")

    failed = world.conditions["Failed"]
    assert failed["reason"] == "ReachedMaxRestarts"
    assert world.status["restarts"] == 1
    assert [each for each in world.reasons() if each != "Failed"] == [
        "DefaultFailurePolicy",
        "RestartJobSetFailurePolicyAction",
        "JobsReady",
        "ReachedMaxRestarts",
        "JobSetFailed",
    ]


def test_several_failures_are_one_restart() -> None:
    world = begun(restarting())
    world.exit("driver-0", 1)
    world.exit("workers-0", 1)
    world.settle()

    assert world.attempts() == dict.fromkeys(ALL, "1")
    assert world.status["restarts"] == 1


@pytest.mark.parametrize("crash_after", range(6))
def test_a_failure_counts_once_although_the_operator_crashes(crash_after: int) -> None:
    world = begun(restarting(limit=5))
    world.exit("workers-0", 1)
    world.crash_at = world.writes + crash_after
    for _ in range(3):
        try:
            world.settle()
        except CrashedError:
            world.restart_operator()
    world.run()
    world.settle()

    assert world.status["restarts"] == 1
    assert world.attempts() == dict.fromkeys(ALL, "1")


def test_the_first_rule_that_matches_decides() -> None:
    rules: list[dict[str, Any]] = [
        {"action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
        {"action": "FailJobSet", "onJobFailureMessagePatterns": ["no such text"]},
        {"action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["workers"]},
        {"action": "FailJobSet", "name": "last"},
    ]
    world = begun(restarting(*rules, limit=0))
    world.fail("workers-0")
    assert world.status["restarts"] == 1
    assert "restartsCountTowardsMax" not in world.status
    assert world.conditions["RestartingJobSet"]["reason"] == "FailurePolicy_failurePolicyRule2"
    world.run()
    world.settle()
    world.fail("driver-0")

    assert world.conditions["Failed"]["reason"] == "FailJobSetFailurePolicyAction"


def test_a_single_job_is_created_again() -> None:
    world = begun(restarting({"action": "RestartJob"}))
    kept = {name: world.child(name)["metadata"]["uid"] for name in ALL}
    world.fail("workers-1")

    assert world.counts("workers")["jobRestarts"] == [0, 1]
    assert world.counts("workers")["jobRestartsCountTowardsMax"] == [0, 1]
    assert world.status["restarts"] == 0
    found = {name: world.child(name)["metadata"]["uid"] for name in ALL}
    assert [name for name in ALL if found[name] != kept[name]] == ["workers-1"]
    world.run()
    world.settle()
    world.fail("driver-0")
    assert world.conditions["Failed"]["reason"] == "ReachedMaxRestarts"


def test_blocking_waits_until_all_jobs_are_gone() -> None:
    world = begun(restarting(restartStrategy="BlockingRecreate"))
    world.exit("workers-0", 1)
    world.controllers()
    world.step()
    assert world.status["restarts"] == 1
    first = world.plan()
    assert len(first.delete) == 3
    assert first.foreground
    assert not any(first.stages)

    world.settle()
    assert world.attempts() == dict.fromkeys(ALL, "1")


def test_replicated_jobs_start_in_order() -> None:
    world = JobSetWorld(in_order())
    world.settle()
    assert world.jobs == ["driver-0"]
    assert world.holds("StartupPolicyInProgress")
    world.run()
    world.settle()

    assert world.jobs == ALL
    assert world.holds("StartupPolicyInProgress")
    world.run()
    world.settle()
    assert not world.holds("StartupPolicyInProgress")
    assert world.conditions["StartupPolicyCompleted"]["reason"] == "InOrderStartupPolicyCompleted"


@pytest.mark.parametrize("status", ["Ready", "Complete"])
def test_a_replicated_job_waits_for_another(status: str) -> None:
    world = JobSetWorld(dependent(status))
    world.settle()
    assert world.jobs == ["driver-0"]
    world.run()
    world.settle()
    assert (world.jobs == ALL) == (status == "Ready")
    world.exit("driver-0", 0)
    world.settle()

    assert world.jobs == ALL


def test_suspended_jobs_are_created_and_resumed() -> None:
    world = JobSetWorld(pair(suspend=True))
    world.settle()
    assert world.jobs == ALL
    assert not world.pods
    assert world.counts("workers")["suspended"] == 2
    assert world.conditions["Suspended"]["reason"] == "SuspendedJobs"
    world.edit(suspend=False)
    world.settle()
    world.run()
    world.settle()

    assert world.status["phase"] == "Running"
    suspended = world.conditions["Suspended"]
    assert (suspended["status"], suspended["reason"]) == ("False", "ResumeJobs")
    assert world.reasons() == ["SuspendedJobs", "ResumeJobs"]
    world.edit(suspend=True)
    world.settle()
    assert not world.pods
    assert world.jobs == ALL


def test_jobs_resume_in_order() -> None:
    job = in_order()
    job["spec"]["suspend"] = True
    world = JobSetWorld(job)
    world.settle()
    assert world.jobs == ALL
    world.edit(suspend=False)
    world.settle()

    assert {name: world.child(name)["spec"]["suspend"] for name in ALL} == {
        "driver-0": False, "workers-0": True, "workers-1": True
    }  # fmt: skip


def test_what_kueue_has_set_meanwhile_is_in_the_jobs() -> None:
    world = JobSetWorld(pair(suspend=True))
    world.settle()
    jobs = world.child("driver-0")["spec"]["template"]
    jobs["metadata"]["labels"]["job-name"] = "digits-driver-0"  # by the Job's own controller
    jobs["spec"]["tolerations"] = [{"key": "old"}]
    replicated = copy.deepcopy(world.job["spec"]["replicatedJobs"])
    template = replicated[0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    template["spec"] |= {"nodeSelector": {"pool": "x"}, "tolerations": [{"key": "new"}]}
    world.edit(suspend=False, replicatedJobs=replicated)
    world.settle()

    found = world.child("driver-0")["spec"]["template"]
    assert found["metadata"]["labels"].items() >= {"a": "b", "job-name": "digits-driver-0"}.items()
    assert found["metadata"]["annotations"]["c"] == "d"
    assert found["spec"]["nodeSelector"] == {"pool": "x"}
    assert found["spec"]["tolerations"] == [{"key": "old"}, {"key": "new"}]


def test_it_is_deleted_when_its_time_is_over() -> None:
    world = begun(pair(ttlSecondsAfterFinished=30))
    world.fail("driver-0")
    world.pass_time(29)
    world.settle_or_delete()
    assert not world.deleted
    world.pass_time(1)
    world.settle_or_delete()

    assert world.deleted


def test_a_job_that_somebody_deletes_is_created_again() -> None:
    world = begun(pair())
    world.remove(ChildKey("Job", "digits-workers-0"))
    world.settle()

    assert world.jobs == ALL
    assert world.status["restarts"] == 0


def test_a_service_of_others_does_not_keep_pods_from_running() -> None:
    world = JobSetWorld(pair(network={"subdomain": "shared"}))
    world.foreign.add(ChildKey("Service", "shared"))
    world.begin()

    assert world.status["phase"] == "Running"
    assert "Synced" not in world.conditions


def test_a_job_that_the_api_refuses_fails_it() -> None:
    world = JobSetWorld(pair())
    world.refuse[ChildKey("Job", "digits-workers-0")] = Refusal("spec is bad", permanent=True)
    world.settle()

    assert world.conditions["Failed"]["reason"] == "JobCreationFailed"
    assert "spec is bad" in world.conditions["Failed"]["message"]


def test_another_manager_is_not_disturbed() -> None:
    world = JobSetWorld(pair(managedBy="kueue.x-k8s.io/multikueue"))
    world.settle()

    assert (world.status, world.children) == ({}, {})
