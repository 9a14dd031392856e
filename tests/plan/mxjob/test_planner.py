"""What the operator decides for an MxJob, step by step."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest

from plan.mxjob.manifests import distributed, local
from plan.mxjob.world import MxWorld
from plan.shared.queues import assert_moved, moved
from plan.world import OPTIONS, CrashedError
from traincrew.plan.mxjob.planner import plan
from traincrew.plan.shared.model import ChildKey, Confirm

ROLES = ["scheduler-0", "server-0", "worker-0", "worker-1"]


def started(**spec: Any) -> MxWorld:
    """A distributed job whose pods all run."""
    world = MxWorld(distributed(**spec))
    world.start()
    assert world.status["phase"] == "Running"
    return world


def restarted(world: MxWorld, attempt: int) -> None:
    """Assert that all replicas run in the next attempt."""
    world.start()
    assert world.status["attempt"] == attempt
    assert world.status["phase"] == "Running"
    assert world.jobs == ROLES
    assert len(world.pods) == len(ROLES)


def test_a_distributed_job_begins_to_run() -> None:
    world = MxWorld(distributed())
    world.settle()
    assert world.status["phase"] == "Creating"
    assert world.status["message"] == "0/4 replicas running"
    assert world.jobs == ROLES
    services = [key.name for key in world.children if key.kind == "Service"]
    assert services == [f"digits-scheduler-{world.job['spec']['RuntimeId']}-0"]
    world.run()
    world.settle()
    assert (world.status["phase"], world.status["workersReady"]) == ("Running", "4/4")
    assert "state" not in world.status
    assert world.status["controlPaused"] is False


def test_the_runtime_id_alone_is_written_before_anything_is_created() -> None:
    world = MxWorld(distributed())
    before = copy.deepcopy(world.job["spec"])
    world.step()
    spec = world.job["spec"]
    assert len(spec["RuntimeId"]) == 4
    assert spec == {**before, "RuntimeId": spec["RuntimeId"]}
    assert not world.children
    world.settle()
    assert world.job["spec"] == spec
    assert world.status["runtimeId"] == spec["RuntimeId"]
    assert world.status["psRootPort"] == 9091


@pytest.mark.parametrize("name", ["RuntimeId", "runtimeId"])
def test_nothing_is_written_into_a_spec_with_a_runtime_id(name: str) -> None:
    world = MxWorld(
        distributed(RuntimeId="mine") if name == "RuntimeId" else distributed(runtimeId="mine")
    )
    before = copy.deepcopy(world.job["spec"])
    world.settle()
    assert world.job["spec"] == before
    assert world.status["runtimeId"] == "mine"
    assert all("-mine-" in key.name for key in world.children)


def test_a_job_that_is_replaced_without_its_runtime_id_keeps_it_in_the_status() -> None:
    world = MxWorld(distributed())
    world.start()
    identifier = world.status["runtimeId"]
    before = set(world.children)
    del world.job["spec"]["RuntimeId"]
    world.edit()
    world.settle()
    assert "RuntimeId" not in world.job["spec"]
    assert world.status["runtimeId"] == identifier
    assert set(world.children) == before


def test_it_succeeds_when_the_scheduler_and_every_worker_have() -> None:
    world = started()
    for role in ("scheduler-0", "worker-0"):
        world.end(world.replica(role), 0, finishedAt=world.stamp())
        world.settle()
        assert world.status["phase"] == "Running"
    world.end(world.replica("server-0"), 0, finishedAt=world.stamp())
    world.end(world.replica("worker-1"), 0, finishedAt=world.stamp())
    world.settle()
    assert (world.status["phase"], world.status["state"]) == ("Done", "Succeeded")
    assert [entry["state"] for entry in world.status["replicaStatuses"]] == ["Succeeded"] * 3
    assert world.events[-1].reason == "MxJobSucceeded"


def test_servers_may_end_by_themselves_and_are_stopped_if_they_do_not() -> None:
    world = started()
    for role in ("scheduler-0", "worker-0", "worker-1"):
        world.end(world.replica(role), 0, finishedAt=world.stamp())
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.requeue_after == pytest.approx(10)
    world.pass_time(10)
    world.settle()
    assert world.status["state"] == "Succeeded"
    assert [name for name in world.pods if "server" in name] == []


def test_a_server_that_fails_at_the_end_changes_nothing() -> None:
    world = started()
    for role in ("scheduler-0", "worker-0", "worker-1"):
        world.end(world.replica(role), 0, finishedAt=world.stamp())
    world.end(world.replica("server-0"), 134)
    world.settle()
    assert world.status["state"] == "Succeeded"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("code", [128, 134, 137, 139, 143, 255])
def test_all_replicas_are_restarted_after_one_was_killed(role: str, code: int) -> None:
    world = started()
    world.end(world.replica(role), code)
    world.step()
    assert world.status["phase"] == "Creating"
    assert world.holds("Restarting")
    assert f"exited with code {code}" in world.status["message"]
    assert "All replicas are restarted (restart 1 of 6)." in world.status["message"]
    restarted(world, 1)
    assert (world.status["failures"], world.status["restarts"]) == (1, 1)
    assert not world.holds("Restarting")
    assert f"exited with code {code}" in world.status["lastRestartReason"]
    assert [event.reason for event in world.events].count("Restarting") == 1


def test_replicas_that_fail_together_are_one_restart() -> None:
    world = started()
    for role in ROLES:
        world.end(world.replica(role), 137, finishedAt=world.stamp())
    restarted(world, 1)
    assert world.status["failures"] == 1


def test_the_first_failure_decides() -> None:
    world = started()
    world.end(world.replica("worker-1"), 137, finishedAt=world.stamp())
    world.pass_time(1)
    world.end(world.replica("worker-0"), 1, finishedAt=world.stamp())
    restarted(world, 1)


@pytest.mark.parametrize("code", [1, 3, 127])
def test_a_program_that_fails_by_itself_fails_the_job(code: int) -> None:
    world = started()
    world.end(world.replica("worker-1"), code, message="ValueError: no such file")
    world.settle()
    assert (world.status["phase"], world.status["state"]) == ("Done", "Failed")
    reason = world.status["reason"]
    assert reason.startswith("Worker 1 failed: pod digits-worker-")
    assert f"exited with code {code}: ValueError: no such file" in reason
    assert world.conditions["Failed"]["reason"] == "ReplicaFailed"


@pytest.mark.parametrize(("code", "reason"), [(137, "OOMKilled"), (128, "StartError")])
def test_what_ends_in_the_same_way_each_time_fails_the_job(code: int, reason: str) -> None:
    world = started()
    world.end(world.replica("server-0"), code, reason=reason)
    world.settle()
    assert world.status["state"] == "Failed"
    assert f"({reason})" in world.status["reason"]


def test_the_limit_of_restarts_is_kept() -> None:
    world = started(runPolicy={"backoffLimit": 1})
    world.end(world.replica("worker-0"), 137)
    restarted(world, 1)
    world.end(world.replica("worker-0"), 137)
    world.settle()  # nobody waits for the end
    assert world.status["state"] == "Failed"
    assert world.conditions["Failed"]["reason"] == "BackoffLimitExceeded"
    assert "after 1 restart (spec.runPolicy.backoffLimit: 1)" in world.status["reason"]


def at_once(world: MxWorld, end: Any) -> list[float]:
    """The seconds until each next attempt of a job whose replica ends as soon as it runs."""
    waits: list[float] = []
    while True:
        world.start()
        end(world)
        world.settle()
        if world.status["phase"] == "Done":
            return waits
        waited = 0.0
        while not world.jobs:
            after = world.requeue_after
            assert after is not None
            waited += after
            world.pass_time(after)
            world.settle()
        waits.append(waited)


def test_a_role_that_dies_at_once_is_restarted_later_each_time() -> None:
    world = MxWorld(distributed(runPolicy={"backoffLimit": 8}))
    waits = at_once(world, lambda world: world.end(world.replica("worker-0"), 139))

    assert waits == [0, 10, 20, 40, 80, 160, 320, 360]
    messages = [event.message for event in world.events if event.reason == "Restarting"]
    assert messages[0].endswith("All replicas are restarted (restart 1 of 8).")
    assert messages[1].endswith("All replicas are restarted in 10 s (restart 2 of 8).")
    assert messages[2].endswith("All replicas are restarted in 20 s (restart 3 of 8).")
    assert world.conditions["Failed"]["reason"] == "BackoffLimitExceeded"


def test_a_failing_init_container_is_tried_again_with_the_same_delays() -> None:
    def end(world: MxWorld) -> None:
        pod = world.replica("worker-0")
        world.end(pod, 1)
        terminated = {"exitCode": 1, "reason": "Error"}
        pod["status"]["initContainerStatuses"] = [
            {"name": "before", "state": {"terminated": terminated}}
        ]
        waiting = {"waiting": {"reason": "PodInitializing"}}
        pod["status"]["containerStatuses"] = [{"name": "mxnet", "state": waiting}]

    world = MxWorld(distributed(runPolicy={"backoffLimit": 3}))

    assert at_once(world, end) == [0, 10, 20]
    assert "container before exited with code 1" in world.status["reason"]


def test_who_waits_for_a_restart_reads_for_how_long() -> None:
    world = started()
    world.end(world.replica("worker-0"), 137)
    restarted(world, 1)
    world.end(world.replica("worker-0"), 137)
    world.settle()
    assert world.status["message"].endswith(
        "All replicas are restarted in 10 s (restart 2 of 6). 0/4 replicas running."
    )
    assert world.conditions["Restarting"]["status"] == "True"
    assert world.jobs == []  # the resources are free meanwhile
    world.pass_time(9)
    world.settle()
    assert (world.jobs, world.requeue_after) == ([], 1)
    world.pass_time(1)
    restarted(world, 2)


@pytest.mark.parametrize("how", ["evicted", "after six minutes"])
def test_evictions_and_long_training_are_followed_by_no_delay(how: str) -> None:
    world = started()
    world.end(world.replica("worker-0"), 137)
    restarted(world, 1)
    if how == "evicted":
        world.disrupt(world.replica("worker-0"))
    else:
        world.pass_time(360)
        world.end(world.replica("worker-0"), 137)
    restarted(world, 2)


def test_the_time_to_start_begins_when_the_back_off_is_over() -> None:
    world = started(runPolicy={"schedulingPolicy": {"scheduleTimeoutSeconds": 5}})
    world.end(world.replica("worker-0"), 137)
    restarted(world, 1)
    world.end(world.replica("worker-0"), 137)
    world.settle()
    world.pass_time(10)
    world.settle()
    assert world.status["phase"] == "Creating"
    assert world.jobs == ROLES


def test_disruptions_are_not_counted() -> None:
    world = started(runPolicy={"backoffLimit": 0})
    world.disrupt(world.replica("worker-0"))
    restarted(world, 1)
    assert world.status.get("failures", 0) == 0
    assert "(not counted)" in world.status["lastRestartReason"]


def test_a_pod_that_is_deleted_is_a_disruption_at_once() -> None:
    world = started(runPolicy={"backoffLimit": 0})
    world.leave(world.replica("server-0"))
    world.step()
    assert "Server 0 failed: pod digits-server-" in world.status["message"]
    restarted(world, 1)
    assert world.status.get("failures", 0) == 0


def test_what_is_known_of_a_pod_that_is_gone_is_in_its_job() -> None:
    world = started()
    pod = world.replica("server-0")
    world.end(pod, 1)
    world.controllers()
    del world.pods[pod["metadata"]["name"]]
    world.settle()
    assert world.status["state"] == "Failed"
    assert "Server 0 failed: Job digits-server-" in world.status["reason"]
    assert "exit code 1" in world.status["reason"]


def test_a_pod_that_ends_because_it_is_deleted_is_not_counted() -> None:
    world = started(runPolicy={"backoffLimit": 0})
    pod = world.replica("server-0")
    world.leave(pod)  # the API server does that before the node ends its containers
    world.end(pod, 143)
    restarted(world, 1)
    assert world.status.get("failures", 0) == 0


def test_a_pod_that_is_killed_and_then_deleted_is_counted_once() -> None:
    world = started()
    pod = world.replica("server-0")
    world.end(pod, 143)
    world.step()
    world.leave(pod)
    restarted(world, 1)
    assert (world.status["failures"], world.status["restarts"]) == (1, 1)


@pytest.mark.parametrize(("code", "failures"), [(143, 0), (137, 0), (139, 1)])
def test_a_pod_that_was_deleted_while_no_operator_ran(code: int, failures: int) -> None:
    """Its Job knows the exit code; a pod that was not deleted would still be there."""
    world = started()
    pod = world.replica("server-0")
    world.end(pod, code)
    world.controllers()
    del world.pods[pod["metadata"]["name"]]
    restarted(world, 1)
    assert world.status.get("failures", 0) == failures


def test_a_cache_that_does_not_know_yet_how_a_pod_ended_is_not_relied_on() -> None:
    """The Job has failed, and its pod seems to run: whether it was deleted is not known."""
    world = started(runPolicy={"backoffLimit": 0})
    pod = world.replica("server-0")
    world.end(pod, 143)
    world.controllers()
    pod["metadata"]["deletionTimestamp"] = world.stamp()
    stale = copy.deepcopy(pod)
    del stale["metadata"]["deletionTimestamp"]
    stale["status"] = copy.deepcopy(world.replica("worker-0")["status"])
    world.pods[pod["metadata"]["name"]] = stale
    assert isinstance(plan(world.observed(), world.now, OPTIONS), Confirm)
    world.pods[pod["metadata"]["name"]] = pod
    restarted(world, 1)
    assert world.status.get("failures", 0) == 0


def test_a_job_deleted_by_hand_is_a_disruption_once_the_api_server_has_confirmed_it() -> None:
    world = started(runPolicy={"backoffLimit": 0})
    key = next(key for key in world.children if "worker" in key.name)
    world.remove(key)
    world.step()
    assert f"Job {key.name} was deleted" in world.status["message"]
    restarted(world, 1)


def test_a_job_deleted_before_all_ran_is_created_again() -> None:
    world = MxWorld(distributed())
    world.settle()
    key = next(key for key in world.children if "worker" in key.name)
    world.remove(key)
    restarted(world, 0) if "attempt" in world.status else world.start()
    assert world.jobs == ROLES
    assert world.status["phase"] == "Running"


def test_old_pods_are_waited_for_but_not_those_a_lost_node_keeps() -> None:
    world = started()
    world.end(world.replica("worker-0"), 137)
    world.step()
    world.step()
    assert world.jobs == []
    world.step()
    assert world.jobs == []  # they still end
    assert world.requeue_after is not None
    assert world.requeue_after <= 15  # 5 s of grace, and 10 s more
    world.pass_time(16)
    world.step()
    assert world.jobs == ROLES


def test_a_suspended_job_has_no_jobs_and_begins_a_new_attempt() -> None:
    world = started()
    world.edit(runPolicy={"suspend": True})
    world.settle()
    assert world.status["phase"] == "Suspended"
    assert (world.jobs, world.pods) == ([], {})
    world.edit(runPolicy={"suspend": False})
    restarted(world, 1)
    assert world.status.get("failures", 0) == 0


def test_a_job_that_was_changed_while_suspended_runs_the_new_template() -> None:
    world = started()
    world.edit(runPolicy={"suspend": True})
    world.settle()
    specs = [
        {**each, "template": moved(each["template"])} for each in world.job["spec"]["replicaSpecs"]
    ]
    world.edit(replicaSpecs=specs)
    world.settle()
    world.edit(runPolicy={"suspend": False})
    restarted(world, 1)

    for key, child in world.children.items():
        if key.kind == "Job":
            assert_moved(child["spec"]["template"])


def test_a_job_that_is_resumed_before_its_pods_were_deleted_is_not_restarted_twice() -> None:
    world = started()
    world.edit(runPolicy={"suspend": True})
    world.step()
    assert world.status["phase"] == "Suspended"
    assert world.pods
    world.edit(runPolicy={"suspend": False})
    restarted(world, 1)
    assert world.status["restarts"] == 0


def test_a_failed_job_keeps_the_pods_that_ended_and_stops_the_others() -> None:
    world = started()
    world.end(world.replica("worker-0"), 1)
    world.settle()
    assert [name for name in world.pods if "worker" not in name] == []
    assert len(world.pods) == 1


@pytest.mark.parametrize(("policy", "left"), [("None", 4), ("All", 0), ("Running", 1)])
def test_the_clean_up_policy_decides_what_stays(policy: str, left: int) -> None:
    world = started(runPolicy={"cleanPodPolicy": policy})
    world.end(world.replica("worker-0"), 1)
    world.settle()
    assert len(world.pods) == left


def test_a_pod_is_not_deleted_before_the_controller_of_its_job_has_counted_it() -> None:
    world = MxWorld(local(runPolicy={"cleanPodPolicy": "All"}))
    world.start()
    pod = world.replica("worker-0")
    world.end(pod, 0)
    while world.step():
        pass
    (job,) = (child for key, child in world.children.items() if key.kind == "Job")
    assert world.status["phase"] == "Done"
    assert not job["spec"].get("suspend")
    assert "deletionTimestamp" not in pod["metadata"]
    world.settle()
    assert not world.pods
    assert not job["spec"].get("suspend")


def test_a_finished_job_is_final() -> None:
    world = started()
    world.end(world.replica("worker-0"), 1)
    world.settle()
    before = world.status
    for key in list(world.children):
        world.remove(key)
    world.controllers()
    world.settle()
    assert world.children == {}
    assert {**world.status, "replicaStatuses": []} == {**before, "replicaStatuses": []}


def test_a_job_that_ended_under_mxnet_operator_has_ended() -> None:
    manifest = distributed()
    manifest["status"] = {
        "phase": "Done",
        "state": "Succeeded",
        "reason": "",
        "controlPaused": False,
        "conditions": None,
        "replicaStatuses": [
            {"Mx_replica_type": "WORKER", "state": "Succeeded", "ReplicasStates": {"Succeeded": 2}}
        ],
    }
    world = MxWorld(manifest)
    world.settle()
    assert world.children == {}
    assert (world.status["phase"], world.status["state"]) == ("Done", "Succeeded")
    assert world.status["replicaStatuses"][0]["ReplicasStates"] == {"Succeeded": 2}


def test_replicas_that_never_run_fail_the_job() -> None:
    world = MxWorld(distributed(runPolicy={"schedulingPolicy": {"scheduleTimeoutSeconds": 60}}))
    world.settle()
    pod = world.replica("worker-0")
    pod["status"]["containerStatuses"] = [
        {"name": "mxnet", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such"}}}
    ]
    world.run(*(name for name in world.pods if name != pod["metadata"]["name"]))
    world.settle()
    assert world.status["message"] == "3/4 replicas running; worker 0: ErrImagePull: no such"
    world.pass_time(60)
    world.settle()
    assert (world.status["phase"], world.status["state"]) == ("Done", "Failed")
    assert "worker 0: ErrImagePull: no such" in world.status["reason"]


def test_a_deadline_ends_the_job() -> None:
    world = started(runPolicy={"activeDeadlineSeconds": 60})
    assert world.requeue_after == pytest.approx(60)
    world.pass_time(60)
    world.settle()
    assert world.status["state"] == "Failed"
    assert world.pods == {}


def test_an_invalid_job_fails_and_creates_nothing() -> None:
    manifest = distributed()
    del manifest["spec"]["replicaSpecs"][0]
    world = MxWorld(manifest)
    world.settle()
    assert world.status["phase"] == "Failed"
    assert "state" not in world.status
    assert "there is none for SCHEDULER" in world.status["reason"]
    assert world.children == {}


def test_a_local_job_is_one_pod_without_service() -> None:
    world = MxWorld(local())
    world.start()
    assert world.jobs == ["worker-0"]
    assert [key.kind for key in world.children] == ["Job"]
    world.end(world.replica("worker-0"), 137)
    world.start()
    assert world.status["attempt"] == 1
    world.end(world.replica("worker-0"), 0)
    world.settle()
    assert (world.status["phase"], world.status["message"]) == ("Done", "The worker has succeeded.")


@pytest.mark.parametrize("running", [True, False])
def test_a_runtime_id_that_was_removed_and_set_again_to_another_one(running: bool) -> None:
    world = MxWorld(distributed(RuntimeId="mine"))
    world.start() if running else world.settle()
    before = set(world.children)
    world.edit(RuntimeId="other")
    world.settle()
    assert set(world.children) == before
    assert world.status["runtimeId"] == "mine"
    assert world.status["phase"] == ("Running" if running else "Creating")
    synced = world.conditions["Synced"]
    assert (synced["status"], synced["reason"]) == ("False", "FailedSynced")
    assert synced["message"] == (
        "spec.RuntimeId: it is other, but the job has children with mine in their names; write mine"
        " again, or remove the field"
    )
    assert world.events[-1].message == synced["message"]
    del world.job["spec"]["RuntimeId"]
    world.edit()
    world.start()
    assert world.status["runtimeId"] == "mine"
    assert "Synced" not in world.conditions
    assert set(world.children) == before


def test_only_the_name_of_another_group_is_in_the_way() -> None:
    world = MxWorld(distributed())
    world.step()
    name = f"digits-worker-{world.job['spec']['RuntimeId']}-0"
    world.foreign = {ChildKey("Job", name)}
    world.settle()
    assert world.conditions["Synced"]["reason"] == "ErrResourceExists"
    assert name in world.status["message"]


@pytest.mark.parametrize("after", range(16))
def test_an_operator_that_dies_during_a_restart_is_continued(after: int) -> None:
    world = started()
    world.end(world.replica("server-0"), 137)
    world.crash_at = world.writes + after
    for _ in range(8):
        with contextlib.suppress(CrashedError):
            world.step()
            world.controllers()
    world.crash_at = None
    restarted(world, 1)
    assert (world.status["failures"], world.status["restarts"]) == (1, 1)
    assert all(count <= 2 for count in world.made.values())


def test_a_job_that_trained_for_hours_is_restarted_whatever_its_time_to_start_is() -> None:
    world = started(runPolicy={"schedulingPolicy": {"scheduleTimeoutSeconds": 60}})
    world.pass_time(7200)
    world.end(world.replica("worker-0"), 137)
    restarted(world, 1)


def test_what_an_init_container_exited_with_is_not_the_programs_exit_code() -> None:
    """Its pod is gone, and the Job knows the name of the container."""
    world = started()
    pod = world.replica("server-0")
    ended = {"exitCode": 1, "reason": "Error"}
    pod["status"]["initContainerStatuses"] = [{"name": "before", "state": {"terminated": ended}}]
    pod["status"] |= {"phase": "Failed", "conditions": [], "containerStatuses": []}
    world.controllers()
    del world.pods[pod["metadata"]["name"]]
    restarted(world, 1)
    assert world.status["failures"] == 1
