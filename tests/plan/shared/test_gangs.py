"""Pods that are placed together: the PodGroup, who belongs to it, and what users are told."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from plan.elasticjob.world import ElasticWorld
from plan.mpicluster.manifests import interactive
from plan.mpicluster.world import MPIWorld
from plan.mxjob.world import MxWorld
from plan.world import World
from traincrew.api.meta import Owner
from traincrew.plan.shared import schedulers
from traincrew.plan.shared.gangs import groups, release
from traincrew.plan.shared.schedulers import Gang, Served

PLANS = Path(__file__).parents[1]
COSCHEDULING = Served(name="coscheduling", version="v1alpha1")
KUBERNETES = Served(name="kubernetes", version="v1beta1")
ALPHA = Served(name="kubernetes", version="v1alpha2")
VOLCANO = Served(name="volcano", version="v1beta1")
OWNER = Owner(api_version="x/v1", kind="ElasticJob", name="j", namespace="n", uid="u")

MANIFESTS = {
    "ChainerJob": "chainerjob/examples/distributed.yaml",
    "ElasticJob": "elasticjob/examples/etcd.yaml",
    "MxJob": "mxjob/examples/distributed.yaml",
    "MPICluster": "",
}

WORLDS: dict[str, type[World]] = {
    "ElasticJob": ElasticWorld,
    "MxJob": MxWorld,
    "MPICluster": MPIWorld,
}


def manifest(kind: str, **policy: Any) -> dict[str, Any]:
    """A job of a kind with this ``schedulingPolicy``."""
    if kind == "MPICluster":
        return interactive(runPolicy={"schedulingPolicy": policy})
    found: dict[str, Any] = yaml.safe_load((PLANS / MANIFESTS[kind]).read_text())
    place = found["spec"] if kind == "ElasticJob" else found["spec"].setdefault("runPolicy", {})
    place["schedulingPolicy"] = policy
    return found


def world(kind: str, *served: Served, **policy: Any) -> World:
    """The world of such a job in a cluster with these schedulers, at rest."""
    found = WORLDS.get(kind, World)(manifest(kind, **policy))
    found.served = list(served)
    found.settle()
    return found


def group(found: World) -> dict[str, Any]:
    """The only PodGroup."""
    (one,) = found.groups.values()
    return one


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
    served.served = [COSCHEDULING, KUBERNETES]
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


def test_the_reason_of_the_scheduler_is_in_the_status() -> None:
    job = world("ElasticJob", KUBERNETES, minAvailable=2)
    group(job)["status"] = {
        "conditions": [
            {
                "type": "PodGroupScheduled",
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
    assert schedulers.changes(ALPHA, found["spec"], gang) == {}
    assert not ALPHA.is_resizable
    assert KUBERNETES.is_resizable


@pytest.mark.parametrize(
    ("mode", "served", "scheduler", "name"),
    [
        ("auto", [COSCHEDULING, KUBERNETES, VOLCANO], "", "coscheduling"),
        ("auto", [COSCHEDULING, KUBERNETES, VOLCANO], "volcano", "volcano"),
        ("auto", [KUBERNETES], "volcano", "kubernetes"),
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
    stored = {"minMember": 4, "minResources": {"cpu": "8"}, "queue": "default"}
    assert schedulers.changes(VOLCANO, stored, Gang(size=4, resources={"cpu": 8})) == {}


# -- without a scheduler of gangs ---------------------------------------------------------------


def place(found: World, placed: int) -> None:
    """The cluster's scheduler finds room for some pods, and none for the others."""
    for number, name in enumerate(sorted(found.pods)):
        pod = found.pods[name]
        if number < placed:
            pod["spec"]["nodeName"] = "node-1"
            continue
        conditions = pod["status"].get("conditions", [])
        if any(each.get("reason") == "Unschedulable" for each in conditions):
            continue  # since when stays
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 Insufficient cpu.",
                "lastTransitionTime": found.stamp(),
            }
        ]


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


def test_names_of_groups_are_values_of_labels() -> None:
    assert groups.name_of(OWNER) == "j-elasticjob"
    long = groups.name_of(Owner(**{**_plain(OWNER), "name": "x" * 60}))
    assert len(long) <= 63
    assert "." not in groups.name_of(Owner(**{**_plain(OWNER), "name": "a.b"}))


def _plain(owner: Owner) -> dict[str, Any]:
    return {name: getattr(owner, name) for name in owner.__struct_fields__}
