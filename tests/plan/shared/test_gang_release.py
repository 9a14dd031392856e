"""Pods that are released because only some of their gang find room."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from plan.elasticjob.world import ElasticWorld
from plan.shared.gangs import (
    COSCHEDULING,
    MANIFESTS,
    manifest,
    place,
    world,
)
from plan.world import World
from traincrew.plan.shared.gangs import release


@pytest.mark.parametrize("kind", MANIFESTS)
def test_pods_that_wait_in_vain_for_others_are_released_and_created_again(kind: str) -> None:
    found = world(kind, minAvailable=2)
    place(found, 1)
    found.settle()
    assert found.status["phase"] in {"Created", "Creating"}
    uids = {pod["metadata"]["uid"] for pod in found.pods.values()}
    found.pass_time(59)
    found.settle()
    assert {pod["metadata"]["uid"] for pod in found.pods.values()} == uids
    found.pass_time(1)
    found.step()
    assert found.holds("Suspended")
    assert found.conditions["Suspended"]["reason"] == "GangReleased"
    assert "Only 1 of 2 pods found room within 60 s" in found.conditions["Suspended"]["message"]
    for _ in range(5):
        found.settle()
        found.pass_time(1)
    assert not any(pod["metadata"]["uid"] in uids for pod in found.pods.values())
    assert [each.reason for each in found.events].count("GangReleased") == 1
    wait = release.wait(found.job["metadata"]["uid"], 1)
    found.pass_time(round(wait) + 1)
    for _ in range(5):
        found.settle()
        found.pass_time(1)
    assert found.pods
    assert found.status["phase"] in {"Created", "Creating"}
    assert found.status["gangReleases"] == 1
    assert not found.status.get("restarts")
    assert not found.holds("Failed")


@pytest.mark.parametrize("kind", MANIFESTS)
def test_pods_are_released_where_their_scheduler_does_not_know_the_group(kind: str) -> None:
    """As with the coscheduling plugin in a second scheduler that the templates do not name."""
    found = world(kind, COSCHEDULING, minAvailable=2)
    place(found, 1)
    found.pass_time(61)
    found.settle()
    (event,) = (each for each in found.events if each.reason == "GangReleased")
    assert "coscheduling has not placed them together: schedulerName" in event.message


def test_a_gang_of_which_some_were_just_placed_is_not_released() -> None:
    found = world("MxJob", COSCHEDULING, minAvailable=2)
    place(found, 0)
    found.pass_time(600)
    place(found, 1)
    found.pods[min(found.pods)]["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": found.stamp()}
    ]
    found.settle()
    assert "GangReleased" not in {each.reason for each in found.events}
    found.pass_time(61)
    found.settle()
    assert "GangReleased" in {each.reason for each in found.events}


@pytest.mark.parametrize("kind", MANIFESTS)
@pytest.mark.parametrize("placed", ["none", "all", "enough"])
def test_pods_are_left_alone_if_all_or_none_or_enough_are_placed(kind: str, placed: str) -> None:
    found = world(kind, minAvailable=2)
    place(found, {"none": 0, "all": len(found.pods), "enough": 2}[placed])
    uids = {pod["metadata"]["uid"] for pod in found.pods.values()}
    found.pass_time(600)
    found.settle()
    assert {pod["metadata"]["uid"] for pod in found.pods.values()} == uids
    assert "GangReleased" not in {each.reason for each in found.events}


class LaggingWorld(ElasticWorld):
    """The operator's cache shows how the pods were."""

    lag: dict[str, dict[str, Any]] | None = None

    def seen_pods(self, confirmed: bool) -> dict[str, dict[str, Any]]:
        """The pods in the operator's cache, or as the API server lists them now."""
        return self.pods if confirmed or self.lag is None else self.lag


def test_a_pod_that_has_just_been_placed_is_not_released() -> None:
    found = LaggingWorld(manifest("ElasticJob", minAvailable=2))
    found.settle()
    place(found, 1)
    found.settle()
    found.lag = copy.deepcopy(found.pods)
    place(found, 2)
    found.pass_time(61)
    found.settle()
    assert "GangReleased" not in {each.reason for each in found.events}
    assert all("deletionTimestamp" not in pod["metadata"] for pod in found.pods.values())


@pytest.mark.parametrize(("running", "is_released"), [(1, True), (2, False)])
def test_workers_that_run_but_are_too_few_are_released(running: int, is_released: bool) -> None:
    job = manifest("ElasticJob", minAvailable=3)
    job["spec"] |= {"minReplicas": 2, "maxReplicas": 3}
    job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 3
    found = ElasticWorld(job)
    found.settle()
    place(found, running)
    for name in sorted(found.pods)[:running]:
        found.pods[name]["status"]["phase"] = "Running"
    found.settle()
    assert found.holds("Running")
    found.pass_time(61)
    found.settle()
    assert ("GangReleased" in {each.reason for each in found.events}) is is_released


def test_a_release_does_not_give_an_elasticjob_more_time_to_start() -> None:
    found = world("ElasticJob", minAvailable=2, scheduleTimeoutSeconds=200)
    for _ in range(40):
        place(found, 1)
        found.settle()
        found.pass_time(10)
        if found.holds("Failed"):
            break
    assert "GangReleased" in {each.reason for each in found.events}
    assert found.status["message"].startswith("Not started within 200 s")


def test_an_elasticjob_without_a_limit_waits() -> None:
    found = world("ElasticJob", minAvailable=2)
    found.pass_time(10_000)
    found.settle()
    assert not found.holds("Failed")


def test_jobs_without_a_gang_keep_their_pods() -> None:
    found = World(manifest("ElasticJob"))
    found.settle()
    place(found, 1)
    found.pass_time(600)
    found.settle()
    assert found.status["phase"] in {"Created", "Creating"}
    assert "gangReleases" not in found.status


def test_the_times_grow_and_differ_between_jobs() -> None:
    assert [release.patience(each) for each in range(7)] == [60, 120, 240, 480, 960, 1800, 1800]
    waits = {release.wait(f"job-{each}", 3) for each in range(20)}
    assert len(waits) == 20
    assert all(10 <= each <= 10 + 240 for each in waits)
    assert release.wait("a", 2) == release.wait("a", 2)
