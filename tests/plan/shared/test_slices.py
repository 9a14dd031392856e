"""ElasticJobs that were admitted partially: how they ask for more, and grow."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from plan.shared.gangs import WORLDS, manifest
from plan.shared.test_queueing import FINALIZER, QUEUE
from plan.world import World

ELASTIC = "kueue.x-k8s.io/elastic-job"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
Document = dict[str, Any]


def elastic(annotations: dict[str, str] | None = None, **labels: str) -> World:
    """An elastic job of two to six workers in a queue, at rest."""
    document = copy.deepcopy(manifest("ElasticJob"))
    stated = {ELASTIC: "true"} if annotations is None else annotations
    document["metadata"] |= {"labels": {QUEUE: "team-a", **labels}, "annotations": stated}
    document["spec"] |= {"minReplicas": 2, "maxReplicas": 6}
    document["spec"]["replicaSpecs"]["Worker"]["replicas"] = 6
    found = WORLDS.get("ElasticJob", World)(document)
    found.settle()
    return found


def names(job: World) -> list[str]:
    """The names of all Workloads, in the order in which they were created."""
    return list(job.workloads)


def count(job: World, name: str) -> int:
    """How many workers a Workload asks for."""
    (only,) = job.workloads[name]["spec"]["podSets"]
    return int(only["count"])


def say(job: World, name: str, kind: str, status: str, reason: str) -> None:
    """Kueue sets a condition of a Workload."""
    one = job.workloads[name]
    conditions = one["status"].setdefault("conditions", [])
    conditions[:] = [each for each in conditions if each["type"] != kind]
    conditions.append(
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "by Kueue",
            "lastTransitionTime": job.stamp(),
            "observedGeneration": one["metadata"]["generation"],
        }
    )


def reserve(job: World, name: str, workers: int) -> None:
    """Kueue reserves quota for a Workload, and finishes the one that it replaces."""
    one = job.workloads[name]
    assigned = {"name": "worker", "flavors": {"cpu": "spot"}, "count": workers}
    one["status"]["admission"] = {"clusterQueue": "all", "podSetAssignments": [assigned]}
    say(job, name, "QuotaReserved", "True", "QuotaReserved")
    before = one["metadata"]["annotations"].get(REPLACES, "").rpartition("/")[2]
    if before in job.workloads:
        say(job, before, "Finished", "True", "WorkloadSliceReplaced")


def admit(job: World, name: str, workers: int) -> None:
    """Kueue admits a Workload, and the operator acts on it."""
    reserve(job, name, workers)
    say(job, name, "Admitted", "True", "Admitted")
    job.settle()
    job.run()
    job.settle()


def refuse(job: World, name: str) -> None:
    """Kueue has no quota for a Workload, and the operator acts on it."""
    say(job, name, "QuotaReserved", "False", "Pending")
    job.settle()


@pytest.fixture
def job() -> World:
    """An elastic job that runs with three of its six workers."""
    found = elastic()
    (only,) = names(found)
    admit(found, only, 3)
    return found


def test_a_job_asks_for_the_rest_and_grows_training_on(job: World) -> None:
    first, second = names(job)
    before = {name: pod["metadata"]["uid"] for name, pod in job.pods.items()}
    assert len(before) == 3
    one = job.workloads[second]
    assert count(job, second) == 6
    assert "minCount" not in one["spec"]["podSets"][0]
    assert one["metadata"]["finalizers"] == [FINALIZER]
    assert one["metadata"]["annotations"][ELASTIC] == "true"
    assert one["metadata"]["annotations"][REPLACES] == f"default/{first}"
    assert one["spec"]["queueName"] == "team-a"
    assert job.status["queue"]["admitted"] == {"worker": 3}
    said = "3 worker pods were admitted, and 6 are asked for"
    assert job.status["queue"]["message"] == said
    say(job, second, "QuotaReserved", "False", "WaitingForPreemptedWorkloads")
    job.settle()
    assert job.status["queue"]["message"] == f"{said}: by Kueue"

    admit(job, second, 6)
    assert names(job) == [second]
    after = {name: pod["metadata"]["uid"] for name, pod in job.pods.items()}
    assert len(after) == 6
    assert before.items() <= after.items()
    assert job.holds("Running")
    assert not {"admitted", "message"} & job.status["queue"].keys()
    assert job.status["queue"]["workload"] == second
    writes = job.writes
    job.settle()
    assert job.writes == writes


def test_it_asks_for_half_as_many_more_until_they_fit(job: World) -> None:
    _, second = names(job)
    asked = [count(job, second)]
    for _ in range(3):
        refuse(job, second)
        asked.append(count(job, second))
    assert asked == [6, 4, 4, 4]
    assert len(job.pods) == 3
    admit(job, second, 4)
    assert len(job.pods) == 4
    kept, third = names(job)
    assert kept == second
    assert count(job, third) == 6
    assert job.workloads[third]["metadata"]["annotations"][REPLACES] == f"default/{second}"


def test_what_kueue_has_said_of_another_number_changes_nothing(job: World) -> None:
    _, second = names(job)
    refuse(job, second)
    assert count(job, second) == 4
    job.settle()  # its condition is still that of six
    assert count(job, second) == 4
    say(job, second, "QuotaReserved", "False", "WaitingForPreemptedWorkloads")
    job.settle()
    assert count(job, second) == 4


def test_the_pods_stay_while_the_admission_is_checked(job: World) -> None:
    _, second = names(job)
    before = {pod["metadata"]["uid"] for pod in job.pods.values()}
    reserve(job, second, 6)
    job.settle()
    assert {pod["metadata"]["uid"] for pod in job.pods.values()} == before
    assert len(names(job)) == 2
    assert not any(
        each["type"] == "PodsReady" for each in job.workloads[second]["status"]["conditions"]
    )
    admit(job, second, 6)
    assert len(job.pods) == 6
    assert names(job) == [second]


def test_it_is_not_left_to_kueue_alone_to_finish_what_was_replaced(job: World) -> None:
    """Kueue may be killed between the admission of one and the end of the other."""
    first, second = names(job)
    reserve(job, second, 6)
    conditions = job.workloads[first]["status"]["conditions"]
    conditions[:] = [each for each in conditions if each["type"] != "Finished"]
    say(job, second, "Admitted", "True", "Admitted")
    job.settle()
    assert names(job) == [second]
    assert len(job.pods) == 6


def test_an_eviction_withdraws_the_request_and_the_job_waits_for_any_number(job: World) -> None:
    _, second = names(job)
    admit(job, second, 5)
    kept, third = names(job)
    say(job, kept, "Evicted", "True", "Preempted")
    job.settle()
    job.settle()
    assert names(job) == [second]
    assert third != second
    assert not job.pods
    one = job.workloads[second]
    assert one["spec"]["podSets"][0]["count"] == 6
    assert one["spec"]["podSets"][0]["minCount"] == 2
    assert not {ELASTIC, REPLACES} & one["metadata"]["annotations"].keys()
    say(job, second, "Evicted", "False", "QuotaReserved")
    admit(job, second, 2)
    assert len(job.pods) == 2
    assert len(names(job)) == 2


def test_a_job_that_wants_no_more_withdraws_the_request(job: World) -> None:
    first, _ = names(job)
    worker = copy.deepcopy(job.job["spec"]["replicaSpecs"]["Worker"])
    job.edit(replicaSpecs={"Worker": {**worker, "replicas": 3}})
    job.settle()
    assert names(job) == [first]
    assert len(job.pods) == 3
    job.edit(replicaSpecs={"Worker": {**worker, "replicas": 5}})
    job.settle()
    assert count(job, names(job)[1]) == 5
    assert len(job.pods) == 3
    job.edit(suspend=True)
    job.settle()
    assert names(job) == [first]
    assert not job.pods


def test_an_admission_that_shrinks_is_followed(job: World) -> None:
    """The user asks for fewer: their quota is given back, and asked for again by another slice."""
    first, _ = names(job)
    worker = copy.deepcopy(job.job["spec"]["replicaSpecs"]["Worker"])
    job.edit(replicaSpecs={"Worker": {**worker, "replicas": 2}})
    job.settle()
    assert len(job.pods) == 2
    assert job.workloads[first]["status"]["reclaimablePods"] == [{"name": "worker", "count": 4}]
    job.edit(replicaSpecs={"Worker": {**worker, "replicas": 4}})
    job.settle()
    _, second = names(job)
    admit(job, second, 4)
    assert len(job.pods) == 4
    assert names(job) == [second]


def test_a_request_for_more_ends_with_the_job(job: World) -> None:
    first, second = names(job)
    admit(job, second, 5)
    assert len(names(job)) == 2
    for name in list(job.pods):
        job.end(job.pods[name], 0)
    job.settle()
    assert job.holds("Succeeded")
    (only,) = names(job)
    assert only == second
    assert not job.workloads[only]["metadata"].get("finalizers")
    assert first != second


def test_deletion_lets_all_workloads_go(job: World) -> None:
    assert len(names(job)) == 2
    job.job["metadata"]["deletionTimestamp"] = job.stamp()
    for each in job.workloads.values():  # the garbage collector
        each["metadata"]["deletionTimestamp"] = job.stamp()
    job.settle()
    assert len(names(job)) == 2
    job.children.clear()
    job.pods.clear()
    job.settle()
    assert not names(job)


def test_the_annotation_may_be_removed_later(job: World) -> None:
    first, second = names(job)
    job.job["metadata"]["annotations"] = {}
    job.settle()
    assert names(job) == [first]
    job.job["metadata"]["annotations"] = {ELASTIC: "true"}
    job.settle()
    assert names(job) == [first, second]
    admit(job, second, 5)
    job.job["metadata"]["annotations"] = {}
    job.settle()
    assert names(job) == [second]
    assert len(job.pods) == 5


@pytest.mark.parametrize(
    ("annotations", "labels"),
    [
        ({}, {}),
        ({ELASTIC: "false"}, {}),
        ({ELASTIC: "true"}, {"kueue.x-k8s.io/max-exec-time-seconds": "3600"}),
    ],
)
def test_others_run_with_what_was_admitted(
    annotations: dict[str, str], labels: dict[str, str]
) -> None:
    job = elastic(annotations, **labels)
    (only,) = names(job)
    admit(job, only, 3)
    assert names(job) == [only]
    assert len(job.pods) == 3
