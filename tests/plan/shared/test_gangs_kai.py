"""Gangs of KAI Scheduler: membership, queues, and what users are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from plan.shared.gangs import KAI, MANIFESTS, WORLDS, group, manifest, place
from plan.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUE = "kai.scheduler/queue"


def templates(document: Any) -> Iterator[dict[str, Any]]:
    """The templates of pods in a job."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name == "template":
                yield value
            else:
                yield from templates(value)
    elif isinstance(document, list):
        for each in document:
            yield from templates(each)


def job(kind: str, labels: dict[str, str] | None = None, **policy: Any) -> dict[str, Any]:
    """A job whose pods KAI schedules, with these labels in its templates."""
    found = manifest(kind, **policy)
    for each in templates(found["spec"]):
        each["spec"]["schedulerName"] = "kai-scheduler"
        if labels:
            each.setdefault("metadata", {}).setdefault("labels", {}).update(labels)
    return found


def world(document: dict[str, Any]) -> World:
    """The world of a job in a cluster with KAI, at rest."""
    found = WORLDS.get(document["kind"], World)(document)
    found.served = [KAI]
    found.settle()
    return found


@pytest.mark.parametrize("kind", MANIFESTS)
def test_every_pod_belongs_to_a_group_that_the_podgrouper_leaves_alone(kind: str) -> None:
    found = world(job(kind, minAvailable=2))
    one = group(found)
    assert one["apiVersion"] == "scheduling.run.ai/v2alpha2"
    assert one["spec"] == {"minMember": 2, "queue": "default-queue"}
    assert one["metadata"]["labels"] == {QUEUE: "default-queue"}
    made = [
        each["spec"]["template"]
        for key, each in found.children.items()
        if key.kind in {"Job", "StatefulSet"}
    ]
    for pod in made or found.pods.values():
        annotations = pod["metadata"]["annotations"]
        assert annotations["pod-group-name"] == one["metadata"]["name"]
        assert annotations["kai.scheduler/skip-podgrouper"] == "true"
    before = found.writes
    found.settle()
    assert found.writes == before


def test_the_queue_is_that_of_the_policy_or_of_the_label() -> None:
    labels = {QUEUE: "labelled"}
    assert group(world(job("MxJob", labels, minAvailable=2)))["spec"]["queue"] == "labelled"
    found = world(job("MxJob", labels, minAvailable=2, queue="stated"))
    assert group(found)["spec"]["queue"] == "stated"
    whole = job("MxJob", minAvailable=2)
    whole["metadata"]["labels"] = {QUEUE: "of-the-job"}
    assert group(world(whole))["spec"]["queue"] == "of-the-job"


def test_the_group_follows_scale_queue_and_priority() -> None:
    found = world(job("ElasticJob", minAvailable=2, priorityClass="high"))
    assert group(found)["spec"]["priorityClassName"] == "high"
    group(found)["metadata"]["labels"]["theirs"] = "stays"
    group(found)["spec"]["markUnschedulable"] = True
    found.edit(minReplicas=1, schedulingPolicy={"minAvailable": 1, "queue": "research"})
    found.settle()
    one = group(found)
    assert one["spec"] == {"minMember": 1, "queue": "research", "markUnschedulable": True}
    assert one["metadata"]["labels"] == {QUEUE: "research", "theirs": "stays"}


def test_the_condition_of_the_group_is_in_the_status() -> None:
    found = world(job("ElasticJob", minAvailable=2))
    group(found)["status"] = {
        "schedulingConditions": [
            {
                "type": "UnschedulableOnNodePool",
                "nodePool": "default",
                "status": "True",
                "reason": "Unschedulable",
                "message": "OverLimit: default-queue quota has reached the allowable limit..",
                "reasons": [
                    {
                        "reason": "OverLimit",
                        "message": "default-queue quota has reached the allowable limit",
                    }
                ],
            }
        ]
    }
    found.settle()
    assert found.status["reason"] == "WaitingForGang"
    assert found.status["message"].endswith(
        "(kai): default-queue quota has reached the allowable limit"
    )
    assert found.requeue_after is not None
    assert found.requeue_after <= 15


def test_a_condition_without_reasons_is_in_the_status_as_it_is() -> None:
    found = world(job("ElasticJob", minAvailable=2))
    condition = {"type": "UnschedulableOnNodePool", "status": "True", "message": "no room"}
    group(found)["status"] = {"schedulingConditions": [condition]}
    place(found, 0)
    found.settle()
    assert found.status["message"].endswith("(kai): no room")


def test_a_group_that_kai_does_not_look_at_is_told_with_its_queue() -> None:
    """KAI leaves a group alone whose queue does not exist, and says nothing."""
    found = world(job("ElasticJob", minAvailable=2, queue="resaerch"))
    assert found.status["reason"] == "WaitingForGang"
    assert "kubectl get queues.scheduling.run.ai resaerch" in found.status["message"]
    place(found, 0)
    found.settle()
    assert "kubectl get queues" not in found.status["message"]
    assert "Insufficient cpu" in found.status["message"]


def test_pods_that_an_older_podgrouper_has_taken_are_told() -> None:
    found = world(job("ElasticJob", minAvailable=2))
    for pod in found.pods.values():
        pod["metadata"]["annotations"]["pod-group-name"] = f"pg-{pod['metadata']['name']}"
    found.settle()
    assert "update KAI to 0.15" in found.status["message"]
    place(found, 1)
    found.pass_time(61)
    found.settle()
    (event,) = (each for each in found.events if each.reason == "GangReleased")
    assert "kai has not placed them together: before release 0.15" in event.message


def test_fields_that_kai_does_not_know_are_told() -> None:
    found = world(job("MxJob", queue="q", minResources={"cpu": 8}))
    (event,) = (each for each in found.events if each.reason == "SchedulingPolicyNotHonored")
    assert "schedulingPolicy.minResources: kai does not honor it" in event.message


@pytest.mark.parametrize("kind", MANIFESTS)
def test_pods_of_kai_in_no_gang_are_left_to_its_podgrouper(kind: str) -> None:
    plain, served = (WORLDS.get(kind, World)(job(kind)) for _ in range(2))
    served.served = [KAI]
    plain.settle()
    served.settle()
    assert not served.groups
    assert served.pods == plain.pods
    assert served.children == plain.children
