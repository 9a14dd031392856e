"""Pods that are placed together: the PodGroup, who belongs to it, and what users are told."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from plan.shared.gangs import (
    ALPHA,
    COSCHEDULING,
    KAI,
    KUBERNETES,
    MANIFESTS,
    VOLCANO,
    WORLDS,
    group,
    manifest,
    place,
    world,
)
from plan.world import World
from traincrew.api.meta import Owner
from traincrew.plan.shared import schedulers
from traincrew.plan.shared.gangs import groups
from traincrew.plan.shared.schedulers import Gang, Served

OWNER = Owner(api_version="x/v1", kind="ElasticJob", name="j", namespace="n", uid="u")


@pytest.mark.parametrize("kind", MANIFESTS)
@pytest.mark.parametrize("served", [COSCHEDULING, KUBERNETES], ids=lambda each: each.name)
def test_every_pod_belongs_to_the_group(kind: str, served: Served) -> None:
    found = world(kind, served, minAvailable=2)
    one = group(found)
    name = one["metadata"]["name"]
    made = [
        each["spec"]["template"]
        for key, each in found.children.items()
        if key.kind in {"Job", "StatefulSet"}
    ]
    for pod in made or found.pods.values():
        if served is COSCHEDULING:
            assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == name
        else:
            assert pod["spec"]["schedulingGroup"] == {"podGroupName": name}
    if served is COSCHEDULING:
        assert one["spec"] == {"minMember": 2}
    else:
        assert one["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}
    assert one["apiVersion"] == served.api_version
    (owner,) = one["metadata"]["ownerReferences"]
    assert owner["uid"] == found.job["metadata"]["uid"]
    before = found.writes
    found.settle()
    assert found.writes == before


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_job_without_a_gang_is_the_same_with_and_without_a_scheduler(kind: str) -> None:
    plain, served = (WORLDS.get(kind, World)(manifest(kind)) for _ in range(2))
    served.served = [COSCHEDULING, KAI, KUBERNETES]
    plain.settle()
    served.settle()
    assert not served.groups
    assert {key: one["spec"] for key, one in served.pods.items()} == {
        key: one["spec"] for key, one in plain.pods.items()
    }


@pytest.mark.parametrize("kind", MANIFESTS)
def test_an_attempt_keeps_what_it_began_with(kind: str) -> None:
    found = world(kind, minAvailable=2)
    assert not found.groups
    assert found.pods
    pods = copy.deepcopy(found.pods)
    found.served = [COSCHEDULING]
    found.settle()
    assert not found.groups
    assert found.pods == pods


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_gang_without_a_scheduler_is_told_once(kind: str) -> None:
    found = world(kind, minAvailable=2)
    told = [each for each in found.events if each.reason == "SchedulingPolicyNotHonored"]
    assert len(told) == 1
    assert "install the coscheduling plugin" in told[0].message


@pytest.mark.parametrize(
    ("served", "policy", "field"),
    [
        (COSCHEDULING, {"queue": "research"}, "schedulingPolicy.queue"),
        (KUBERNETES, {"minResources": {"cpu": 8}}, "schedulingPolicy.minResources"),
    ],
)
def test_a_field_that_the_scheduler_does_not_know_is_told(
    served: Served, policy: dict[str, Any], field: str
) -> None:
    found = world("MxJob", served, **policy)
    (event,) = (each for each in found.events if each.reason == "SchedulingPolicyNotHonored")
    assert event.type == "Warning"
    assert f"spec.runPolicy.{field}" in event.message
    assert "remove" in event.message


def test_the_gang_is_all_pods_that_are_created_together_by_default() -> None:
    job = world("MxJob", COSCHEDULING, queue="q")
    assert group(job)["spec"]["minMember"] == len(job.pods)
    job = world("ChainerJob", COSCHEDULING, queue="q")
    assert group(job)["spec"]["minMember"] == len(job.pods)
    job = world("ElasticJob", COSCHEDULING, queue="q")
    assert group(job)["spec"]["minMember"] == job.job["spec"]["minReplicas"]


def test_a_gang_is_never_of_more_pods_than_are_created_together() -> None:
    workers = len(world("ChainerJob").pods)
    job = world("ChainerJob", COSCHEDULING, minAvailable=workers + 1)
    assert not job.holds("Failed")
    assert group(job)["spec"]["minMember"] == workers


def test_more_than_all_pods_is_refused_with_the_fix() -> None:
    job = world("ElasticJob", COSCHEDULING, minAvailable=100)
    assert job.holds("Failed")
    assert "spec.schedulingPolicy.minAvailable: 100 is more than" in job.status["message"]


def test_the_group_follows_the_scale() -> None:
    job = world("ElasticJob", COSCHEDULING, minAvailable=2)
    worker = job.job["spec"]["replicaSpecs"]["Worker"]
    job.edit(minReplicas=1, replicaSpecs={"Worker": {**worker, "replicas": 1}},
             schedulingPolicy={"minAvailable": 1})  # fmt: skip
    job.settle()
    assert group(job)["spec"]["minMember"] == 1


def test_what_others_wrote_into_the_group_stays() -> None:
    job = world("ElasticJob", COSCHEDULING, minAvailable=2)
    group(job)["spec"]["scheduledBy"] = "somebody"
    before = job.writes
    job.settle()
    assert job.writes == before
    assert group(job)["spec"]["scheduledBy"] == "somebody"


def test_a_gang_that_is_not_asked_for_any_more_holds_no_pod_back() -> None:
    job = world("ElasticJob", COSCHEDULING, minAvailable=2)
    job.edit(schedulingPolicy={})
    job.settle()
    assert group(job)["spec"] == {"minMember": 1}


@pytest.mark.parametrize(
    ("served", "condition"),
    [(ALPHA, "PodGroupScheduled"), (KUBERNETES, "PodGroupInitiallyScheduled")],
    ids=["v1alpha2", "v1beta1"],
)
def test_the_reason_of_the_scheduler_is_in_the_status(served: Served, condition: str) -> None:
    job = world("ElasticJob", served, minAvailable=2)
    group(job)["status"] = {
        "conditions": [
            {
                "type": condition,
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu",
            }
        ]
    }
    job.settle()
    assert job.status["reason"] == "WaitingForGang"
    assert "3 Insufficient nvidia.com/gpu" in job.status["message"]
    assert job.requeue_after is not None
    assert job.requeue_after <= 15


@pytest.mark.parametrize("kind", MANIFESTS)
@pytest.mark.parametrize("served", [COSCHEDULING, KUBERNETES], ids=lambda each: each.name)
def test_the_reason_is_that_of_the_pods_if_the_group_says_nothing(
    kind: str, served: Served
) -> None:
    """As with the coscheduling plugin, and with Kubernetes after a gang was placed once."""
    job = world(kind, served, minAvailable=2)
    group(job)["status"] = {"phase": "Finished"}
    place(job, 0)
    job.settle()
    assert "WaitingForGang" in {each["reason"] for each in job.conditions.values()}
    assert ": 0/1 nodes are available: 1 Insufficient cpu." in job.status["message"]
    assert job.requeue_after is not None
    assert job.requeue_after <= 15


def test_the_pod_for_which_nodes_were_looked_at_says_why() -> None:
    job = world("MxJob", ALPHA, minAvailable=2)
    place(job, 0)
    first, *_ = sorted(job.pods)
    (condition,) = job.pods[first]["status"]["conditions"]
    condition["message"] = "waiting for minCount pods from a gang to be scheduled"
    job.settle()
    assert "nodes are available" in job.status["message"]
    assert "minCount" not in job.status["message"]


def test_pods_that_no_scheduler_looks_after_do_not_wait_for_each_other() -> None:
    job = world("MxJob", KUBERNETES, minAvailable=2)
    place(job, 0)
    for pod in job.pods.values():
        (condition,) = pod["status"]["conditions"]
        condition |= {"reason": "NoScheduler", "message": 'no scheduler "volcano" is there'}
    job.settle()
    assert "WaitingForGang" not in {each["reason"] for each in job.conditions.values()}
    assert 'NoScheduler: no scheduler "volcano" is there' in job.status["message"]


def test_priority_class_is_given_to_pods_that_have_none() -> None:
    job = world("ElasticJob", priorityClass="research")
    assert {pod["spec"]["priorityClassName"] for pod in job.pods.values()} == {"research"}
    assert not job.groups
    given = manifest("ElasticJob", priorityClass="research")
    template = given["spec"]["replicaSpecs"]["Worker"]["template"]
    template["spec"]["priorityClassName"] = "urgent"
    own = World(given)
    own.settle()
    assert {pod["spec"]["priorityClassName"] for pod in own.pods.values()} == {"urgent"}


def test_a_size_that_cannot_be_changed_is_not_patched() -> None:
    gang = Gang(size=2)
    found = {"spec": schedulers.spec_of(ALPHA, gang)}
    assert schedulers.changes(ALPHA, found["spec"], {}, gang) == {}
    assert not ALPHA.is_resizable
    assert KUBERNETES.is_resizable


@pytest.mark.parametrize(
    ("mode", "served", "scheduler", "name"),
    [
        ("auto", [COSCHEDULING, KUBERNETES, VOLCANO], "", "coscheduling"),
        ("auto", [COSCHEDULING, KUBERNETES, VOLCANO], "volcano", "volcano"),
        ("auto", [COSCHEDULING, KAI, VOLCANO], "kai-scheduler", "kai"),
        ("auto", [COSCHEDULING, KAI, VOLCANO], "volcano", "volcano"),
        ("auto", [KAI], "", None),
        ("auto", [KUBERNETES], "volcano", "kubernetes"),
        ("kai", [KAI, COSCHEDULING], "kai-scheduler", "kai"),
        ("kai", [KAI, COSCHEDULING], "", None),
        ("kubernetes", [COSCHEDULING, KUBERNETES], "", "kubernetes"),
        ("volcano", [COSCHEDULING, VOLCANO], "", None),
        ("none", [COSCHEDULING], "", None),
        ("auto", [], "", None),
    ],
)
def test_which_scheduler_is_chosen(
    mode: str, served: list[Served], scheduler: str, name: str | None
) -> None:
    found = groups.choose(mode, served, scheduler)
    assert (found.name if found is not None else None) == name


def test_what_each_scheduler_is_given() -> None:
    gang = Gang(size=4, queue="q", resources={"cpu": 8}, priority_class="high", timeout=90)
    assert schedulers.spec_of(COSCHEDULING, gang) == {
        "minMember": 4,
        "minResources": {"cpu": 8},
        "scheduleTimeoutSeconds": 90,
    }
    assert schedulers.spec_of(VOLCANO, gang) == {
        "minMember": 4,
        "minResources": {"cpu": 8},
        "queue": "q",
        "priorityClassName": "high",
    }
    assert schedulers.spec_of(KAI, gang) == {
        "minMember": 4,
        "queue": "q",
        "priorityClassName": "high",
    }
    assert schedulers.spec_of(KAI, Gang(size=4)) == {"minMember": 4, "queue": "default-queue"}
    stored = {"minMember": 4, "minResources": {"cpu": "8"}, "queue": "default"}
    assert schedulers.changes(VOLCANO, stored, {}, Gang(size=4, resources={"cpu": 8})) == {}


def test_names_of_groups_are_values_of_labels() -> None:
    assert groups.name_of(OWNER, "coscheduling") == "j-elasticjob"
    for engine in schedulers.ENGINES:
        long = groups.name_of(_owner(name="x" * 60), engine)
        assert len(long) <= 63
        assert "." not in groups.name_of(_owner(name="a.b"), engine)


def test_groups_of_two_namespaces_have_different_names_where_names_are_all_that_counts() -> None:
    """As in KAI, whose scheduler finds the pods of a group by its name."""
    names = {
        engine: {groups.name_of(_owner(namespace=each, uid=each), engine) for each in "ab"}
        for engine in schedulers.ENGINES
    }
    assert {engine for engine, found in names.items() if len(found) == 2} == {"kai"}


def _owner(**values: str) -> Owner:
    return msgspec.structs.replace(OWNER, **values)
