"""Pods of a gang that are created in place of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from plan.elasticjob.world import ElasticWorld
from plan.shared.gangs import (
    ALPHA,
    COSCHEDULING,
    KUBERNETES,
    group,
    manifest,
)
from plan.world import World
from traincrew.plan.shared import schedulers

if TYPE_CHECKING:
    from traincrew.plan.shared.schedulers import Served


def three_workers() -> dict[str, Any]:
    """A gang of three workers that are restarted one by one."""
    job = manifest("ElasticJob", minAvailable=3)
    job["spec"] |= {"minReplicas": 1, "maxReplicas": 3}
    worker = job["spec"]["replicaSpecs"]["Worker"]
    worker |= {"replicas": 3, "restartPolicy": "ExitCode"}
    return job


def running(*served: Served) -> ElasticWorld:
    """Three workers that run."""
    found = ElasticWorld(three_workers())
    found.served = list(served)
    found.settle()
    for pod in found.pods.values():
        pod["spec"]["nodeName"] = "node-1"
    return found.begin()


def replaced(found: ElasticWorld, index: int) -> dict[str, Any]:
    """The pod that is created in place of a worker that fails."""
    before = found.uid(index)
    found.fail(index, 143)
    for _ in range(30):
        found.settle()
        if index in found.workers and found.uid(index) != before:
            return found.pod(index)
        found.pass_time(5)
    raise AssertionError(f"worker {index} is not replaced: {found.status}")


@pytest.mark.parametrize("served", [COSCHEDULING, KUBERNETES, ALPHA], ids=lambda each: each.version)
def test_a_pod_does_not_wait_for_those_that_have_succeeded(served: Served) -> None:
    """No scheduler sees pods that have ended."""
    found = running(served)
    found.end(found.pod(0), 0)
    pod = replaced(found, 1)
    if served is ALPHA:  # the group cannot be made smaller
        assert schedulers.size_of(served, group(found)["spec"]) == 3
        assert "schedulingGroup" not in pod["spec"]
    else:
        assert schedulers.size_of(served, group(found)["spec"]) == 2


def test_a_pod_does_not_wait_for_those_that_were_removed() -> None:
    """The size of a group cannot be changed in v1alpha2."""
    found = running(ALPHA)
    worker = found.job["spec"]["replicaSpecs"]["Worker"]
    found.edit(
        replicaSpecs={"Worker": {**worker, "replicas": 2}}, schedulingPolicy={"minAvailable": 2}
    )
    found.settle()
    pod = replaced(found, 1)
    assert "schedulingGroup" not in pod["spec"]
    assert pod["metadata"]["annotations"]["traincrew.dev/gang-scheduler"] == "kubernetes"
    found.edit(suspend=True)
    found.settle()
    found.edit(suspend=False)
    found.settle()
    assert schedulers.size_of(ALPHA, group(found)["spec"]) == 2
    assert all("schedulingGroup" in each["spec"] for each in found.pods.values())


def test_no_pod_joins_a_group_that_is_being_deleted() -> None:
    """Kubernetes keeps it as long as there is one."""
    found = running(ALPHA)
    found.edit(suspend=True)
    found.settle()
    group(found)["metadata"]["deletionTimestamp"] = found.stamp()
    found.edit(suspend=False, minReplicas=2, schedulingPolicy={"minAvailable": 2})
    plan = found.plan()
    assert plan.group is not None
    assert plan.group.delete is not None
    assert not plan.stages
    found.settle()
    assert schedulers.size_of(ALPHA, group(found)["spec"]) == 2
    assert len(found.pods) == 3


def test_a_master_that_has_succeeded_was_not_counted() -> None:
    job = manifest("ChainerJob", queue="q")
    job["spec"]["master"]["backoffLimit"] = 0
    found = World(job)
    found.served = [COSCHEDULING]
    found.settle()
    found.run()
    found.settle()
    (master,) = (name for name in found.pods if "-master" in name)
    found.end(found.pods[master], 0)
    assert found.plan().group is None  # before its Job says so


def test_a_group_that_stays_too_large_is_told_with_the_fix() -> None:
    found = ElasticWorld(three_workers())
    found.served = [ALPHA]
    found.settle()
    worker = found.job["spec"]["replicaSpecs"]["Worker"]
    found.edit(
        replicaSpecs={"Worker": {**worker, "replicas": 2}}, schedulingPolicy={"minAvailable": 2}
    )
    found.settle()
    assert found.status["reason"] == "WaitingForGang"
    assert "the PodGroup is of 3 pods, there are 2" in found.status["message"]
    assert "suspend the job and resume it" in found.status["message"]
