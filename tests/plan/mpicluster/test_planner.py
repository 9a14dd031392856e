"""The life of MPIClusters, told with a simulated cluster."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from plan.mpicluster.manifests import interactive, one_shot, template
from plan.mpicluster.world import MPIWorld
from plan.shared.queues import assert_moved, moved
from plan.world import CrashedError, writes_children
from traincrew.plan.shared.model import ChildKey, Refusal
from variation import has_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.plan.shared.model import Write


def started(manifest: dict[str, Any] | None = None, **spec: Any) -> MPIWorld:
    """Return a cluster whose pods run."""
    world = MPIWorld(manifest or interactive(**spec))
    world.start()
    return world


def reasons(world: MPIWorld) -> list[str]:
    return [event.reason for event in world.events]


# -- start --------------------------------------------------------------------------------------


def test_the_master_starts_when_all_workers_are_ready() -> None:
    world = MPIWorld(interactive(workers=3))
    world.settle()
    assert (world.master, world.workers) == (None, ["0", "1", "2"])
    assert world.status["phase"] == "Created"
    assert world.status["reason"] == "WaitingForWorkers"
    assert world.status["workersReady"] == "0/3"
    world.run("hello-worker-0", "hello-worker-2")
    world.settle()
    assert world.master is None
    assert world.status["message"] == "2/3 workers ready"
    world.run("hello-worker-1")
    world.settle()
    assert world.master_pod
    assert world.hosts == ["master", "worker-0", "worker-1", "worker-2"]
    assert world.status["phase"] == "Created"
    assert world.status["startTime"] == world.stamp()
    world.run()
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.status["mode"] == "Interactive"
    assert world.status["message"] == "The master and 3 workers are running."
    assert world.status["workersReady"] == "3/3"
    assert world.hostfiles[0] == world.hosts, "no master ever had another hostfile"


def test_what_pods_need_is_there_before_the_pods() -> None:
    world = MPIWorld(interactive(workers=1))
    plan = world.plan()
    order = [[write.create["kind"] for write in stage if write.create] for stage in plan.stages]
    assert order == [["Secret", "ConfigMap", "Service"], ["StatefulSet"]]


def test_without_workers_the_master_starts_at_once() -> None:
    world = MPIWorld(interactive(workers=0))
    world.step()
    assert world.master is not None
    assert world.hosts == ["master"]
    world.run()
    world.settle()
    assert world.status["message"] == "The master is running."


def test_workers_that_do_not_come_fail_the_cluster_with_the_reason() -> None:
    policy = {"schedulingPolicy": {"scheduleTimeoutSeconds": 60}}
    world = MPIWorld(interactive(workers=2, runPolicy=policy))
    world.settle()
    for pod in world.pods.values():
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pod["status"]["conditions"] = [{**condition, "message": "0/1 nodes are available."}]
    world.settle()
    assert "hello-worker-0: Unschedulable: 0/1 nodes" in world.status["message"]
    assert world.requeue_after == 60
    world.pass_time(60)
    world.settle()
    assert (world.status["phase"], world.status["reason"]) == ("Failed", "WorkersNotReady")
    assert world.status["message"].startswith("Not started within 60 s: 0/2 workers ready; hello-")
    assert world.workers == []


def test_a_started_cluster_has_no_budget_any_more() -> None:
    world = started(runPolicy={"schedulingPolicy": {"scheduleTimeoutSeconds": 60}})
    world.pods["hello-worker-1"]["status"]["conditions"] = []
    world.pass_time(3600)
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.status["message"] == "The master is running; 3/4 workers ready"


@pytest.mark.parametrize("kind", ["Service", "StatefulSet", "ConfigMap"])
def test_a_document_that_the_api_never_accepts_fails_the_cluster(kind: str) -> None:
    world = MPIWorld(interactive())
    names = {"Service": "hello", "StatefulSet": "hello-worker", "ConfigMap": "hello-assets"}
    world.refuse = {ChildKey(kind, names[kind]): Refusal("spec.x: no", permanent=True)}
    world.settle()
    assert world.status["phase"] == "Failed"
    assert world.status["message"] == f"{kind} {names[kind]}: spec.x: no"


def test_a_foreign_object_is_told_and_waited_for() -> None:
    world = MPIWorld(interactive())
    world.foreign = {ChildKey("StatefulSet", "hello-worker")}
    world.settle()
    assert world.status["reason"] == "ErrResourceExists"
    assert world.requeue_after == 30
    assert '"hello-worker" already exists' in world.status["message"]
    world.foreign = set()
    world.start()
    assert world.status["phase"] == "Running"


def test_a_spec_that_only_code_can_refuse_fails_before_anything_is_created() -> None:
    job = interactive()
    job["spec"]["master"]["template"]["spec"]["hostname"] = "other"
    world = MPIWorld(job)
    world.settle()
    assert world.status["reason"] == "FailedValidation"
    assert "spec.master.template.spec.hostname" in world.status["message"]
    assert (world.children, world.secrets) == ({}, {})


# -- keys ---------------------------------------------------------------------------------------


def key_writes(world: MPIWorld) -> list[Write]:
    return [write for stage in world.plan().stages for write in stage if write.key_pair]


def test_the_key_pair_is_made_once() -> None:
    world = started()
    assert world.secrets == {"hello-ssh-key": "job-uid"}
    assert world.key_pairs == 1
    assert world.status["sshKeySecretName"] == "hello-ssh-key"
    assert not key_writes(world), "it is not asked for any more"


def test_nobody_asks_about_pods_while_their_controller_has_not_seen_a_new_set() -> None:
    world = MPIWorld(interactive(workers=2))
    world.step()
    plan = world.plan()
    assert plan.missing == {}
    assert plan.requeue_after == 10, "it may not see it at all"
    world.pass_time(10)
    assert list(world.plan().missing) == ["hello-worker-0"]


def test_a_pod_that_a_controller_does_not_create_is_asked_about() -> None:
    world = MPIWorld(interactive(workers=2))
    world.step()
    metadata = world.set["metadata"]
    world.set["status"] = {"observedGeneration": metadata["generation"]}
    assert list(world.plan().missing) == ["hello-worker-0"]


def test_the_first_status_waits_while_many_clusters_begin_and_keys_are_made_once() -> None:
    world = MPIWorld(interactive())
    plan = world.plan()
    assert plan.patient
    world.step()
    world.job["status"] = {}
    assert not key_writes(world), "the workers come after the Secret"
    world.start()
    assert (world.key_pairs, world.status["sshKeySecretName"]) == (1, "hello-ssh-key")


@pytest.mark.parametrize("edit", [{"workers": 0}, {"ssh": {"keyGeneration": 2}}])
def test_the_name_of_the_secret_is_stored_at_once_if_workers_do_not_tell(
    edit: dict[str, Any],
) -> None:
    plan = MPIWorld(interactive(**edit)).plan()
    assert plan.urgent
    assert not plan.patient


def test_workers_do_not_always_mean_that_there_are_keys() -> None:
    world = MPIWorld(interactive(workers=2))
    world.step()
    world.job["status"] = {}
    world.secrets.clear()
    world.set["spec"]["replicas"] = 0
    assert key_writes(world), "nor do workers that do not run"
    world.set["spec"]["replicas"] = 2
    world.edit(ssh={"keyGeneration": 2})
    assert key_writes(world), "nor do those with an earlier pair"
    world.edit(ssh={"keySecretName": "mine"})
    world.step()
    world.job["status"] = {}
    world.edit(ssh={})
    assert key_writes(world), "nor do those with keys of the user"


def test_no_key_pair_is_made_if_the_user_has_one() -> None:
    world = started(ssh={"keySecretName": "mine"})
    assert world.secrets == {}
    assert world.status["sshKeySecretName"] == "mine"


def test_a_foreign_secret_is_told() -> None:
    world = MPIWorld(interactive())
    world.secrets["hello-ssh-key"] = "somebody"
    world.settle()
    assert world.status["reason"] == "ErrResourceExists"
    assert '"hello-ssh-key" already exists' in world.status["message"]
    assert "sshKeySecretName" not in world.status
    assert world.workers == []
    del world.secrets["hello-ssh-key"]
    world.start()
    assert world.status["phase"] == "Running"


def test_the_secret_of_an_earlier_cluster_is_waited_for() -> None:
    world = MPIWorld(interactive())
    world.secrets["hello-ssh-key"] = "earlier"
    world.settle()
    assert world.status["reason"] == "WaitingForDeletion"
    assert "Secret hello-ssh-key of an earlier MPICluster" in world.status["message"]
    assert reasons(world) == []
    del world.secrets["hello-ssh-key"]
    world.start()
    assert (world.status["phase"], world.key_pairs) == ("Running", 1)


def test_other_keys_are_used_after_a_suspension() -> None:
    world = started(workers=1)
    world.edit(ssh={"keySecretName": "mine"})
    world.settle()
    assert world.status["sshKeySecretName"] == "hello-ssh-key"
    assert "KeysUnchanged" in reasons(world)
    before = {pod["metadata"]["uid"] for pod in world.pods.values()}
    world.settle()
    assert {pod["metadata"]["uid"] for pod in world.pods.values()} == before
    world.edit(runPolicy={"suspend": True})
    world.settle()
    world.edit(runPolicy={"suspend": False})
    world.start()
    assert world.status["sshKeySecretName"] == "mine"
    (volume,) = [
        each
        for each in world.set["spec"]["template"]["spec"]["volumes"]
        if each["name"] == "kube-openmpi-ssh-key"
    ]
    assert volume["secret"]["secretName"] == "mine"
    assert world.status["restarts"] == 0


# -- the hostfile -------------------------------------------------------------------------------

both_ways = pytest.mark.parametrize("way", ["mpicluster", "statefulset"])


def scale(world: MPIWorld, way: str, replicas: int) -> None:
    world.scale(replicas) if way == "mpicluster" else world.scale_set(replicas)


@both_ways
def test_the_hostfile_follows_the_workers(way: str) -> None:
    world = started(workers=4)
    first = world.master_pod["metadata"]["uid"]
    for replicas in (3, 0, 2):
        scale(world, way, replicas)
        world.start()
        assert world.hosts == ["master", *(f"worker-{index}" for index in range(replicas))]
        assert world.workers == [str(index) for index in range(replicas)]
        assert world.status["workersReady"] == f"{replicas}/{replicas}"
        world.settle()
        assert world.set["spec"]["replicas"] == replicas, "nobody fights it"
    assert world.master_pod["metadata"]["uid"] == first
    assert world.status["restarts"] == 0


def test_the_later_of_two_scalings_counts() -> None:
    world = started(workers=4)
    world.scale_set(2)
    world.settle()
    world.scale(3)
    world.start()
    assert (world.workers, world.applied) == (["0", "1", "2"], "3")
    world.scale_set(1)
    world.edit(slots=2)
    world.settle()
    assert world.workers == ["0"], "another edit does not undo it"


@both_ways
def test_a_worker_that_goes_is_not_listed_while_it_terminates(way: str) -> None:
    world = started(workers=3)
    scale(world, way, 2)
    world.step()
    assert world.hosts == ["master", "worker-0", "worker-1"]
    assert "hello-worker-2" in world.pods, "it has not even begun to terminate"


def test_a_worker_that_is_scaled_down_and_up_again_at_once_was_not_restarted() -> None:
    world = started(workers=2)
    world.scale_set(1)
    world.step()
    world.scale_set(2)
    world.leave(world.pods["hello-worker-1"])
    world.controllers()
    world.start()
    assert world.made["hello-worker-1"] == 2
    assert world.status["restarts"] == 0


def test_workers_that_are_not_ready_or_terminate_are_not_listed() -> None:
    world = started(workers=3)
    world.pods["hello-worker-0"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    world.leave(world.pods["hello-worker-2"])
    world.step()
    assert world.hosts == ["master", "worker-1"]
    annotation = world.master_pod["metadata"]["annotations"]
    world.step()
    assert world.master_pod["metadata"]["annotations"] == annotation, "once is enough"
    world.controllers()
    world.start()
    world.run("hello-worker-0")
    world.settle()
    assert world.hosts == ["master", "worker-0", "worker-1", "worker-2"]


def test_without_auto_update_the_hostfile_is_that_of_the_start() -> None:
    world = started(workers=3, hostfile={"autoUpdate": False})
    world.scale(1)
    world.settle()
    assert world.hosts == ["master", "worker-0", "worker-1", "worker-2"]
    assert world.workers == ["0"]
    world.leave(world.master_pod)
    world.start()
    assert world.hosts == ["master", "worker-0"], "a new master reads a new one"


def test_slots_are_changed_in_place() -> None:
    world = started(workers=1)
    world.edit(slots=4)
    world.settle()
    assert world.hostfile_text == "hello-master.hello slots=4\nhello-worker-0.hello slots=4\n"


def test_a_hostfile_that_somebody_changes_is_restored() -> None:
    world = started(workers=1)
    before = world.hostfile_text
    world.children[ChildKey("ConfigMap", "hello-assets")]["data"] = {"hostfile": "other\n"}
    world.settle()
    assert world.hostfile_text == before


# -- an interactive master ----------------------------------------------------------------------


def test_a_lost_master_is_created_again_and_the_workers_stay() -> None:
    world = started(workers=2)
    uids = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}
    world.leave(world.master_pod)
    world.step()
    assert (world.status["phase"], world.status["reason"]) == ("Restarting", "MasterLost")
    world.start()
    assert world.status["phase"] == "Running"
    after = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}
    assert after.pop("hello-master") != uids.pop("hello-master")
    assert after == uids
    assert world.status["restarts"] == 1
    assert "failures" not in world.status


def test_an_evicted_master_is_created_again() -> None:
    world = started(workers=1)
    world.pass_time(60)
    world.evict(world.master_pod)
    world.start()
    assert world.status["phase"] == "Running"
    assert world.made["hello-master"] == 2


def test_an_interactive_master_that_ends_is_created_again_but_not_at_once() -> None:
    world = started(workers=0)
    world.end(world.master_pod, 0)
    world.settle()
    assert world.status["phase"] == "Restarting"
    assert (world.made["hello-master"], world.requeue_after) == (1, 10)
    world.pass_time(10)
    world.start()
    assert (world.status["phase"], world.made["hello-master"]) == ("Running", 2)


def test_an_interactive_master_is_back_although_a_worker_is_not() -> None:
    world = started(workers=2)
    world.pods["hello-worker-1"]["status"]["conditions"] = []
    world.leave(world.master_pod)
    world.settle()
    world.run("hello-master")
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.hosts == ["master", "worker-0"]


def test_an_interactive_cluster_may_be_silent() -> None:
    world = started(workers=1, runPolicy={"progressDeadlineSeconds": 10})
    world.pass_time(3600)
    world.settle()
    assert world.status["phase"] == "Running"
    assert world.requests == []


# -- one-shot -----------------------------------------------------------------------------------


def test_a_command_that_succeeds_ends_the_cluster() -> None:
    world = started(one_shot(workers=2))
    assert world.status["message"] == "The command is running on the master and 2 workers."
    assert world.status["mode"] == "OneShot"
    world.succeed()
    world.settle()
    assert (world.status["phase"], world.status["reason"]) == ("Succeeded", "MPIClusterSucceeded")
    assert world.status["exitCode"] == 0
    assert world.workers == []
    assert world.master is not None, "it stays for its log"
    assert "MPIClusterSucceeded" in reasons(world)


def test_the_workers_stay_if_they_are_not_to_be_scaled_down() -> None:
    job = one_shot(workers=2)
    job["spec"]["master"]["oneShot"]["scaleDownWorkers"] = False
    world = started(job)
    world.succeed()
    world.settle()
    assert world.status["phase"] == "Succeeded"
    assert world.workers == ["0", "1"]


@pytest.mark.parametrize(
    ("policy", "workers", "master"),
    [("Running", [], True), ("All", [], False), ("None", ["0", "1"], True)],
)
def test_clean_pod_policy(policy: str, workers: list[str], master: bool) -> None:
    world = started(one_shot(workers=2, runPolicy={"cleanPodPolicy": policy}))
    world.succeed()
    world.settle()
    assert (world.workers, world.master is not None) == (workers, master)
    assert world.status["replicaStatuses"]["master"]["succeeded"] == 1


def test_workers_are_scaled_down_after_a_retry_that_succeeds() -> None:
    world = started(one_shot(workers=2))
    world.fail_attempt(3)
    world.settle()
    assert (world.status["phase"], world.status["reason"]) == ("Restarting", "MasterFailed")
    assert world.status["message"].startswith("The command is run again (1/6 retries used); last")
    assert "container mpi-master exited with code 3" in world.status["message"]
    assert world.workers == ["0", "1"]
    world.next_attempt()
    world.settle()
    assert (world.status["phase"], world.status["failures"]) == ("Running", 1)
    world.succeed()
    world.settle()
    assert (world.status["phase"], world.status["failures"]) == ("Succeeded", 1)
    assert world.workers == []


@pytest.mark.parametrize("limit", [0, 2])
def test_a_command_that_fails_too_often_fails_the_cluster(limit: int) -> None:
    world = started(one_shot(workers=2, runPolicy={"backoffLimit": limit}))
    for attempt in range(limit):
        world.fail_attempt()
        world.settle()
        assert world.status["failures"] == attempt + 1
        world.next_attempt()
        world.settle()
        assert world.status["phase"] == "Running"
    world.fail_attempt(7)
    world.step()
    assert (world.status["phase"], world.status["reason"]) == ("Failed", "BackoffLimitExceeded")
    times = "once" if limit == 0 else "3 times"
    assert world.status["message"] == (
        f"The command has failed {times} (spec.runPolicy.backoffLimit: {limit});"
        " last failure: pod hello-master on node node-0: container mpi-master exited with code 7"
    )
    assert (world.status["failures"], world.status["exitCode"]) == (limit + 1, 7)
    world.settle()
    assert world.workers == []
    assert world.master_pod["status"]["phase"] == "Failed", "ended, and kept for its log"
    assert world.status["failures"] == limit + 1


def test_a_limit_is_noticed_when_the_command_already_runs_again() -> None:
    world = started(one_shot(workers=1, runPolicy={"backoffLimit": 0}))
    world.fail_attempt(4)
    world.next_attempt()
    world.settle()
    assert (world.status["phase"], world.status["exitCode"]) == ("Failed", 4)
    assert world.master_pod["status"]["phase"] == "Failed"


def test_a_retry_is_told_although_the_command_already_runs_again() -> None:
    """The kubelet's first restart follows at once."""
    world = started(one_shot(workers=1))
    world.fail_attempt(3)
    world.next_attempt()
    world.step()
    assert (world.status["phase"], world.status["failures"]) == ("Restarting", 1)
    assert "container mpi-master exited with code 3" in world.status["message"]
    assert world.plan().requeue_after is None
    world.settle()
    assert (world.status["phase"], world.status["failures"]) == ("Running", 1)
    assert reasons(world).count("Restarting") == 1


@pytest.mark.parametrize("limit", [0, 1])
def test_a_command_in_a_pod_that_is_never_restarted(limit: int) -> None:
    """It is run again only if the limit was raised meanwhile, in another pod."""
    world = started(one_shot(workers=1, runPolicy={"backoffLimit": 0}))
    world.edit(runPolicy={"backoffLimit": limit})
    world.pass_time(60)
    world.end(world.master_pod, 7)
    world.settle()
    assert world.status["failures"] == 1
    if limit == 0:
        assert (world.status["phase"], world.status["exitCode"]) == ("Failed", 7)
        assert "activeDeadlineSeconds" not in world.master_pod["spec"], "it has ended by itself"
        return
    world.run()
    world.settle()
    assert (world.status["phase"], world.made["hello-master"]) == ("Running", 2)
    world.succeed()
    world.settle()
    assert (world.status["phase"], world.status["failures"]) == ("Succeeded", 1)


@pytest.mark.parametrize("how", ["delete", "evict"])
def test_a_master_that_is_lost_is_no_failure(how: str) -> None:
    world = started(one_shot(workers=2, runPolicy={"backoffLimit": 1}))
    world.fail_attempt()
    world.settle()
    world.next_attempt()
    world.settle()
    world.pass_time(60)
    if how == "delete":
        world.end(world.master_pod, 143)
        world.leave(world.master_pod)
    else:
        world.evict(world.master_pod)
    world.settle()
    world.run()
    world.settle()
    assert (world.status["phase"], world.status["failures"]) == ("Running", 1)
    assert world.made["hello-master"] == 2
    world.succeed()
    world.settle()
    assert world.status["phase"] == "Succeeded"


def test_a_deleted_master_that_ends_with_0_has_not_succeeded() -> None:
    world = started(one_shot(workers=1))
    world.leave(world.master_pod)
    world.end(world.master_pod, 0)
    world.step()
    assert (world.status["phase"], world.status["reason"]) == ("Restarting", "MasterLost")
    world.start()
    assert world.status["phase"] == "Running"


def test_a_command_is_not_run_again_without_its_workers() -> None:
    world = started(one_shot(workers=2))
    world.leave(world.pods["hello-worker-1"])
    world.leave(world.master_pod)
    world.settle()
    assert world.master is None
    assert "another one waits for the workers: 1/2 workers ready" in world.status["message"]
    world.start()
    assert world.hosts == ["master", "worker-0", "worker-1"]
    assert world.status["phase"] == "Running"


def test_a_command_whose_program_hangs_is_run_again_and_then_fails() -> None:
    policy = {"progressDeadlineSeconds": 30, "backoffLimit": 1}
    world = started(one_shot(workers=1, runPolicy=policy))
    world.print(world.master_pod)
    world.pass_time(31)
    world.step()
    assert (world.status["phase"], world.status["reason"]) == ("Restarting", "NoProgress")
    assert world.status["failures"] == 1
    world.settle()
    assert world.made["hello-master"] == 2
    world.run()
    world.settle()
    assert (world.status["phase"], world.status["failures"]) == ("Running", 1)
    world.pass_time(31)
    world.settle()
    assert (world.status["phase"], world.status["reason"]) == ("Failed", "NoProgress")
    assert world.status["failures"] == 2
    assert world.master_pod["status"]["phase"] == "Failed"


def test_a_program_that_ends_with_0_because_it_made_no_progress_has_not_succeeded() -> None:
    world = started(one_shot(workers=1, runPolicy={"progressDeadlineSeconds": 30}))
    world.pass_time(31)
    world.step()
    world.step()
    assert "deletionTimestamp" in world.master_pod["metadata"]
    world.end(world.master_pod, 0)
    world.step()
    assert world.status["phase"] == "Restarting"
    world.start()
    assert (world.status["phase"], world.status["failures"]) == ("Running", 1)


def test_a_stalled_command_that_fails_before_it_is_ended_is_counted_once() -> None:
    world = started(one_shot(workers=1, runPolicy={"progressDeadlineSeconds": 30}))
    world.pass_time(31)
    world.step()
    world.fail_attempt(1)
    world.step()
    assert world.status["failures"] == 1
    world.settle()
    assert (world.status["failures"], world.made["hello-master"]) == (1, 2)


def test_no_progress_is_told_although_the_command_was_just_restarted() -> None:
    world = started(one_shot(workers=1, runPolicy={"progressDeadlineSeconds": 30}))
    world.fail_attempt()
    world.step()
    world.next_attempt()
    world.pass_time(31)  # and no reconcile until now
    world.step()
    assert (world.status["reason"], world.status["failures"]) == ("NoProgress", 2)
    assert reasons(world).count("NoProgress") == 1


def test_a_master_that_exceeds_the_deadline_of_its_template_has_failed_once() -> None:
    world = started(one_shot(workers=1))
    world.pass_time(60)
    world.end(world.master_pod, 137)
    world.master_pod["status"]["reason"] = "DeadlineExceeded"
    world.step()
    assert "deletionTimestamp" not in world.master_pod["metadata"], "only it shows the failure"
    assert world.status["failures"] == 1
    world.start()
    assert (world.status["phase"], world.status["failures"]) == ("Running", 1)
    assert world.made["hello-master"] == 2


def test_a_pod_whose_containers_have_ended_is_not_stopped() -> None:
    """A kubelet writes that containers have ended before the phase of their pod."""
    world = started(one_shot(workers=1))
    world.succeed()
    world.master_pod["status"]["phase"] = "Running"
    world.settle()
    assert world.status["phase"] == "Succeeded"
    assert "activeDeadlineSeconds" not in world.master_pod["spec"]


def test_a_pod_that_has_failed_for_good_is_not_stopped() -> None:
    world = started(one_shot(workers=1, runPolicy={"backoffLimit": 0}))
    world.end(world.master_pod, 7)
    world.master_pod["status"]["phase"] = "Running"
    world.settle()
    assert world.status["phase"] == "Failed"
    assert "activeDeadlineSeconds" not in world.master_pod["spec"]


def test_workers_that_are_told_to_end_have_not_succeeded() -> None:
    world = started(interactive(workers=2))
    pod = world.pods["hello-worker-1"]
    world.leave(pod)
    world.end(pod, 0)
    world.step()
    assert world.status["replicaStatuses"]["worker"]["succeeded"] == 0


def test_the_command_ends_the_cluster_and_not_another_container_of_its_pod() -> None:
    world = started(one_shot(workers=1))
    world.succeed()
    running = {"name": "sidecar", "restartCount": 0, "state": {"running": {}}}
    world.master_pod["status"]["phase"] = "Running"
    world.master_pod["status"]["containerStatuses"].append(running)
    world.step()
    assert (world.status["phase"], world.status["exitCode"]) == ("Succeeded", 0)
    world.step()
    assert world.master_pod["spec"]["activeDeadlineSeconds"] == 1
    assert not writes_children(world.plan()), "once is enough"


# -- run policy ---------------------------------------------------------------------------------


def test_suspend_and_resume() -> None:
    world = started(workers=2)
    world.edit(runPolicy={"suspend": True})
    world.step()
    assert world.status["phase"] == "Suspended"
    assert len(world.pods) == 3, "it is stored first why they end"
    world.settle()
    assert (world.pods, world.status["message"]) == ({}, "No pod is left.")
    assert world.status["workersReady"] == "0/0"
    assert "startTime" not in world.status
    world.scale_set(3)
    world.settle()
    assert world.pods == {}, "it stays suspended"
    world.edit(runPolicy={"suspend": False})
    world.settle()
    assert world.workers == ["0", "1"]
    assert world.master is None
    world.start()
    assert (world.status["phase"], world.status["restarts"]) == ("Running", 0)
    assert world.key_pairs == 1, "the Secret is still there"


def test_a_cluster_that_was_changed_while_suspended_runs_the_new_templates() -> None:
    world = started(workers=2)
    world.edit(runPolicy={"suspend": True})
    world.settle()
    spec = world.job["spec"]
    world.edit(
        master={**spec["master"], "template": moved(spec["master"]["template"])},
        workers={**spec["workers"], "template": moved(spec["workers"]["template"])},
    )
    world.settle()
    world.edit(runPolicy={"suspend": False})
    world.start()

    assert world.status["phase"] == "Running"
    assert world.master is not None
    assert_moved(world.master)
    assert_moved(world.set["spec"]["template"])


def test_a_cluster_that_is_created_suspended_has_no_children() -> None:
    world = MPIWorld(interactive(runPolicy={"suspend": True}))
    world.settle()
    assert world.status["phase"] == "Suspended"
    assert (world.children, world.secrets) == ({}, {})


def test_a_suspension_that_is_taken_back_at_once_restarts_nothing() -> None:
    world = started(workers=1)
    uids = {pod["metadata"]["uid"] for pod in world.pods.values()}
    world.edit(runPolicy={"suspend": True})
    world.step()
    world.edit(runPolicy={"suspend": False})
    world.settle()
    assert {pod["metadata"]["uid"] for pod in world.pods.values()} == uids
    assert world.status["phase"] == "Running"
    world.leave(world.master_pod)
    world.start()
    assert world.status["restarts"] == 1, "it is counted again"


@pytest.mark.parametrize("manifest", [interactive, one_shot])
def test_deadline(manifest: Callable[..., dict[str, Any]]) -> None:
    world = started(manifest(workers=1, runPolicy={"activeDeadlineSeconds": 100}))
    assert world.requeue_after == 100
    world.pass_time(100)
    world.settle()
    assert (world.status["phase"], world.status["reason"]) == ("Failed", "DeadlineExceeded")
    assert world.workers == []
    assert world.master_pod["status"]["phase"] == "Failed", "ended, and kept for its log"


def test_a_master_without_a_node_is_deleted_at_the_deadline() -> None:
    world = MPIWorld(interactive(workers=0, runPolicy={"activeDeadlineSeconds": 100}))
    world.settle()
    world.master_pod["spec"] = {}
    world.pass_time(100)
    world.settle()
    assert world.status["phase"] == "Failed"
    assert world.master is None


def test_time_to_live() -> None:
    world = started(one_shot(workers=1, runPolicy={"ttlSecondsAfterFinished": 20}))
    world.succeed()
    world.settle()
    assert (world.requeue_after, world.deleted) == (20, False)
    world.pass_time(20)
    world.step()
    assert world.deleted


def test_a_finished_cluster_is_not_run_again() -> None:
    world = started(one_shot(workers=1))
    world.succeed()
    world.settle()
    final = world.status
    del world.pods["hello-master"]
    world.remove(ChildKey("StatefulSet", "hello-worker"))
    world.settle()
    assert world.pods == {}
    assert {**world.status, "replicaStatuses": 0} == {**final, "replicaStatuses": 0}
    world.scale(4)
    world.settle()
    assert world.conditions["Synced"]["reason"] == "JobFinished"
    assert world.pods == {}


# -- edits --------------------------------------------------------------------------------------


def image_of_workers(world: MPIWorld) -> str:
    containers = world.set["spec"]["template"]["spec"]["containers"]
    image: str = containers[0]["image"]
    return image


def test_another_template_rolls_the_workers_which_is_no_restart() -> None:
    world = started(workers=2)
    uids = {pod["metadata"]["uid"] for pod in world.pods.values()}
    workers = {**world.job["spec"]["workers"], "template": template("mpi-worker", image="new:1")}
    world.edit(workers=workers)
    world.step()
    assert world.record("worker-1").released, "it is stored first why they end"
    assert image_of_workers(world) != "new:1"
    world.step()
    assert image_of_workers(world) == "new:1"
    for _ in range(3):
        world.step()  # the StatefulSet controller has not seen it yet
    assert world.record("worker-1").released
    world.controllers()
    world.step()  # it replaces one pod after another
    assert world.record("worker-0").released
    world.start()
    assert len(uids & {pod["metadata"]["uid"] for pod in world.pods.values()}) == 1
    assert (world.status["restarts"], world.status["phase"]) == (0, "Running")
    assert not world.record("worker-1").released
    world.leave(world.pods["hello-worker-1"])
    world.start()
    assert world.status["restarts"] == 1


def test_another_template_of_the_master_is_told_and_used_for_the_next_one() -> None:
    world = started(workers=1)
    master = {"template": template("mpi-master", image="new:1")}
    world.edit(master=master)
    world.settle()
    assert "MasterUnchanged" in reasons(world)
    assert world.made["hello-master"] == 1
    world.leave(world.master_pod)
    world.start()
    assert world.made["hello-master"] == 2
    world.edit(slots=1)
    world.settle()
    assert reasons(world).count("MasterUnchanged") == 1


def test_optional_children_come_and_go() -> None:
    world = started(workers=2)
    before = set(world.children)
    workers = {**world.job["spec"]["workers"], "podDisruptionBudget": {"enabled": True}}
    world.edit(
        workers=workers,
        ssh={"gateway": {"enabled": True, "nodePort": 30300}},
        networkPolicy={"enabled": True},
    )
    world.settle()
    assert {key.name for key in set(world.children) - before} == {
        "hello-ssh-gateway",
        "hello-worker-pdb",
        "hello-allow-internal",
        "hello-allow-from-external",
    }
    assert world.master_pod["metadata"]["labels"]["allow_from_external"] == "true"
    world.edit(ssh={"gateway": {"enabled": True, "nodePort": 30400}})
    world.settle()
    (port,) = world.children[ChildKey("Service", "hello-ssh-gateway")]["spec"]["ports"]
    assert port["nodePort"] == 30400
    world.scale_set(1)
    world.settle()
    budget = world.children[ChildKey("PodDisruptionBudget", "hello-worker-pdb")]
    assert budget["spec"]["minAvailable"] == 1
    plain = {**workers, "podDisruptionBudget": {"enabled": False}}
    world.edit(workers=plain, ssh={}, networkPolicy={})
    world.settle()
    assert set(world.children) == before


def test_a_network_policy_that_somebody_changes_is_restored() -> None:
    world = started(networkPolicy={"enabled": True}, workers=0)
    key = ChildKey("NetworkPolicy", "hello-allow-internal")
    wanted = world.children[key]["spec"]
    world.children[key]["spec"] = {"podSelector": {}}
    world.drifted = frozenset({key})
    world.settle()
    assert world.children[key]["spec"] == wanted


def test_an_edit_that_only_code_can_refuse_does_not_fail_a_running_cluster() -> None:
    world = started(workers=1)
    spec = {**template("mpi-worker")["spec"], "hostname": "other"}
    workers = {**world.job["spec"]["workers"], "replicas": 3, "template": {"spec": spec}}
    world.edit(workers=workers)
    world.settle()
    assert world.status["phase"] == "Running"
    assert "spec.workers.template.spec.hostname" in world.conditions["Synced"]["message"]
    assert world.set["spec"]["replicas"] == 1


@pytest.mark.parametrize("kind", ["ConfigMap", "Service", "StatefulSet"])
def test_a_child_that_somebody_deletes_is_created_again(kind: str) -> None:
    world = started(workers=1)
    (key,) = [key for key in world.children if key.kind == kind]
    world.remove(key)
    world.start()
    assert key in world.children
    assert world.status["phase"] == "Running"
    assert world.hosts == ["master", "worker-0"]


# -- crashes ------------------------------------------------------------------------------------


def live(world: MPIWorld) -> None:
    """The life of a one-shot cluster: one failure, one lost master, scaled, suspended, ended."""
    world.start()
    world.fail_attempt()
    world.settle()
    world.next_attempt()
    world.settle()
    world.pass_time(60)
    world.evict(world.master_pod)
    world.start()
    world.scale(3)
    world.start()
    world.edit(runPolicy={"suspend": True})
    world.settle()
    world.edit(runPolicy={"suspend": False})
    world.start()
    world.succeed()
    world.settle()


class CrashingWorld(MPIWorld):
    """Its operator crashes once, at the given write, and is continued by another one."""

    def step(self) -> bool:
        try:
            return super().step()
        except CrashedError:
            self.restart_operator()
            return True


def test_an_operator_that_crashes_at_any_write_is_continued() -> None:
    whole = MPIWorld(one_shot(workers=2))
    live(whole)
    assert whole.status["failures"] == 1
    assert whole.status["restarts"] == 2, "one in its pod, and one pod"
    kept = ("phase", "reason", "failures", "exitCode", "restarts", "workersReady")
    for crash_at in filter(has_turn, itertools.count()):
        world = CrashingWorld(one_shot(workers=2))
        world.crash_at = crash_at
        live(world)
        assert {name: world.status.get(name) for name in kept} == {
            name: whole.status.get(name) for name in kept
        }, crash_at
        assert world.key_pairs == 1
        assert world.workers == []
        if world.crash_at is not None:
            assert crash_at > 15
            return
