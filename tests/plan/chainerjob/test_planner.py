"""Plans for a ChainerJob, as histories of its pods."""

import copy
from typing import Any

import pytest

from plan.chainerjob.world import ChainerWorld, distributed, plain
from plan.shared.queues import assert_moved, moved
from plan.world import writes_children
from traincrew.plan.shared import podrecords
from traincrew.plan.shared.masterjob import WATCH_LAG_SECONDS
from traincrew.plan.shared.model import ChildKey, Plan, Refusal

MASTER = ChildKey("Job", "digits-mn-master")
WORKERS = ChildKey("StatefulSet", "digits-mn-workerset-ws0")


def started(manifest: dict[str, Any] | None = None) -> Any:
    world = ChainerWorld(manifest or distributed())
    world.settle()
    world.run()
    world.settle()
    return world


def running(manifest: dict[str, Any] | None = None) -> Any:
    world = started(manifest)
    world.run()
    world.settle()
    return world


def reasons(world: ChainerWorld) -> Any:
    return [event.reason for event in world.events]


# -- without failures -------------------------------------------------------------------------


def test_a_plain_job_from_creation_to_success() -> None:
    world = ChainerWorld(plain())
    world.settle()
    assert world.status["phase"] == "Created"
    assert world.conditions["Running"]["reason"] == "MasterPending"
    assert "workersReady" not in world.status

    world.run()
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.status["startTime"] == world.stamp()

    world.pass_time(60)
    world.end(world.master_pod, 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"
    assert world.holds("Complete")
    assert world.conditions["Complete"]["lastProbeTime"]
    assert world.status["succeeded"] == 1
    assert world.status["completionTime"] == world.stamp()
    assert world.status["replicaStatuses"]["master"] == {
        "active": 0, "ready": 0, "succeeded": 1, "failed": 0, "restarts": 0,
    }  # fmt: skip
    assert reasons(world) == ["Synced"]
    assert {key.kind for key in world.children} == {
        "ServiceAccount", "Role", "RoleBinding", "Job",
    }  # fmt: skip


def test_a_job_that_starts_and_ends_between_two_reconciles_has_a_start_time() -> None:
    world = ChainerWorld(plain(master={**plain()["spec"]["master"], "backoffLimit": 0}))
    world.step()
    world.controllers()
    began = world.stamp()
    world.pass_time(3)
    world.end(world.master_pod, 127)
    world.controllers()
    world.settle()
    assert world.status["phase"] == "Failed"
    assert world.status["startTime"] == began


def test_a_distributed_job_from_creation_to_success() -> None:
    world = ChainerWorld(distributed())
    world.settle()
    assert MASTER not in world.children
    assert world.status["workersReady"] == "0/2"
    assert world.conditions["Running"]["message"] == "0/2 workers ready"

    world.run("digits-mn-workerset-ws0-1")
    world.settle()
    assert MASTER not in world.children
    assert world.conditions["Running"]["reason"] == "WaitingForWorkers"
    assert world.conditions["Running"]["message"] == "1/2 workers ready"

    world.run()
    world.settle()
    assert MASTER in world.children
    assert world.status["workersReady"] == "2/2"
    assert world.conditions["Running"]["reason"] == "MasterPending"

    world.run()
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.status["message"] == "The master and 2 workers are running."

    one = distributed()
    one["spec"]["workerSets"]["ws0"]["replicas"] = 1
    assert running(one).status["message"] == "The master and 1 worker are running."

    world.end(world.master_pod, 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"
    assert world.children[WORKERS]["spec"]["replicas"] == 0
    assert list(world.pods) == [world.master_pod["metadata"]["name"]]
    assert world.status["replicaStatuses"]["ws0"]["active"] == 0
    assert world.status["workersReady"] == "0/0"


def test_a_set_without_replicas_is_ready() -> None:
    manifest = distributed()
    manifest["spec"]["workerSets"]["ws0"]["replicas"] = 0
    world = ChainerWorld(manifest)
    world.settle()

    assert MASTER in world.children
    assert [rule["resources"] for rule in world.children[
        ChildKey("Role", "digits-mn-launcher-role")]["rules"]] == [["statefulsets"]]  # fmt: skip


def test_what_is_computed_is_shown_in_the_status_and_not_written_into_the_spec() -> None:
    manifest = distributed()
    spec = manifest["spec"]
    del spec["backend"], spec["master"]["mpiConfig"], spec["workerSets"]["ws0"]["mpiConfig"]
    container = spec["workerSets"]["ws0"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": "4"}}
    world = ChainerWorld(manifest)
    before = copy.deepcopy(world.job["spec"])
    world.settle()

    assert world.job["spec"] == before
    replicas = world.status["replicaStatuses"]
    assert (replicas["master"]["slots"], replicas["ws0"]["slots"]) == (1, 4)
    assets = world.children[ChildKey("ConfigMap", "digits-mn-assets")]
    assert assets["data"]["statefulsets_and_slots"] == "digits-mn-workerset-ws0 slots=4\n"
    assert world.status["observedGeneration"] == 1
    assert reasons(world) == ["Synced"]


def test_nothing_is_computed_for_a_plain_job() -> None:
    world = ChainerWorld(plain())
    world.settle()

    assert "backend" not in world.job["spec"]
    assert "mpiConfig" not in world.job["spec"]["master"]
    assert "slots" not in world.status["replicaStatuses"]["master"]


# -- waiting for workers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            {"containerStatuses": [{"name": "chainer", "state": {"waiting": {
                "reason": "ImagePullBackOff", "message": "no such image: everpeace/x"}}}]},
            "digits-mn-workerset-ws0-1: ImagePullBackOff: no such image: everpeace/x",
        ),
        (
            {"conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}]},
            ("digits-mn-workerset-ws0-1: Unschedulable: 0/1 nodes are available: 1 Insufficient"
            " nvidia.com/gpu."),
        ),
        (
            {"containerStatuses": [{"name": "chainer", "state": {"waiting": {
                "reason": "CreateContainerConfigError",
                "message": 'couldn\'t find key "lr" in ConfigMap default/settings'}}}]},
            'CreateContainerConfigError: couldn\'t find key "lr" in ConfigMap default/settings',
        ),
        (
            {"containerStatuses": [{"name": "chainer", "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff",
                                      "message": "back-off 40s restarting failed container"}},
                "lastState": {"terminated": {"exitCode": 2}}}]},
            ("CrashLoopBackOff: back-off 40s restarting failed container (container chainer exited"
            " with code 2)"),
        ),
    ],
)  # fmt: skip
def test_the_message_says_why_a_worker_is_not_ready(status: dict[str, Any], text: str) -> None:
    world = ChainerWorld(distributed())
    world.settle()
    world.run("digits-mn-workerset-ws0-0")
    world.pods["digits-mn-workerset-ws0-1"]["status"] |= status
    world.settle()

    assert world.status["phase"] == "Created"
    assert world.status["message"].startswith("1/2 workers ready; ")
    assert text in world.status["message"]
    assert MASTER not in world.children


def test_the_job_fails_when_workers_do_not_become_ready_in_time() -> None:
    world = ChainerWorld(distributed())
    world.settle()
    assert world.requeue_after == 1800
    world.pods["digits-mn-workerset-ws0-1"]["status"]["containerStatuses"] = [
        {"name": "chainer", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
    ]
    world.run("digits-mn-workerset-ws0-0")
    world.pass_time(1799)
    world.settle()
    assert world.status["phase"] == "Created"
    assert world.requeue_after == 1

    world.pass_time(1)
    world.settle()
    assert world.status["phase"] == "Failed"
    assert world.status["reason"] == "WorkersNotReady"
    assert world.status["message"] == (
        "Not started within 1800 s: 1/2 workers ready; digits-mn-workerset-ws0-1: ErrImagePull: no"
    )
    assert world.children[WORKERS]["spec"]["replicas"] == 0
    assert not world.pods
    assert world.events[-1].type == "Warning"
    assert world.events[-1].message.startswith("WorkersNotReady: ")


def test_the_schedule_timeout_can_be_set() -> None:
    policy = {"schedulingPolicy": {"scheduleTimeoutSeconds": 5}}
    world = ChainerWorld(distributed(runPolicy=policy))
    world.settle()
    world.pass_time(5)
    world.settle()

    assert world.status["reason"] == "WorkersNotReady"


def test_once_started_the_master_does_not_wait_again() -> None:
    world = running()
    world.pass_time(10_000)
    world.restart(world.pods["digits-mn-workerset-ws0-1"])
    world.settle()

    assert not world.holds("Failed")


# -- failures ---------------------------------------------------------------------------------


def test_a_failed_master_is_retried_until_the_job_fails() -> None:
    manifest = plain()
    manifest["spec"]["master"]["backoffLimit"] = 1
    world = running(manifest)
    world.pass_time(10)
    world.end(world.master_pod, 3, message="boom")
    world.settle()
    assert world.status["phase"] == "Restarting"
    assert world.status["restarts"] == 1
    assert "1/1 retries used" in world.status["message"]
    assert "container chainer exited with code 3: boom" in world.status["message"]
    assert not world.holds("Running")

    world.pass_time(10)
    world.run()
    world.settle()
    assert world.status["phase"] == "Running"
    assert not world.holds("Restarting")

    world.pass_time(10)
    world.end(world.master_pod, 137, reason="OOMKilled")
    world.settle()
    assert world.status["phase"] == "Failed"
    assert world.status["reason"] == "BackoffLimitExceeded"
    assert "Job has reached the specified backoff limit" in world.status["message"]
    assert "exited with code 137 (OOMKilled)" in world.status["message"]
    assert world.status["failed"] == 2
    assert world.status["replicaStatuses"]["master"]["failed"] == 2
    assert world.status["restarts"] == 1
    assert world.conditions["Failed"]["lastProbeTime"]
    assert reasons(world) == ["Synced", "Restarting", "Failed"]


def test_a_job_whose_failure_is_observed_before_its_pods_waits_for_the_reason() -> None:
    """Jobs and pods are watched separately: one watch may lag behind the other."""
    manifest = plain()
    manifest["spec"]["master"]["backoffLimit"] = 0
    world = running(manifest)
    pod = world.master_pod
    before = copy.deepcopy(pod["status"])
    world.end(pod, 3, message="boom")
    known = pod["status"]
    world.controllers()
    pod["status"] = before
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.plan().requeue_after == WATCH_LAG_SECONDS

    pod["status"] = known
    world.settle()
    assert world.status["phase"] == "Failed"
    assert world.status["message"].endswith("container chainer exited with code 3: boom")
    assert reasons(world) == ["Synced", "Failed"]


def test_a_failed_job_does_not_wait_forever_for_its_pod() -> None:
    manifest = plain()
    manifest["spec"]["master"]["backoffLimit"] = 0
    world = running(manifest)
    pod = world.master_pod
    before = copy.deepcopy(pod["status"])
    world.end(pod, 3)
    world.controllers()
    pod["status"] = before
    world.settle()
    world.pass_time(WATCH_LAG_SECONDS)
    world.settle()
    assert world.status["phase"] == "Failed"


def test_the_retry_limit_of_the_run_policy_is_the_masters() -> None:
    world = running(plain(runPolicy={"backoffLimit": 0}))
    world.end(world.master_pod, 1)
    world.settle()

    assert world.status["phase"] == "Failed"
    assert world.status["restarts"] == 0
    assert "Restarting" not in reasons(world)


def test_a_master_pod_that_was_deleted_counts_as_a_restart() -> None:
    world = running(plain())
    del world.pods[world.master_pod["metadata"]["name"]]
    world.pass_time(1)
    world.settle()
    assert world.status["phase"] == "Restarting"
    assert world.status["restarts"] == 1

    world.run()
    world.settle()
    assert world.status["phase"] == "Running"


def test_a_restarted_worker_is_counted_and_reported() -> None:
    world = running()
    worker = world.pods["digits-mn-workerset-ws0-1"]
    world.restart(worker, code=9)
    worker["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    worker["status"]["containerStatuses"][0]["state"] = {
        "waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}
    }
    world.settle()
    assert world.status["phase"] == "Restarting"
    assert world.status["reason"] == "WorkersNotReady"
    assert "digits-mn-workerset-ws0-1: CrashLoopBackOff" in world.status["message"]
    assert world.status["replicaStatuses"]["ws0"]["restarts"] == 1
    assert world.status["workersReady"] == "1/2"

    worker["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    worker["status"]["containerStatuses"][0]["state"] = {}
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.status["restarts"] == 1


def test_a_worker_replaced_unobserved_is_counted_once() -> None:
    world = running()
    del world.pods["digits-mn-workerset-ws0-0"]
    world.pass_time(1)
    world.controllers()
    del world.pods["digits-mn-workerset-ws0-0"]
    world.pass_time(1)
    world.controllers()
    world.run()
    world.settle()
    world.settle()

    assert world.status["phase"] == "Running"
    assert world.status["replicaStatuses"]["ws0"]["restarts"] == 1
    world.end(world.master_pod, 0)
    world.settle()
    assert (world.events[-1].type, world.events[-1].reason) == ("Warning", "WorkersRestarted")
    assert "(ws0: 1)" in world.events[-1].message


def test_a_deadline_ends_the_job() -> None:
    world = running(plain(runPolicy={"activeDeadlineSeconds": 60}))
    assert world.children[ChildKey("Job", "digits-master")]["spec"]["activeDeadlineSeconds"] == 60
    world.pass_time(60)
    world.settle()

    assert world.status["phase"] == "Failed"
    assert world.status["reason"] == "DeadlineExceeded"
    assert "longer than specified deadline" in world.status["message"]


def test_a_pod_ended_by_the_deadline_is_not_reported_as_the_failure() -> None:
    world = running(plain(runPolicy={"activeDeadlineSeconds": 60}))
    world.pass_time(60)
    world.master_pod["metadata"]["deletionTimestamp"] = world.stamp()
    world.end(world.master_pod, 143)
    world.settle()
    assert world.status["message"] == "Job was active longer than specified deadline"


def test_a_failure_before_the_deadline_is_reported() -> None:
    world = running(plain(runPolicy={"activeDeadlineSeconds": 60}))
    world.end(world.master_pod, 1)
    world.settle()
    world.pass_time(60)
    world.settle()
    assert world.status["reason"] == "DeadlineExceeded"
    assert "exited with code 1" in world.status["message"]


def test_how_long_a_retry_waits_is_said() -> None:
    """Its Job waits for 10 s after the first failure, and then twice as long each time."""
    world = running(plain())
    world.end(world.master_pod, 3, message="boom")
    job = world.children[ChildKey("Job", "digits-master")]
    for failures, seconds in ((1, 10), (2, 20), (4, 80), (5, 160)):
        job["status"]["failed"] = failures
        world.step()
        assert world.status["phase"] == "Restarting"
        said = f"The master is tried again in {seconds} s ({failures}/6 retries used); last failure"
        assert world.status["message"].startswith(said)


def leaves(world: ChainerWorld) -> None:
    """The master's pod is being deleted, with its grace period."""
    world.master_pod["metadata"]["deletionTimestamp"] = world.stamp()
    world.settle()


def test_a_running_master_that_is_deleted_makes_the_job_restarting() -> None:
    """Its node is drained or lost: the Job creates another one when this one is gone."""
    world = running(plain())
    leaves(world)
    assert world.status["phase"] == "Restarting"
    assert world.status["reason"] == "MasterLost"

    del world.pods[world.master_pod["metadata"]["name"]]
    world.settle()
    world.run()
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.status["replicaStatuses"]["master"]["restarts"] == 1


def test_a_master_deleted_before_it_ran_is_pending() -> None:
    world = ChainerWorld(plain())
    world.settle()
    leaves(world)
    assert world.status["phase"] == "Created"
    assert world.status["message"] == "The master is not running: is being deleted"


def test_a_master_ended_by_its_deadline_does_not_make_the_job_restarting() -> None:
    """Its pod is deleted first; the Job reports the failure a moment later."""
    world = running(plain(runPolicy={"activeDeadlineSeconds": 60}))
    world.pass_time(60)
    world.master_pod["metadata"]["deletionTimestamp"] = world.stamp()
    world.step()
    assert world.status["phase"] == "Running"
    assert world.status["message"] == "The master is running. 1 pod is being ended."
    world.step()
    assert world.status["message"] == "The master is running. 1 pod is being ended."
    world.settle()
    assert world.status["phase"] == "Failed"


def test_a_master_that_its_job_ends_says_why() -> None:
    world = running(plain(runPolicy={"activeDeadlineSeconds": 60}))
    world.pass_time(60)
    world.master_pod["metadata"]["deletionTimestamp"] = world.stamp()
    text = "Job was active longer than specified deadline"
    decided = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded"}
    job = world.children[ChildKey("Job", "digits-master")]
    job["status"].setdefault("conditions", []).append({**decided, "message": text})
    world.step()
    assert world.status["phase"] == "Running"
    assert world.status["message"] == f"{text}; 1 pod is being ended"


def test_nor_does_one_whose_pod_is_already_deleted() -> None:
    world = running(plain(runPolicy={"activeDeadlineSeconds": 60}))
    world.pass_time(60)
    world.pods.clear()
    world.step()
    assert world.status["phase"] == "Running"


def test_a_pod_that_ended_before_its_job_reports_it_changes_nothing() -> None:
    world = running()
    world.end(world.master_pod, 1)
    world.step()
    assert world.status["phase"] == "Running"

    world.end(world.master_pod, 0)
    world.step()
    assert world.status["phase"] == "Running"


# -- finished jobs ----------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1])
def test_a_finished_job_never_runs_again(code: int) -> None:
    world = running(distributed(runPolicy={"backoffLimit": 0}))
    world.end(world.master_pod, code)
    world.settle()
    final = dict(world.status)

    for key in list(world.children):
        world.remove(key)
    world.edit(backend="gloo")
    world.edit(runPolicy={"suspend": True, "backoffLimit": 6})
    world.pass_time(1000)
    world.settle()

    assert world.children == {}
    assert world.pods == {}
    assert {**world.without("Synced"), "replicaStatuses": None} == {
        **final,
        "replicaStatuses": None,
    }
    assert world.status["replicaStatuses"]["master"]["succeeded"] == (1 if code == 0 else 0)


def test_a_finished_job_is_deleted_after_its_time_to_live() -> None:
    world = running(plain(runPolicy={"ttlSecondsAfterFinished": 100}))
    world.end(world.master_pod, 0)
    world.settle()
    assert world.requeue_after == 100
    assert not world.deleted

    world.pass_time(99.5)
    world.settle()
    assert not world.deleted
    world.pass_time(0.5)
    world.step()
    assert world.deleted


def test_workers_that_restart_after_the_end_are_not_counted_forever() -> None:
    world = running(distributed(runPolicy={"cleanPodPolicy": "None"}))
    world.end(world.master_pod, 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"
    world.restart(world.pods["digits-mn-workerset-ws0-0"])
    world.settle()
    final = dict(world.status)
    world.settle()

    assert world.status == final


@pytest.mark.parametrize(
    ("policy", "workers", "master"), [("Running", 0, 1), ("None", 2, 1), ("All", 0, 0)]
)
def test_clean_pod_policy(policy: str, workers: int, master: int) -> None:
    world = running(distributed(runPolicy={"cleanPodPolicy": policy}))
    world.end(world.master_pod, 0)
    world.settle()

    left = [name for name in world.pods if "workerset" in name]
    assert len(left) == workers
    assert len(world.pods) - len(left) == master
    assert world.status["phase"] == "Succeeded"


# -- suspend and resume -----------------------------------------------------------------------


def test_a_job_that_is_created_suspended_has_no_pods() -> None:
    world = ChainerWorld(distributed(runPolicy={"suspend": True}))
    world.settle()

    assert world.status["phase"] == "Suspended"
    assert world.children == {}
    assert world.pods == {}


def test_suspend_deletes_the_pods_and_resume_recreates_them() -> None:
    world = running(distributed(runPolicy={"activeDeadlineSeconds": 100}))
    world.edit(runPolicy={"suspend": True, "activeDeadlineSeconds": 100})
    world.step()
    assert world.conditions["Suspended"]["reason"] == "Draining"
    world.settle()
    assert world.conditions["Suspended"]["reason"] == "ChainerJobSuspended"
    assert world.pods == {}
    assert "startTime" not in world.status
    assert world.status["replicaStatuses"]["ws0"]["active"] == 0

    world.pass_time(5000)
    world.edit(runPolicy={"activeDeadlineSeconds": 100})
    world.settle()
    assert world.status["phase"] == "Created"
    assert world.conditions["Suspended"]["reason"] == "ChainerJobResumed"
    assert world.children[MASTER]["spec"]["suspend"] is True

    world.run()
    world.settle()
    assert world.children[MASTER]["spec"]["suspend"] is False
    world.run()
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.status["startTime"] == world.stamp()
    assert world.status["restarts"] == 0
    assert reasons(world) == ["Synced", "Suspended", "Resumed", "Synced"]


def test_a_job_that_was_changed_while_suspended_runs_the_new_template() -> None:
    world = running(distributed())
    before = world.children[MASTER]["metadata"]["uid"]
    world.edit(runPolicy={"suspend": True})
    world.settle()
    spec = copy.deepcopy(world.job["spec"])
    spec["master"]["template"] = moved(spec["master"]["template"])
    (workers,) = spec["workerSets"].values()
    workers["template"] = moved(workers["template"])
    world.edit(master=spec["master"], workerSets=spec["workerSets"])
    world.settle()
    assert world.children[MASTER]["metadata"]["uid"] == before
    world.edit(runPolicy={})
    for _ in range(2):
        world.settle()
        world.run()
    world.settle()

    assert world.status["phase"] == "Running"
    assert world.children[MASTER]["metadata"]["uid"] != before
    assert world.status["restarts"] == 0
    assert "MasterUnchanged" not in reasons(world)
    for key, child in world.children.items():
        if key.kind in {"Job", "StatefulSet"}:
            assert_moved(child["spec"]["template"])


def test_slots_that_were_changed_while_suspended_are_used() -> None:
    world = running(distributed())
    world.edit(runPolicy={"suspend": True})
    world.settle()
    master = {**world.job["spec"]["master"], "mpiConfig": {"slots": 7}}
    world.edit(runPolicy={}, master=master)
    for _ in range(2):
        world.settle()
        world.run()
    world.settle()

    steps = world.children[MASTER]["spec"]["template"]["spec"]["initContainers"]
    assert any("slots=7" in step.get("args", []) for step in steps)


def test_a_job_that_was_not_changed_while_suspended_is_kept() -> None:
    world = running(distributed())
    before = world.children[MASTER]["metadata"]["uid"]
    world.edit(runPolicy={"suspend": True})
    world.settle()
    world.edit(runPolicy={})
    for _ in range(2):
        world.settle()
        world.run()
    world.settle()

    assert world.status["phase"] == "Running"
    assert world.children[MASTER]["metadata"]["uid"] == before


def test_the_new_master_waits_until_the_old_one_is_gone() -> None:
    world = running(distributed())
    before = world.children[MASTER]["metadata"]["uid"]
    world.edit(runPolicy={"suspend": True})
    world.step()
    world.step()
    assert world.children[MASTER]["spec"]["suspend"] is True
    world.children[MASTER].setdefault("status", {})["terminating"] = 1
    template = moved(world.job["spec"]["master"]["template"])
    world.edit(runPolicy={}, master={**world.job["spec"]["master"], "template": template})
    world.step()
    world.step()
    assert world.children[MASTER]["metadata"]["uid"] == before
    assert world.children[MASTER]["spec"]["suspend"] is True
    world.children[MASTER]["status"]["terminating"] = 0
    for _ in range(2):
        world.settle()
        world.run()
    world.settle()

    assert world.children[MASTER]["metadata"]["uid"] != before
    assert world.status["phase"] == "Running"


def test_suspending_while_waiting_for_workers_restarts_the_timeout() -> None:
    world = ChainerWorld(distributed())
    world.settle()
    world.pass_time(1000)
    world.edit(runPolicy={"suspend": True})
    world.settle()
    assert world.pods == {}
    world.pass_time(5000)
    world.edit(runPolicy={})
    world.settle()

    assert world.status["phase"] == "Created"
    assert world.requeue_after == 1800


# -- changes ----------------------------------------------------------------------------------


def test_scaling_changes_the_set_and_the_role() -> None:
    world = running()
    sets = world.job["spec"]["workerSets"]
    sets["ws0"]["replicas"] = 3
    world.edit(workerSets=sets)
    world.settle()

    assert len([name for name in world.pods if "workerset" in name]) == 3
    role = world.children[ChildKey("Role", "digits-mn-launcher-role")]
    assert role["rules"][1]["resourceNames"][-1] == "digits-mn-workerset-ws0-2"
    # A worker that is new is not one that was lost.
    assert world.status["phase"] == "Running"
    assert world.status["workersReady"] == "2/3"

    sets["ws0"]["replicas"] = 1
    world.edit(workerSets=sets)
    world.settle()
    assert world.status["workersReady"] == "1/1"
    assert world.status["restarts"] == 0
    records = podrecords.read(world.status["podRecords"])
    assert {place for place, record in records.items() if record.released} == {"ws0-1", "ws0-2"}
    assert records.keys() == {"master", "ws0-0", "ws0-1", "ws0-2"}


def test_a_removed_set_is_deleted_and_a_new_one_created() -> None:
    world = running()
    sets = {"ws1": world.job["spec"]["workerSets"]["ws0"]}
    world.edit(workerSets=sets)
    world.settle()

    assert WORKERS not in world.children
    assert ChildKey("StatefulSet", "digits-mn-workerset-ws1") in world.children
    assert set(world.status["replicaStatuses"]) == {"master", "ws1"}


def test_a_changed_worker_template_updates_the_set() -> None:
    world = running()
    sets = world.job["spec"]["workerSets"]
    sets["ws0"]["template"]["spec"]["containers"][0]["image"] = "other:1"
    world.edit(workerSets=sets)
    world.settle()

    template = world.children[WORKERS]["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "other:1"


def test_a_changed_master_template_is_reported_as_without_effect() -> None:
    world = running()
    master = world.job["spec"]["master"]
    master["template"]["spec"]["containers"][0]["image"] = "other:1"
    world.edit(master=master)
    world.settle()

    event = world.events[-1]
    assert (event.type, event.reason) == ("Warning", "MasterUnchanged")
    assert "spec.master.template" in event.message
    assert "suspend and resume the ChainerJob" in event.message


def test_retry_limit_and_deadline_can_be_changed_while_it_runs() -> None:
    world = running(plain(runPolicy={"activeDeadlineSeconds": 100}))
    world.edit(runPolicy={"backoffLimit": 9})
    world.settle()

    job = world.children[ChildKey("Job", "digits-master")]
    assert job["spec"]["backoffLimit"] == 9
    assert "activeDeadlineSeconds" not in job["spec"]


def test_children_deleted_by_hand_are_recreated() -> None:
    world = running()
    for key in list(world.children):
        world.remove(key)
    world.pass_time(1)
    world.settle()
    world.run()
    world.settle()
    world.run()
    world.settle()

    assert world.status["phase"] == "Running"
    assert len(world.children) == 6


def test_changes_of_others_to_children_are_reverted() -> None:
    world = running()
    world.children[WORKERS]["spec"]["replicas"] = 7
    world.children[ChildKey("Role", "digits-mn-launcher-role")]["rules"] = []
    world.children[ChildKey("RoleBinding", "digits-mn-launcher-rolebinding")]["subjects"] = []
    assets = world.children[ChildKey("ConfigMap", "digits-mn-assets")]
    before = dict(assets["data"])
    assets["data"]["kubexeb.sh"] = "#!/bin/sh\n"
    world.settle()

    assert world.children[WORKERS]["spec"]["replicas"] == 2
    assert len(world.children[ChildKey("Role", "digits-mn-launcher-role")]["rules"]) == 3
    assert assets["data"] == before


def test_a_template_changed_by_others_is_reverted() -> None:
    world = running()
    template = world.children[WORKERS]["spec"]["template"]
    template["spec"]["containers"][0]["image"] = "other:1"
    world.drifted = frozenset({WORKERS})
    world.settle()

    template = world.children[WORKERS]["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "everpeace/chainermn:1.3.0"


def test_another_version_of_the_operator_does_not_affect_running_pods() -> None:
    """Neither the set's template nor the scripts in the pods may change under a running job."""
    from traincrew.plan.chainerjob.planner import plan
    from traincrew.plan.shared.kind import Options

    world = running()
    assets = world.children[ChildKey("ConfigMap", "digits-mn-assets")]
    from traincrew.plan.shared.writes import digest

    assets["data"]["kubexeb.sh"] = "# of an older version\n"
    assets["metadata"]["annotations"]["traincrew.dev/fingerprint"] = digest(assets["data"])

    plan_of_another = plan(
        world.observed(),
        world.now,
        options=Options(helper_image="traincrew/helper:other", git_image="traincrew/git:other"),
    )

    assert isinstance(plan_of_another, Plan)
    assert plan_of_another.stages == []


def test_nothing_is_written_together_with_what_it_depends_on() -> None:
    """The API server refuses a RoleBinding when it cannot see its Role yet."""
    world = ChainerWorld(distributed())
    plan_of_now = world.plan()
    kinds = [{(write.create or {})["kind"] for write in stage} for stage in plan_of_now.stages]
    assert kinds == [
        {"ServiceAccount", "Role", "ConfigMap"},
        {"RoleBinding"},
        {"StatefulSet"},
    ]


def test_nothing_is_written_for_a_job_that_is_being_deleted() -> None:
    world = running()
    world.job["metadata"]["deletionTimestamp"] = world.stamp()
    world.remove(WORKERS)

    assert world.step() is False


# -- invalid jobs and refused writes ----------------------------------------------------------


def test_an_unknown_backend_is_reported_as_by_the_contract() -> None:
    world = ChainerWorld(distributed(backend="gloo"))
    world.settle()

    assert world.status["phase"] == "Failed"
    assert world.status["reason"] == "FailedValidation"
    assert world.status["message"].startswith(
        'spec.backend: backend:"gloo" not supported; write "mpi".'
    )
    assert "delete the job and create it again" in world.status["message"]
    assert [tuple(event) for event in world.events] == [
        ("Warning", "FailedSynced", 'backend:"gloo" not supported')
    ]
    assert world.children == {}


def test_the_backend_of_a_plain_job_does_not_matter() -> None:
    world = running(plain(backend="gloo"))

    assert world.status["phase"] == "Running"


def test_a_spec_that_cannot_be_decoded_fails_the_job() -> None:
    world = ChainerWorld(distributed(master={"template": []}))
    world.settle()

    assert world.status["phase"] == "Failed"
    assert "$.master.template" in world.status["message"]


def test_an_invalid_change_does_not_stop_a_running_job() -> None:
    world = running()
    world.edit(backend="gloo")
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.conditions["Synced"]["status"] == "False"
    assert "spec.backend" in world.conditions["Synced"]["message"]
    assert world.status["observedGeneration"] == 1
    assert reasons(world)[-1] == "FailedSynced"
    assert reasons(world).count("FailedSynced") == 1

    world.edit(backend="mpi")
    world.settle()
    assert "Synced" not in world.conditions
    assert world.status["observedGeneration"] == 3

    world.end(world.master_pod, 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"


@pytest.mark.parametrize(
    "key",
    [
        ChildKey("ServiceAccount", "digits-mn-launcher"),
        ChildKey("Role", "digits-mn-launcher-role"),
        ChildKey("RoleBinding", "digits-mn-launcher-rolebinding"),
        ChildKey("ConfigMap", "digits-mn-assets"),
        WORKERS,
    ],
)
def test_an_existing_object_of_others_is_reported(key: ChildKey) -> None:
    world = ChainerWorld(distributed())
    world.foreign = {key}
    world.settle()
    text = f'Resource "{key.name}" already exists and is not managed by ChainerJob'
    assert world.status["phase"] == "Created"
    assert world.status["reason"] == "ErrResourceExists"
    assert world.status["message"] == text
    assert world.conditions["Synced"]["reason"] == "ErrResourceExists"
    assert [tuple(event) for event in world.events] == [("Warning", "ErrResourceExists", text)]
    assert world.requeue_after == 30
    if key.kind != "StatefulSet":
        assert WORKERS not in world.children

    world.foreign = set()
    world.settle()
    assert "Synced" not in world.conditions
    assert reasons(world) == ["ErrResourceExists", "Synced"]
    world.run()
    world.settle()
    world.run()
    world.settle()
    assert world.status["phase"] == "Running"


def test_an_existing_object_of_others_fails_the_job_after_the_timeout() -> None:
    world = ChainerWorld(plain())
    world.foreign = {ChildKey("Job", "digits-master")}
    world.settle()
    world.pass_time(1800)
    world.settle()

    assert world.status["phase"] == "Failed"
    assert world.status["reason"] == "ErrResourceExists"
    assert 'Resource "digits-master" already exists' in world.status["message"]


def test_a_child_that_the_api_finds_invalid_fails_the_job() -> None:
    world = ChainerWorld(plain())
    job = ChildKey("Job", "digits-master")
    said = "spec.template.spec.containers[0].image: Required value"
    world.refuse = {job: Refusal(said, permanent=True)}
    world.settle()

    assert world.status["phase"] == "Failed"
    assert world.status["reason"] == "FailedSynced"
    assert world.status["message"] == f"Job digits-master: {said}"


def test_a_child_that_the_api_forbids_is_retried() -> None:
    world = ChainerWorld(plain())
    job = ChildKey("Job", "digits-master")
    world.refuse = {job: Refusal("exceeded quota: gold, requested: count/jobs.batch=1")}
    world.settle()
    assert world.status["phase"] == "Created"
    assert world.status["reason"] == "FailedSynced"
    assert "Job digits-master: exceeded quota: gold" in world.status["message"]

    world.refuse = {}
    world.settle()
    world.run()
    world.settle()
    assert world.status["phase"] == "Running"


def test_the_job_waits_for_the_deletion_of_an_earlier_jobs_children() -> None:
    world = ChainerWorld(distributed())
    world.leftovers = frozenset({WORKERS})
    world.settle()
    assert world.status["reason"] == "WaitingForDeletion"
    assert "StatefulSet digits-mn-workerset-ws0 of an earlier ChainerJob" in world.status["message"]
    assert world.children == {}
    assert world.events == []

    world.leftovers = frozenset()
    world.settle()
    assert WORKERS in world.children


# -- fields that are not honored --------------------------------------------------------------


def test_a_variable_of_the_user_is_kept_with_a_warning() -> None:
    manifest = distributed()
    container = manifest["spec"]["master"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "OMPI_MCA_btl_tcp_if_exclude", "value": "lo"}]
    world = ChainerWorld(manifest)
    world.settle()

    (event,) = [event for event in world.events if event.reason == "EnvironmentKept"]
    assert event.type == "Warning"
    assert event.message.startswith("spec.master.template.spec.containers[chainer].env: ")
    assert "OMPI_MCA_btl_tcp_if_exclude" in event.message


def test_a_service_account_of_the_user_is_replaced_with_a_warning() -> None:
    manifest = plain()
    manifest["spec"]["master"]["template"]["spec"]["serviceAccountName"] = "mine"
    world = ChainerWorld(manifest)
    world.settle()

    (event,) = [event for event in world.events if event.reason == "ServiceAccountReplaced"]
    assert "spec.master.template.spec.serviceAccountName: mine is not used" in event.message
    assert "digits-launcher" in event.message


# -- number of writes -------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", [plain(), distributed()], ids=["plain", "distributed"])
def test_a_settled_job_causes_no_writes(manifest: dict[str, Any]) -> None:
    world = running(manifest)

    plan = world.plan()

    assert not writes_children(plan)
    assert plan.status == world.status
    assert plan.events == []


def test_only_changed_conditions_are_urgent() -> None:
    world = running()
    assert not world.plan().urgent

    world.restart(world.pods["digits-mn-workerset-ws0-1"])
    assert world.plan().status != world.status
    assert not world.plan().urgent

    world.end(world.master_pod, 0)
    world.controllers()
    assert world.plan().urgent
