"""Plans for an ElasticJob: a history per test, with the messages that users see."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from plan.elasticjob.world import ElasticWorld, elastic, example
from plan.shared.queues import assert_moved, moved
from plan.world import writes_children
from traincrew.plan.elasticjob.events import written
from traincrew.plan.shared.model import ChildKey, Event, Refusal, Write


def world(*arguments: Any, **fields: Any) -> ElasticWorld:
    """A job of which every worker runs."""
    return ElasticWorld(elastic(*arguments, **fields)).begin()


# -- from creation to success -------------------------------------------------------------------


def test_the_life_of_a_job() -> None:
    job = ElasticWorld(elastic())
    job.step()
    assert job.status["phase"] == "Created"
    assert job.holds("Created")
    assert job.status["startTime"] == job.stamp()
    assert job.workers == [0, 1]
    assert job.services == ["flowers-worker-0", "flowers-worker-1"]
    job.settle()
    assert job.status["reason"] == "WaitingForWorkers"
    assert job.status["message"] == "0/2 workers running"

    job.run("flowers-worker-0")
    job.settle()
    assert job.status["phase"] == "Running"
    assert job.conditions["Running"]["reason"] == "ElasticJobRunning"
    assert job.conditions["Running"]["message"] == "ElasticJob flowers is running."
    assert job.status["workersReady"] == "1/2"
    assert "Restarting" not in job.conditions

    job.run()
    job.settle()
    job.fail(0, 0)
    job.settle()
    assert job.status["phase"] == "Running"
    job.fail(1, 0)
    job.settle()
    assert job.status["phase"] == "Succeeded"
    assert job.conditions["Succeeded"]["message"] == "ElasticJob flowers is successfully completed."
    assert job.status["completionTime"]
    assert job.status["replicaStatuses"]["Worker"] == {
        "active": 0,
        "ready": 0,
        "succeeded": 2,
        "failed": 0,
        "restarts": 0,
        "selector": "group-name=elastic.pytorch.org,job-name=flowers,replica-type=worker",
    }
    assert job.events == [
        Event("Normal", "ElasticJobSucceeded", "ElasticJob flowers is successfully completed.")
    ]


def test_conditions_have_their_last_update_time() -> None:
    job = ElasticWorld(elastic())
    job.settle()
    created = job.stamp()
    job.pass_time(5)
    job.run("flowers-worker-0")
    job.settle()

    assert job.conditions["Created"]["lastUpdateTime"] == created
    assert job.conditions["Running"]["lastUpdateTime"] == job.stamp()


def test_limits_are_stored_before_the_first_worker_is_created() -> None:
    job = ElasticWorld(elastic(minReplicas=None, maxReplicas=None))
    job.step()
    assert job.pods == {}
    assert job.status["minReplicas"] == job.status["maxReplicas"] == 2
    assert not {"minReplicas", "maxReplicas"} & job.job["spec"].keys()
    job.settle()

    assert "--nnodes=2:2" in job.pod(1)["spec"]["containers"][0]["args"]


def test_workers_that_join_later_have_the_limits_of_the_first() -> None:
    job = ElasticWorld(elastic(3, minReplicas=None, maxReplicas=4))
    job.settle()
    job.scale(4)
    job.settle()

    assert "--nnodes=3:4" in job.pod(3)["spec"]["containers"][0]["args"]
    assert (job.status["minReplicas"], job.status["maxReplicas"]) == (3, 4)


def test_limits_that_are_written_later_replace_those_of_the_status() -> None:
    job = ElasticWorld(elastic(2, minReplicas=None, maxReplicas=None))
    job.settle()
    job.edit(minReplicas=1, maxReplicas=3)
    job.scale(3)
    job.settle()

    assert "--nnodes=1:3" in job.pod(2)["spec"]["containers"][0]["args"]
    assert (job.status["minReplicas"], job.status["maxReplicas"]) == (1, 3)


def test_a_suspended_job_that_has_not_started_has_no_limits_yet() -> None:
    job = ElasticWorld(elastic(2, minReplicas=None, maxReplicas=None, suspend=True))
    job.settle()
    assert "minReplicas" not in job.status
    job.scale(4)
    job.edit(suspend=False)
    job.settle()

    assert "--nnodes=4:4" in job.pod(3)["spec"]["containers"][0]["args"]


def test_a_job_without_workers_succeeds_at_once() -> None:
    job = ElasticWorld(elastic(0, minReplicas=None))
    job.settle()

    assert job.status["phase"] == "Succeeded"
    assert job.pods == {}


# -- growing and shrinking ----------------------------------------------------------------------


def test_scaling_out_does_not_affect_running_workers() -> None:
    job = world()
    before = [job.uid(0), job.uid(1)]
    job.scale(3)
    job.settle()

    assert job.workers == [0, 1, 2]
    assert [job.uid(0), job.uid(1)] == before
    assert job.status["phase"] == "Running"
    assert job.status["workersReady"] == "2/3"
    assert job.status["restarts"] == 0


def test_scaling_in_deletes_the_highest_index_and_then_its_service() -> None:
    job = world(3)
    job.scale(1)
    job.step()  # stores that the pods are asked to end
    assert job.workers == [0, 1, 2]
    job.step()
    assert job.workers == [0]
    assert len(job.pods) == 3
    assert job.services == [f"flowers-worker-{index}" for index in range(3)]
    job.step()
    assert job.status["message"] == "ElasticJob flowers is running. 2 pods are being ended."
    job.settle()
    assert job.status["message"] == "ElasticJob flowers is running."

    assert sorted(job.pods) == job.services == ["flowers-worker-0"]
    assert job.status["phase"] == "Running"
    assert job.status["restarts"] == 0


def test_pods_of_a_removed_type_are_deleted() -> None:
    manifest = example("everything")
    job = ElasticWorld(manifest).begin()
    assert "speech-store-0" in job.pods
    job.edit(replicaSpecs={"Worker": manifest["spec"]["replicaSpecs"]["Worker"]})
    job.settle()

    assert "speech-store-0" not in job.pods
    assert "speech-store-0" not in job.services
    assert set(job.status["replicaStatuses"]) == {"Worker"}


def test_other_types_do_not_affect_the_outcome() -> None:
    job = ElasticWorld(example("everything")).begin()
    job.end(job.pods["speech-store-0"], 1)
    job.settle()
    assert job.status["phase"] == "Running"
    for index in range(3):
        job.fail(index, 0)
    job.settle()

    assert job.status["phase"] == "Succeeded"


# -- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [130, 137, 138, 143])
def test_retryable_exit_codes(code: int) -> None:
    job = world(policy="ExitCode")
    before = job.uid(1)
    job.fail(1, code)
    job.step()
    assert job.status["phase"] == "Restarting"
    message = job.conditions["Restarting"]["message"]
    assert message.startswith(
        "ElasticJob flowers is restarting because 1 Worker replica(s) failed."
    )
    assert f"exited with code {code}" in message
    assert job.uid(1) == before  # it goes when it has been counted
    job.settle()
    assert job.uid(1) != before
    assert job.status["phase"] == "Restarting"
    job.run()
    job.settle()

    assert job.status["phase"] == "Running"
    assert job.status["failures"] == 1
    assert job.status["restarts"] == 1
    assert job.reasons() == ["ExitedWithCode", "ElasticJobRestarting"]
    assert job.events[0].message == f"Pod: default.flowers-worker-1 exited with code {code}"


@pytest.mark.parametrize("code", [1, 2, 126, 127, 128, 139])
def test_other_exit_codes_are_permanent_failures(code: int) -> None:
    job = world(minReplicas=2)
    job.fail(1, code)
    job.settle()

    assert job.status["phase"] == "Failed"
    assert job.status["completionTime"]
    failed = job.conditions["Failed"]
    assert failed["reason"] == "ElasticJobFailed"
    assert failed["message"].startswith(
        "ElasticJob flowers is failed because 1 Worker replica(s) failed."
    )
    assert f"exited with code {code}" in failed["message"]
    assert job.reasons() == ["ExitedWithCode", "ElasticJobFailed"]
    assert job.events[1].type == "Normal"


def test_training_continues_without_a_permanently_failed_worker() -> None:
    job = world(3, minReplicas=2)
    job.fail(2, 1)
    job.settle()
    assert job.status["phase"] == "Running"
    assert job.status["replicaStatuses"]["Worker"]["failed"] == 1
    assert job.reasons() == ["ExitedWithCode"]
    job.settle()
    assert job.reasons() == ["ExitedWithCode"]
    job.fail(0, 0)
    job.fail(1, 0)
    job.settle()

    assert job.status["phase"] == "Succeeded"


def test_the_job_fails_when_too_few_workers_are_left() -> None:
    job = world(3, minReplicas=2)
    job.fail(2, 1)
    job.settle()
    job.fail(1, 1)
    job.settle()

    assert job.status["phase"] == "Failed"
    assert "because 2 Worker replica(s) failed" in job.status["message"]


def test_with_restart_policy_never_the_first_failure_is_permanent() -> None:
    job = world(3, policy="Never")
    job.fail(2, 137)
    job.settle()

    assert job.status["phase"] == "Failed"


@pytest.mark.parametrize("policy", ["ExitCode", "OnFailure", "Always"])
@pytest.mark.parametrize("reason", ["", "Evicted", "NodeShutdown", "OutOfcpu"])
def test_a_disruption_of_a_worker_is_not_counted_as_a_failure(policy: str, reason: str) -> None:
    job = world(policy=policy, backoffLimit=0)
    before = job.uid(1)
    job.disrupt(1, reason)
    job.settle()
    assert job.status["phase"] == "Restarting"
    assert job.uid(1) != before
    job.run()
    job.settle()

    assert job.status["phase"] == "Running"
    assert job.status.get("failures", 0) == 0
    assert job.status["restarts"] == 1


def test_a_worker_deleted_by_hand_is_recreated() -> None:
    job = world(backoffLimit=0)
    before = job.uid(0)
    job.delete("flowers-worker-0")
    job.settle()
    assert job.uid(0) != before
    assert job.status["phase"] == "Restarting"
    job.run()
    job.settle()

    assert job.status["phase"] == "Running"
    assert (job.status["restarts"], job.status.get("failures", 0)) == (1, 0)


def test_a_program_that_fails_at_once_is_recreated_after_a_delay() -> None:
    job = ElasticWorld(elastic())
    job.settle()
    job.run()
    job.settle()
    before = job.uid(1)
    job.pass_time(4)
    job.fail(1, 137)
    job.settle()
    assert job.uid(1) == before
    assert job.requeue_after == 6
    job.pass_time(6)
    job.settle()

    assert job.uid(1) != before


def test_a_worker_that_fails_again_and_again_is_recreated_later_each_time() -> None:
    job = world(3)
    waits = []
    for _ in range(8):
        before = job.uid(1)
        job.fail(1, 137)
        waited = 0.0
        for _ in range(50):
            job.settle()
            if job.uid(1) != before:
                break
            assert job.requeue_after is not None
            words = f"flowers-worker-1 is restarted in {waited + job.requeue_after:.0f} s."
            assert words in job.status["message"]
            waited += job.requeue_after
            job.pass_time(job.requeue_after)
        waits.append(waited)
        job.run()
        job.settle()
        job.pass_time(11)

    assert waits == [0, 10, 20, 40, 80, 160, 320, 360]
    assert job.status["failures"] == 8


def test_one_workers_failures_do_not_make_another_one_wait() -> None:
    job = world(3)
    for _ in range(2):
        job.fail(1, 137)
        job.settle()
        job.pass_time(10)
        job.settle()
        job.run()
        job.settle()
        job.pass_time(60)
    before = job.uid(2)
    job.fail(2, 137)
    job.settle()

    assert job.uid(2) != before


@pytest.mark.parametrize("how", ["evicted", "after six minutes"])
def test_evictions_and_long_training_are_followed_by_no_delay(how: str) -> None:
    job = world(3)
    for _ in range(2):
        job.fail(1, 137)
        job.settle()
        job.pass_time(10)
        job.settle()
        job.run()
        job.settle()
        job.pass_time(60)
    before = job.uid(1)
    if how == "evicted":
        job.disrupt(1, "Evicted")
    else:
        job.pass_time(300)
        job.fail(1, 137)
    job.settle()

    assert job.uid(1) != before


def test_containers_that_restart_in_their_pod() -> None:
    job = world(policy="OnFailure")
    job.restart(job.pod(1), 3)
    status = job.pod(1)["status"]["containerStatuses"][0]
    status["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    job.pod(1)["status"]["conditions"] = []
    job.settle()
    assert job.status["phase"] == "Restarting"
    assert "CrashLoopBackOff" in job.status["message"]
    status["state"] = {}
    job.settle()

    assert job.status["phase"] == "Running"
    assert job.status["restarts"] == 1


# -- the first worker serves the rendezvous -----------------------------------------------------


def test_failures_of_workers_without_their_rendezvous_host_are_not_counted() -> None:
    job = world(3, hosted=True, backoffLimit=0)
    job.vanish("digits-worker-0")
    job.fail(1, 1)
    job.settle()
    job.pass_time(2)
    job.settle()
    job.run()
    job.fail(2, 1)  # it notices later, when the host has been made again
    job.settle()
    job.run()
    job.settle()

    assert job.status["phase"] == "Running"
    assert job.status["restarts"] == 3
    assert job.status.get("failures", 0) == 0


def test_a_failure_is_decided_when_the_host_is_known_to_run() -> None:
    job = world(3, hosted=True)
    job.fail(2, 1)
    job.settle()
    assert job.status["phase"] == "Running"
    assert job.requeue_after == 60
    before = job.uid(2)
    job.pass_time(61)
    job.settle()

    assert job.uid(2) == before
    assert job.status["phase"] == "Running"
    assert job.reasons() == ["ExitedWithCode"]


def test_workers_are_recreated_after_the_host_is_lost_with_its_node() -> None:
    job = world(2, hosted=True)
    job.fail(1, 1)
    job.settle()
    job.pod(0)["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    job.settle()

    assert job.pod(1)["status"]["phase"] == "Pending"


@pytest.mark.parametrize("hosted", [True, False])
def test_a_worker_that_fails_just_after_a_scale_in_is_recreated(hosted: bool) -> None:
    """Its peers closed the rendezvous when they were asked to end."""
    job = world(3, hosted=hosted, backoffLimit=0)
    job.pass_time(20)
    job.scale(1)
    job.settle()
    assert job.status["lastScaleInTime"] == job.stamp()
    before = job.uid(0)
    job.pass_time(2)
    job.fail(0, 1)
    job.settle()
    job.run()
    job.settle()

    assert job.uid(0) != before
    assert job.status["phase"] == "Running"
    assert job.status["restarts"] == 1
    assert job.status.get("failures", 0) == 0


@pytest.mark.parametrize("hosted", [True, False])
def test_a_program_that_keeps_failing_after_a_scale_in_fails_the_job(hosted: bool) -> None:
    job = world(2, hosted=hosted)
    job.pass_time(20)
    job.scale(1)
    job.settle()
    tries = 0
    while job.status["phase"] != "Failed":
        job.pass_time(11)
        job.fail(0, 1)
        job.settle()
        if job.status["phase"] != "Failed":
            job.run()
            job.settle()
        tries += 1
        assert tries < 10

    assert tries == 6


def test_giving_up_a_suspended_or_failed_worker_is_no_scale_in() -> None:
    job = world(2)
    job.edit(suspend=True)
    job.settle()
    job.edit(suspend=False)
    job.settle()
    job.run()
    job.settle()
    job.disrupt(1)
    job.scale(1)
    job.settle()

    assert "lastScaleInTime" not in job.status


def test_a_permanent_failure_of_the_host_fails_the_job() -> None:
    job = world(2, hosted=True, minReplicas=2)
    job.fail(0, 1)
    job.settle()

    assert job.status["phase"] == "Failed"


# -- the run policy -----------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "tries"), [(0, 1), (1, 2), (2, 3)])
def test_failed_pods_up_to_the_limit(limit: int, tries: int) -> None:
    job = world(backoffLimit=limit)
    for number in range(1, tries + 1):
        assert job.status["phase"] == "Running"
        job.fail(1, 137)
        job.settle()
        if number < tries:
            job.pass_time(10)  # the second failure is waited for
            job.settle()
            job.run()
            job.settle()
            job.pass_time(60)

    assert job.status["phase"] == "Failed"
    assert job.conditions["Failed"]["reason"] == "JobFailed"
    assert job.status["message"] == (
        "Job flowers has failed because it has reached the specified backoff limit"
    )
    assert job.status["failures"] == tries


@pytest.mark.parametrize(("limit", "restarts"), [(0, 1), (1, 1), (3, 3)])
def test_restarted_containers_up_to_the_limit(limit: int, restarts: int) -> None:
    job = world(policy="OnFailure", backoffLimit=limit)
    for _ in range(restarts):
        assert job.status["phase"] == "Running"
        job.restart(job.pod(0))
        job.settle()

    assert job.status["phase"] == "Failed"
    assert job.conditions["Failed"]["reason"] == "JobFailed"


def test_the_deadline_needs_no_event() -> None:
    job = world(activeDeadlineSeconds=100)
    assert job.requeue_after == 100  # as of the last look, a minute ago
    job.pass_time(39)
    job.settle()
    assert job.status["phase"] == "Running"
    job.pass_time(1)
    job.settle()

    assert job.status["phase"] == "Failed"
    assert job.status["message"] == (
        "Job flowers has failed because it was active longer than specified deadline"
    )
    assert job.reasons() == ["JobFailed"]


def test_suspended_time_does_not_count() -> None:
    job = world(activeDeadlineSeconds=100)
    job.edit(suspend=True)
    job.settle()
    assert "startTime" not in job.status
    job.pass_time(1000)
    job.settle()
    job.edit(suspend=False)
    job.settle()

    assert job.status["phase"] == "Created"
    assert job.status["startTime"] == job.stamp()
    assert job.requeue_after == 100


def test_suspend_deletes_the_pods_and_resume_recreates_them() -> None:
    job = world()
    job.edit(suspend=True)
    job.step()
    assert job.conditions["Suspended"]["reason"] == "Draining"
    job.settle()
    assert job.conditions["Suspended"]["reason"] == "ElasticJobSuspended"
    assert job.conditions["Running"]["message"] == "spec.suspend is true."
    assert job.pods == {}
    assert job.services  # names cost nothing
    assert job.status["workersReady"] == "0/0"
    job.edit(suspend=False)
    job.settle()
    assert job.workers == [0, 1]
    job.run()
    job.settle()

    assert job.status["phase"] == "Running"
    assert job.status["restarts"] == 0
    assert job.reasons() == ["Suspended", "Resumed"]


def test_a_job_that_was_changed_while_suspended_runs_the_new_template() -> None:
    job = world()
    job.edit(suspend=True)
    job.settle()
    specs = copy.deepcopy(job.job["spec"]["replicaSpecs"])
    specs["Worker"]["template"] = moved(specs["Worker"]["template"])
    job.edit(replicaSpecs=specs)
    job.settle()
    job.edit(suspend=False)
    job.settle()

    for index in range(2):
        assert_moved(job.pod(index))


def test_created_suspended() -> None:
    job = ElasticWorld(elastic(suspend=True))
    job.settle()

    assert job.status["phase"] == "Suspended"
    assert job.pods == {}
    assert "startTime" not in job.status


@pytest.mark.parametrize(
    ("policy", "pods"),
    [
        (None, ["0", "1"]),
        ("None", ["0", "1"]),
        ("Running", ["1"]),
        ("All", []),
    ],
)
def test_cleanup_of_a_finished_job(policy: str | None, pods: list[str]) -> None:
    fields = {} if policy is None else {"cleanPodPolicy": policy}
    job = world(minReplicas=2, **fields)
    job.fail(1, 1)
    job.settle()

    assert job.status["phase"] == "Failed"
    assert sorted(name.rpartition("-")[2] for name in job.pods) == pods
    assert job.services == [f"flowers-worker-{index}" for index in pods]
    assert job.status["replicaStatuses"]["Worker"]["failed"] == 1


def test_a_finished_job_is_deleted_in_time() -> None:
    job = world(ttlSecondsAfterFinished=100)
    job.fail(0, 0)
    job.fail(1, 0)
    job.settle()
    job.pass_time(40)
    job.settle()
    assert job.requeue_after == 60
    assert not job.deleted
    job.pass_time(60)
    job.step()

    assert job.deleted


def test_a_finished_job_is_final() -> None:
    job = world(cleanPodPolicy="None")
    job.fail(0, 0)
    job.fail(1, 0)
    job.settle()
    final = dict(job.status)
    job.vanish("flowers-worker-0")
    job.scale(3)
    job.edit(suspend=True)
    job.pass_time(100)
    job.settle()

    assert sorted(job.pods) == ["flowers-worker-1"]
    assert job.without("Synced") == final


def test_restarts_after_the_end_are_not_counted_forever() -> None:
    job = world(policy="OnFailure", backoffLimit=0)
    job.restart(job.pod(0))
    job.settle()
    assert job.status["phase"] == "Failed"
    job.restart(job.pod(1))
    job.settle()
    final = dict(job.status)
    job.settle()

    assert job.status == final


# -- invalid jobs and refused writes ------------------------------------------------------------


def test_an_invalid_job_fails_with_the_field() -> None:
    manifest = elastic()
    manifest["spec"]["replicaSpecs"]["worker"] = manifest["spec"]["replicaSpecs"]["Worker"]
    job = ElasticWorld(manifest)
    job.settle()

    assert job.status["phase"] == "Failed"
    assert job.conditions["Failed"]["reason"] == "FailedValidation"
    assert "spec.replicaSpecs: 2 keys are 'worker'" in job.status["message"]
    assert job.pods == {}


def test_a_running_job_continues_with_an_invalid_spec() -> None:
    job = world()
    worker = job.job["spec"]["replicaSpecs"]["Worker"]
    job.edit(replicaSpecs={"Worker": worker, "worker": worker})
    job.settle()
    assert job.status["phase"] == "Running"
    assert job.conditions["Synced"]["status"] == "False"
    assert job.workers == [0, 1]
    job.edit(replicaSpecs={"Worker": worker})
    job.settle()

    assert "Synced" not in job.conditions
    assert job.status["observedGeneration"] == job.job["metadata"]["generation"]


def order(job: ElasticWorld) -> tuple[list[list[str]], list[str]]:
    """Kind and index of what the next plan creates: in stages, and later."""

    def short(writes: list[Write]) -> list[str]:
        created = [write.create for write in writes if write.create is not None]
        return [f"{item['kind']} {item['metadata']['name'].rpartition('-')[2]}" for item in created]

    plan = job.plan()
    return [short(stage) for stage in plan.stages], short(plan.later)


def schedule(job: ElasticWorld, *indexes: int) -> None:
    """The scheduler finds a node for workers."""
    for index in indexes:
        job.pod(index)["spec"]["nodeName"] = "node-1"


def test_the_service_of_the_rendezvous_comes_first_and_other_services_last() -> None:
    job = ElasticWorld(elastic(3, hosted=True))
    assert order(job) == ([["Service 0"], ["Pod 0", "Pod 1", "Pod 2"]], [])
    job.settle()
    schedule(job, 0, 1)
    assert order(job) == ([], []), "they would delay the pod that is not scheduled yet"
    schedule(job, 2)

    assert order(job) == ([], ["Service 1", "Service 2"])
    job.settle()
    assert order(job) == ([], [])


def test_services_do_not_wait_for_a_pod_that_nobody_can_schedule() -> None:
    job = ElasticWorld(elastic(3, hosted=True))
    job.settle()
    schedule(job, 0, 1)
    job.pass_time(2)
    assert order(job) == ([], [])
    assert job.requeue_after == 10
    job.pass_time(8)

    assert order(job) == ([], ["Service 1", "Service 2"])


def test_with_an_external_rendezvous_any_worker_may_become_the_master() -> None:
    job = ElasticWorld(elastic(2))

    assert order(job) == ([["Service 0", "Service 1"], ["Pod 0", "Pod 1"]], [])


def test_replicas_that_may_serve_something_have_their_services_first() -> None:
    manifest = elastic(2, hosted=True)
    specs = manifest["spec"]["replicaSpecs"]
    specs["Store"] = {**specs["Worker"], "replicas": 1}
    job = ElasticWorld(manifest)

    assert order(job)[0][0] == ["Service 0", "Service 0"]


def test_refused_pods_do_not_keep_the_others_from_their_services() -> None:
    job = ElasticWorld(elastic(3, hosted=True))
    job.refuse = {ChildKey("Pod", f"{job.name}-worker-2"): Refusal("exceeded quota")}
    job.step()
    schedule(job, 0, 1)
    job.step()
    assert job.workers == [0, 1]
    assert job.services == [f"{job.name}-worker-{index}" for index in range(2)]

    job.refuse = {}
    job.settle()
    schedule(job, 2)
    job.settle()
    assert job.workers == [0, 1, 2]
    assert job.services == [f"{job.name}-worker-{index}" for index in range(3)]


def test_a_job_whose_pods_exist_does_not_fail_for_want_of_a_service() -> None:
    job = ElasticWorld(elastic(2, hosted=True))
    service = f"{job.name}-worker-1"
    job.refuse = {ChildKey("Service", service): Refusal("invalid", permanent=True)}
    job.step()
    schedule(job, 0, 1)
    job.step()

    assert job.workers == [0, 1]
    assert job.status["phase"] == "Created"
    assert job.conditions["Synced"]["message"] == f"Service {service}: invalid"


def test_an_existing_object_of_others_is_not_modified() -> None:
    job = ElasticWorld(elastic())
    job.foreign = {ChildKey("Service", "flowers-worker-1")}
    job.step()
    assert job.status["phase"] == "Created"
    assert job.status["reason"] == "ErrResourceExists"
    assert job.pods == {}
    assert job.requeue_after == 30
    job.foreign = set()
    job.settle()

    assert job.workers == [0, 1]


def test_pods_that_the_api_never_accepts_fail_the_job() -> None:
    job = ElasticWorld(elastic())
    text = "Pod is invalid: spec.containers[0].image: Required value"
    job.refuse = {
        ChildKey("Pod", f"flowers-worker-{index}"): Refusal(text, permanent=True)
        for index in range(2)
    }
    job.settle()

    assert job.status["phase"] == "Failed"
    assert job.conditions["Failed"]["reason"] == "FailedCreatePod"
    assert "spec.containers[0].image" in job.status["message"]


def test_the_job_waits_for_leftovers_of_an_earlier_job() -> None:
    job = ElasticWorld(elastic())
    job.leftovers = frozenset({ChildKey("Pod", "flowers-worker-0")})
    job.settle()
    assert job.pods == {}
    assert "earlier ElasticJob" in job.status["message"]
    job.leftovers = frozenset()
    job.settle()

    assert job.workers == [0, 1]


def test_an_overridden_restart_policy_of_the_template_is_reported() -> None:
    manifest = elastic()
    worker = manifest["spec"]["replicaSpecs"]["Worker"]
    worker["template"]["spec"]["restartPolicy"] = "Always"
    job = ElasticWorld(manifest)
    job.settle()
    job.settle()

    (event,) = job.events
    assert (event.type, event.reason) == ("Warning", "SettedPodTemplateRestartPolicy")
    assert "spec.replicaSpecs.Worker.template.spec.restartPolicy: Always" in event.message


@pytest.mark.parametrize(
    ("kind", "count", "told"),
    [
        ("Pod", 2, ["Created 2 pods: a-0, a-1"]),
        ("Service", 1, ["Created service: a-0"]),
        ("Pod", 1000, ["Created 1000 pods: a-0 ... a-999"]),
        ("ElasticJob", 1, ["Created job: a-0"]),
    ],
)
def test_created_objects_are_reported_briefly(kind: str, count: int, told: list[str]) -> None:
    events = written("Create", [ChildKey(kind, f"a-{index}") for index in range(count)])

    assert [event.message for event in events] == told
    word = "Job" if kind == "ElasticJob" else kind
    assert {event.reason for event in events} == {f"SuccessfulCreate{word}"}


def test_nothing_is_written_for_a_job_that_is_being_deleted() -> None:
    job = world()
    job.job["metadata"]["deletionTimestamp"] = job.stamp()
    job.vanish("flowers-worker-0")

    assert not writes_children(job.plan())


# -- which container counts ---------------------------------------------------------------------


def helped(policy: str = "ExitCode", name: str = "trainer", **spec: Any) -> ElasticWorld:
    """Two running workers, each with an init container, a native sidecar and a second container."""
    document = elastic(policy=policy, **spec)
    pod = document["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
    pod["containers"] = [
        {"name": name, "image": "x"},
        {"name": "another", "image": "x"},
    ]
    pod["initContainers"] = [
        {"name": "before", "image": "x"},
        {"name": "sidecar", "image": "x", "restartPolicy": "Always"},
    ]
    return ElasticWorld(document).begin()


def end(job: ElasticWorld, index: int, **codes: int) -> None:
    """All containers of a worker end; the kubelet sorts the status of plain ones by name."""
    pod = job.pod(index)
    statuses: dict[str, Any] = {
        name: {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": job.stamp()}}}
        for name, code in codes.items()
    }
    init = [statuses.pop(name) for name in ("before", "sidecar") if name in statuses]
    plain = [statuses[name] for name in sorted(statuses)]
    failed = any(each["state"]["terminated"]["exitCode"] for each in plain)
    pod["status"]["phase"] = "Failed" if failed or codes.get("before") else "Succeeded"
    pod["status"]["conditions"] = []
    pod["status"]["initContainerStatuses"] = init
    pod["status"]["containerStatuses"] = plain


def test_a_sidecar_that_is_killed_after_the_program_does_not_count() -> None:
    job = helped(minReplicas=2)
    end(job, 1, before=0, sidecar=137, trainer=3, another=143)
    job.settle()

    assert job.status["phase"] == "Failed"
    assert "container trainer exited with code 3" in job.status["message"]
    assert "sidecar" not in job.status["message"]
    assert job.reasons() == ["ExitedWithCode", "ElasticJobFailed"]
    assert job.events[0].message == "Pod: default.flowers-worker-1 exited with code 3"


def test_a_program_that_is_killed_counts_whatever_ends_with_it() -> None:
    job = helped(backoffLimit=3)
    before = job.uid(1)
    end(job, 1, before=0, sidecar=1, trainer=137, another=1)
    job.settle()

    assert job.uid(1) != before
    assert job.status["failures"] == 1


def test_a_second_container_that_fails_does_not_fail_the_worker() -> None:
    job = helped(minReplicas=2)
    end(job, 0, before=0, sidecar=0, trainer=0, another=1)
    end(job, 1, before=0, sidecar=137, trainer=0, another=137)
    job.settle()

    assert job.status["phase"] == "Succeeded"


def test_the_container_of_the_contract_counts_wherever_it_stands() -> None:
    job = helped(minReplicas=2)
    for index in range(2):
        names = job.pod(index)["spec"]["containers"]
        names.reverse()
        names[1]["name"] = "elasticjob-worker"
    end(job, 1, before=0, sidecar=143, another=0, **{"elasticjob-worker": 2})
    job.settle()

    assert job.status["phase"] == "Failed"
    assert "container elasticjob-worker exited with code 2" in job.status["message"]


def test_an_init_container_that_is_killed_fails_the_worker_for_good() -> None:
    """As upstream, which restarts a worker only for the exit code of its launcher."""
    job = helped(minReplicas=2)
    end(job, 1, before=137)
    job.settle()

    assert job.status["phase"] == "Failed"
    assert "container before exited with code 137" in job.status["message"]


# -- workers that come when the others are done -------------------------------------------------


def with_one_pending(policy: str, *, clean: str = "None") -> ElasticWorld:
    """Three workers of which the last one has no node, and two train."""
    job = ElasticWorld(elastic(3, policy, minReplicas=2, cleanPodPolicy=clean))
    job.settle()
    job.run("flowers-worker-0", "flowers-worker-1")
    job.settle()
    job.pass_time(60)
    return job


def crash(job: ElasticWorld, index: int) -> None:
    """The kubelet restarts a worker that has failed, again and again."""
    status = job.pod(index)["status"]["containerStatuses"][0]
    began = status["state"].get("running", {}).get("startedAt", job.stamp())
    ended = {"exitCode": 1, "startedAt": began, "finishedAt": job.stamp()}
    status["restartCount"] = status.get("restartCount", 0) + 1
    status["lastState"] = {"terminated": ended}
    status["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    job.pod(index)["status"]["conditions"] = []


@pytest.mark.parametrize("policy", ["OnFailure", "Always", "ExitCode", "Never"])
def test_a_worker_that_is_pending_when_the_others_succeed_is_not_waited_for(policy: str) -> None:
    job = with_one_pending(policy)
    job.fail(0, 0)
    job.settle()
    assert job.status["phase"] == "Running"
    job.fail(1, 0)
    job.settle()

    assert job.status["phase"] == "Succeeded"
    assert job.workers == [0, 1]  # what came too late would only keep a node busy


@pytest.mark.parametrize("policy", ["OnFailure", "ExitCode", "Never"])
def test_a_worker_that_starts_between_the_successes_and_fails_is_not_counted(policy: str) -> None:
    job = with_one_pending(policy)
    job.fail(0, 0)
    job.settle()
    job.pass_time(2)
    job.run("flowers-worker-2")
    job.settle()
    job.pass_time(5)
    if policy == "OnFailure":
        crash(job, 2)
    else:
        began = job.pod(2)["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        job.fail(2, 1, startedAt=began)
    job.settle()
    assert job.status["phase"] in {"Running", "Restarting"}
    job.fail(1, 0)
    job.settle()

    assert job.status["phase"] == "Succeeded"


def test_a_worker_that_started_late_and_hangs_is_not_waited_for() -> None:
    job = with_one_pending("OnFailure")
    job.fail(0, 0)
    job.settle()
    job.pass_time(2)
    job.run("flowers-worker-2")
    job.settle()
    job.fail(1, 0)
    job.settle()

    assert job.status["phase"] == "Succeeded"
    assert job.workers == [0, 1]


def test_a_worker_that_trained_with_the_others_is_waited_for() -> None:
    job = world(3, policy="OnFailure", minReplicas=1)
    job.fail(0, 0)
    job.fail(1, 0)
    job.settle()

    assert job.status["phase"] == "Running"
    assert job.workers == [0, 1, 2]


def test_fewer_successes_than_the_smallest_group_do_not_complete_it() -> None:
    job = ElasticWorld(elastic(3, "OnFailure", minReplicas=2))
    job.settle()
    job.run("flowers-worker-0")
    job.settle()
    job.fail(0, 0)
    job.settle()

    assert job.status["phase"] == "Running"
    assert job.workers == [0, 1, 2]
