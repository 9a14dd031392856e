"""Jobs that MultiKueue runs on another cluster: their Workload here, and their copy there."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from plan.shared.gangs import MANIFESTS, WORLDS
from plan.shared.test_queueing import (
    FINALIZER,
    QUEUE,
    admit,
    complete,
    condition,
    evict,
    held,
    say,
    workload,
)
from plan.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
FROM = "kueue.x-k8s.io/multikueue-origin"
Document = dict[str, Any]


@pytest.fixture(params=list(MANIFESTS))
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind."""
    return str(request.param)


def sent(kind: str, **spec: Any) -> World:
    """A job on the cluster of its user, whom MultiKueue is to run it for, at rest."""
    document = complete(kind)
    document["spec"] |= {"managedBy": "kueue.x-k8s.io/multikueue", **spec}
    document["metadata"].setdefault("labels", {})[QUEUE] = "team-a"
    found = WORLDS.get(kind, World)(document)
    found.settle()
    return found


def policy(kind: str, **fields: Any) -> Document:
    """Fields of the run policy, as fields of the ``spec``."""
    if kind == "ElasticJob":
        return fields
    return {"runPolicy": {**complete(kind)["spec"].get("runPolicy", {}), **fields}}


def ended(job: World) -> Document:
    """The status of a copy that has succeeded now."""
    now = job.stamp()
    condition = {"type": "Succeeded", "status": "True", "reason": "Done", "message": "done"}
    condition |= {"lastTransitionTime": now, "lastUpdateTime": now}
    return {"phase": "Succeeded", "completionTime": now, "conditions": [condition]}


def cloned(job: World) -> Document:
    """The Workload of a job as MultiKueue copies it to another cluster."""
    found = copy.deepcopy(workload(job))
    metadata = found["metadata"]
    labels = {n: v for n, v in metadata["labels"].items() if n != "kueue.x-k8s.io/job-uid"}
    kept: Document = {name: metadata[name] for name in ("name", "annotations") if name in metadata}
    kept |= {"labels": {**labels, FROM: "multikueue"}, "uid": "the-copy", "generation": 1}
    return {**found, "metadata": {"namespace": "default", **kept}, "status": {}}


def copied(
    job: World, change: Callable[[Document], None] = lambda _: None, *, made: bool = True
) -> World:
    """The copy of a job on another cluster, at rest.

    Args:
        job: The job.
        change: Changes the copy.
        made: Whether its Workload has been made already.
    """
    document = complete(job.job["kind"])
    name = workload(job)["metadata"]["name"]
    document["metadata"].setdefault("labels", {}).update(
        {QUEUE: "team-a", PREBUILT: name, FROM: "multikueue"}
    )
    change(document)
    found = WORLDS.get(document["kind"], World)(document)
    if made:
        found.workloads[name] = cloned(job)
    found.settle()
    return found


# -- on the cluster of the user -------------------------------------------------------------------


def test_a_job_that_multikueue_runs_asks_for_quota_and_has_no_pods_here(kind: str) -> None:
    job = sent(kind)
    assert workload(job)["spec"]["queueName"] == "team-a"
    assert workload(job)["metadata"]["finalizers"] == [FINALIZER]
    admit(job)
    assert not job.pods
    assert not job.children
    assert not job.status  # it is that of the copy
    before = job.writes
    job.settle()
    assert job.writes == before


def test_its_status_is_left_alone_and_its_end_lets_the_workload_go(kind: str) -> None:
    job = sent(kind)
    admit(job)
    job.job["status"] = {"phase": "Succeeded", "message": "on another cluster"}
    say(job, "Finished", "True", "Succeeded")
    job.settle()
    assert job.status == {"phase": "Succeeded", "message": "on another cluster"}
    assert not workload(job)["metadata"].get("finalizers")


def test_a_job_that_has_ended_is_not_queued_again(kind: str) -> None:
    job = sent(kind)
    admit(job)
    job.job["status"] = ended(job)
    job.workloads.clear()
    job.settle()
    assert not job.workloads
    assert not job.deleted


def test_a_job_that_has_ended_is_deleted_when_its_time_is_over(kind: str) -> None:
    job = sent(kind, **policy(kind, ttlSecondsAfterFinished=60))
    admit(job)
    job.job["status"] = ended(job)
    job.settle()
    assert job.requeue_after == 60
    job.now += timedelta(seconds=60)
    job.settle_or_delete()
    assert job.deleted


def test_an_eviction_gives_the_quota_back(kind: str) -> None:
    job = sent(kind)
    admit(job)
    evict(job)
    assert condition(job, "QuotaReserved")["status"] == "False"
    assert condition(job, "Requeued")["status"] == "True"
    admit(job)
    assert condition(job, "Admitted")["status"] == "True"


def test_a_job_that_is_suspended_leaves_the_queue(kind: str) -> None:
    job = sent(kind)
    admit(job)
    spec = job.job["spec"]
    policy = "runPolicy" if kind != "ElasticJob" else ""
    job.edit(
        **({policy: {**spec.get(policy, {}), "suspend": True}} if policy else {"suspend": True})
    )
    job.settle()
    assert condition(job, "QuotaReserved")["reason"] == "OnHold"


def test_an_elastic_job_does_not_grow_there() -> None:
    job = sent("ElasticJob", minReplicas=1, maxReplicas=3)
    job.job["metadata"].setdefault("annotations", {})["kueue.x-k8s.io/elastic-job"] = "true"
    admit(job, worker=1)
    assert len(job.workloads) == 1


def test_a_job_without_a_queue_is_left_alone(kind: str) -> None:
    document = complete(kind)
    document["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    job = WORLDS.get(kind, World)(document)
    job.settle()
    assert job.writes == 0


# -- on the cluster that runs it ------------------------------------------------------------------


def test_a_copy_runs_with_the_workload_that_multikueue_has_made(kind: str) -> None:
    job = copied(sent(kind))
    one = workload(job)["metadata"]
    assert held(job) == "QueueAdmissionPending"
    assert one["finalizers"] == [FINALIZER]
    assert one["ownerReferences"][0]["uid"] == job.job["metadata"]["uid"]
    assert one["labels"]["kueue.x-k8s.io/job-uid"] == job.job["metadata"]["uid"]
    assert one["labels"][FROM] == "multikueue"
    admit(job)
    assert job.pods
    assert not job.holds("Suspended")
    evict(job)
    assert not job.pods
    assert condition(job, "QuotaReserved")["status"] == "False"


def test_a_copy_that_is_admitted_before_it_is_there_runs_at_once(kind: str) -> None:
    job = copied(sent(kind), made=False)
    assert held(job) == "QueueAdmissionPending"
    assert "which MultiKueue makes on this cluster" in job.status["message"]
    assert not job.workloads
    made = cloned(sent(kind))
    job.workloads[made["metadata"]["name"]] = made
    admit(job)
    assert job.pods


def test_the_name_may_be_an_annotation(kind: str) -> None:
    def change(document: Document) -> None:
        metadata = document["metadata"]
        metadata["annotations"] = {PREBUILT: metadata["labels"].pop(PREBUILT)}

    job = copied(sent(kind), change)
    admit(job)
    assert job.pods


def test_a_workload_that_asks_for_something_else_ends(kind: str) -> None:
    first = sent(kind)
    (name,) = first.workloads
    first.workloads[name]["metadata"]["annotations"]["traincrew.dev/fingerprint"] = "another"
    job = copied(first)
    assert condition(job, "Finished")["reason"] == "OutOfSync"
    assert not job.pods


def test_a_job_that_is_changed_where_it_runs_ends(kind: str) -> None:
    job = copied(sent(kind))
    admit(job)
    workload(job)["metadata"]["annotations"]["traincrew.dev/fingerprint"] = "another"
    job.settle()
    assert not job.pods
    assert condition(job, "Finished")["reason"] == "OutOfSync"


def test_the_workload_of_another_job_is_not_taken(kind: str) -> None:
    first = sent(kind)
    job = copied(first, made=False)
    other = cloned(first)
    other["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "x", "controller": True}
    ]
    job.workloads[other["metadata"]["name"]] = copy.deepcopy(other)
    job.settle()
    assert held(job) == "QueueUnavailable"
    assert workload(job) == other
