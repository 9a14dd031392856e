"""What a TrainJob does: by the rules of Trainer 2.2.0."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from plan.trainjob.world import KINDS, TORCH, TrainJobWorld, runtime, trained
from traincrew.plan.shared.model import ChildKey, ObjectKey, Refusal

NODES: dict[str, Any] = {"numNodes": 2, "command": ["torchrun", "train.py"]}


def test_it_becomes_a_jobset_and_succeeds_with_it() -> None:
    world = TrainJobWorld(trained(trainer=NODES)).begin()

    assert world.status["phase"] == "Running"
    assert world.status["workersReady"] == "2/2"
    assert [each["name"] for each in world.status["jobsStatus"]] == ["node"]
    for pod in world.pods.values():
        world.end(pod, 0)
    world.settle()
    assert world.status["phase"] == "Running"  # until the JobSet says that it has ended
    world.says("Completed", "AllJobsCompleted", "jobset completed successfully")

    complete = world.conditions["Complete"]
    assert (complete["status"], complete["reason"]) == ("True", "AllJobsCompleted")
    assert world.status["conditions"][-1]["type"] == "Complete"
    assert world.status["phase"] == "Succeeded"
    assert world.key in world.children


def test_it_fails_as_its_jobset_does_and_says_why() -> None:
    world = TrainJobWorld(trained(trainer=NODES)).begin()
    world.end(world.pods["digits-node-0-1"], 3)
    said = "jobset failed due to one or more job failures (first failed job: digits-node-0)"
    world.says("Failed", "FailedJobs", said)

    failed = world.conditions["Failed"]
    assert failed["reason"] == "FailedJobs"
    assert failed["message"].startswith(said)
    assert "pod digits-node-0-1: container main exited with code 3" in failed["message"]


def test_counts_of_a_jobset_that_come_after_the_end_are_told() -> None:
    """Its controller may see later than we do that the pods are gone."""
    world = TrainJobWorld(trained(trainer=NODES)).begin()
    world.active = 1
    world.settle()
    world.says("Failed", "FailedJobs", "jobset failed")
    world.pods.clear()
    world.settle()
    assert world.status["replicaStatuses"]["node"]["active"] == 0
    assert [each["active"] for each in world.status["jobsStatus"]] == [1]
    world.active = 0
    world.settle()
    assert [each["active"] for each in world.status["jobsStatus"]] == [0]


def test_it_waits_for_its_runtime() -> None:
    world = TrainJobWorld(trained("mine", kind=KINDS[1]))
    world.settle()

    assert not world.children
    synced = world.conditions["Synced"]
    assert synced["reason"] == "TrainJobResourcesCreationFailed"
    assert "spec.runtimeRef: TrainingRuntime mine is not found" in synced["message"]
    assert ("Warning", synced["reason"]) in [(each.type, each.reason) for each in world.events]
    assert world.requeue_after == 5
    theirs = runtime(TORCH)
    theirs["metadata"]["name"] = "mine"
    world.objects[ObjectKey(KINDS[1], "mine")] = theirs | {"kind": KINDS[1]}
    world.settle()

    assert "node" in world.jobs
    assert "Synced" not in world.conditions


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        (KINDS[0], "torch-distribute", TORCH),
        (KINDS[1], TORCH, TORCH),
        (KINDS[0], "torchtune-llama3.2-8b", "torchtune-llama3.2-3b"),
    ],
)
def test_a_job_whose_runtime_is_missing_says_which_may_be_meant(
    kind: str, name: str, meant: str
) -> None:
    world = TrainJobWorld(trained(name, kind=kind))
    world.settle()

    assert world.conditions["Synced"]["message"].endswith(f"Did you mean {KINDS[0]} {meant}?")
    del world.objects[ObjectKey(KINDS[0], meant)]
    world.settle()
    assert "Did you mean" not in world.conditions["Synced"]["message"]


def test_a_suspended_job_has_a_suspended_jobset() -> None:
    world = TrainJobWorld(trained(suspend=True))
    world.settle()

    assert world.is_suspended()
    suspended = world.conditions["Suspended"]
    assert (suspended["reason"], suspended["message"]) == ("Suspended", "TrainJob is suspended")
    world.edit(suspend=False)
    world.settle()
    world.run()
    world.settle()

    assert not world.is_suspended()
    assert world.status["phase"] == "Running"
    suspended = world.conditions["Suspended"]
    assert (suspended["status"], suspended["reason"]) == ("False", "Resumed")
    assert suspended["message"] == "TrainJob is resumed"
    world.edit(suspend=True)
    world.settle()
    assert not world.pods
    assert world.is_suspended()


def test_a_suspended_job_takes_over_changes() -> None:
    world = TrainJobWorld(trained(suspend=True))
    world.settle()
    pod = {"nodeSelector": {"zone": "a"}}
    patch = {"template": {"spec": {"replicatedJobs": [
        {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]}}}  # fmt: skip
    world.edit(runtimePatches=[{"manager": "example.com/me", "trainingRuntimeSpec": patch}])
    world.settle()

    found = world.jobs["node"]["template"]["spec"]["template"]["spec"]
    assert found["nodeSelector"] == {"zone": "a"}
    writes = world.writes
    world.settle()
    assert world.writes == writes


def test_a_runtime_that_changes_changes_no_job_that_runs() -> None:
    world = TrainJobWorld(trained(trainer=NODES)).begin()
    before = copy.deepcopy(world.jobset)
    del world.objects[ObjectKey(KINDS[0], TORCH)]
    world.settle()

    assert world.jobset["spec"] == before["spec"]
    assert world.status["phase"] == "Running"


def test_past_its_deadline_it_fails_and_its_jobset_is_deleted() -> None:
    world = TrainJobWorld(trained(trainer=NODES, activeDeadlineSeconds=60)).begin()
    assert world.requeue_after is not None
    assert world.requeue_after <= 60
    world.pass_time(61)
    world.settle()

    failed = world.conditions["Failed"]
    assert (failed["reason"], failed["message"]) == (
        "DeadlineExceeded",
        "TrainJob exceeded its active deadline",
    )
    assert world.key not in world.children


def test_a_jobset_that_somebody_deletes_is_created_again() -> None:
    world = TrainJobWorld(trained(trainer=NODES)).begin()
    world.remove(world.key)
    world.settle()

    assert world.key in world.children
    assert world.status["phase"] != "Failed"


def test_a_hostfile_that_somebody_deletes_is_created_again_while_the_job_runs() -> None:
    world = TrainJobWorld(trained("deepspeed-distributed", trainer=NODES)).begin()
    key = ChildKey("ConfigMap", "digits-mpi-hostfile")
    before = world.children[key]["data"]
    world.remove(key)
    world.settle()

    assert world.children[key]["data"] == before
    assert world.status["phase"] == "Running"


def test_a_jobset_that_the_api_refuses_fails_the_job() -> None:
    world = TrainJobWorld(trained())
    world.refuse[world.key] = Refusal("spec.volumeClaimPolicies: not served", permanent=True)
    world.settle()

    failed = world.conditions["Failed"]
    assert failed["reason"] == "TrainJobResourcesCreationFailed"
    assert "JobSet digits: spec.volumeClaimPolicies" in failed["message"]


def test_a_deprecated_runtime_is_said_once() -> None:
    theirs = runtime(TORCH)
    theirs["metadata"]["labels"]["trainer.kubeflow.org/support"] = "deprecated"
    world = TrainJobWorld(trained(), theirs).begin()

    (told,) = [each for each in world.events if each.reason == "TrainingRuntimeDeprecated"]
    assert told.message.startswith(f'Referenced ClusterTrainingRuntime "{TORCH}" is deprecated')


def test_a_job_of_another_manager_is_left_alone() -> None:
    world = TrainJobWorld(trained(managedBy="kueue.x-k8s.io/multikueue"))
    world.settle()

    assert not world.children
    assert not world.status


_RESERVED = {"env": [{"name": "PET_NNODES", "value": "3"}]}


def _patched(*jobs: dict[str, Any]) -> list[dict[str, Any]]:
    template = {"template": {"spec": {"replicatedJobs": list(jobs)}}}
    return [{"manager": "example.com/me", "trainingRuntimeSpec": template}]


def _node(**spec: Any) -> dict[str, Any]:
    return {"name": "node", "template": {"spec": {"template": {"spec": spec}}}}


@pytest.mark.parametrize(
    ("name", "spec", "says"),
    [
        (TORCH, {"trainer": _RESERVED},
         "spec.trainer.env: must not have reserved envs, invalid envs configured: ['PET_NNODES']"),
        (TORCH, {"initializer": {"dataset": {}}},
         "spec.runtimeRef: must have dataset-initializer job"),
        (TORCH, {"initializer": {"model": {}}},
         "spec.runtimeRef: must have model-initializer job"),
        (TORCH, {"runtimePatches": _patched({"name": "other"})},
         "spec.runtimePatches: must not have replicated job that doesn't exist"),
        (TORCH, {"runtimePatches": _patched(_node(containers=[{"name": "no"}]))},
         "must not have container that doesn't exist in the runtime job node"),
        (TORCH, {"runtimePatches": _patched(_node(initContainers=[{"name": "no"}]))},
         "must not have initContainer that doesn't exist in the runtime job node"),
        (TORCH, {"runtimePatches": _patched(_node(containers=[{"name": "node", **_RESERVED}]))},
         "must not have envs for the dataset-initializer, model-initializer, node containers"),
        (TORCH, {"trainer": {"command": ["tune", "run"]}},
         "spec.runtimeRef.name: must have a supported pretrained model"),
        ("xgboost-distributed", {"trainer": {"env": [{"name": "DMLC_TASK_ID", "value": "1"}]}},
         "spec.trainer.env[0]: DMLC_TASK_ID is reserved for the XGBoost runtime"),
    ],
)  # fmt: skip
def test_a_job_that_does_not_fit_its_runtime_fails(
    name: str, spec: dict[str, Any], says: str
) -> None:
    world = TrainJobWorld(trained(name, **spec))
    world.settle()

    failed = world.conditions["Failed"]
    assert failed["reason"] == "FailedValidation"
    assert says in failed["message"]
    assert not world.children


@pytest.mark.parametrize("fields", [{"kind": "Runtime"}, {"apiGroup": "example.com"}])
def test_a_runtime_of_another_kind_fails_the_job(fields: dict[str, str]) -> None:
    """Trainer's definition allows it; its webhook refuses it."""
    job = trained("torch-distributed")
    job["spec"]["runtimeRef"] |= fields
    world = TrainJobWorld(job)
    world.settle()

    failed = world.conditions["Failed"]
    assert failed["reason"] == "FailedValidation"
    assert "spec.runtimeRef: unsupported runtime: kind must be Cluster" in failed["message"]
    assert not world.children


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"podGroupPolicy": {"coscheduling": {}}}, "has a podGroupPolicy, which is not served"),
        ({"mlPolicy": {"flux": {}}}, "has mlPolicy.flux, which is not served here"),
        ({"template": {"spec": {"replicatedJobs": [{"name": "a"}]}}}, "mine is invalid"),
    ],
)
def test_a_runtime_that_is_not_served_is_said(change: dict[str, Any], says: str) -> None:
    theirs = runtime(TORCH)
    theirs["metadata"]["name"] = "mine"
    theirs["spec"] |= change
    world = TrainJobWorld(trained("mine"), theirs)
    world.settle()

    assert says in world.conditions["Failed"]["message"]
