"""Jobs in a queue of Kueue: when they have pods, what these are given, what is reported."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import pytest

from plan.shared.gangs import MANIFESTS, WORLDS, manifest
from plan.world import World

QUEUE = "kueue.x-k8s.io/queue-name"
FINALIZER = "kueue.x-k8s.io/resource-in-use"


def complete(kind: str) -> dict[str, Any]:
    """A manifest with the defaults that the API server adds."""
    document = manifest(kind)
    if kind == "ChainerJob":
        document["spec"]["runPolicy"].setdefault("backoffLimit", 6)
    return document


def queued(kind: str, queue: str = "team-a", **spec: Any) -> World:
    """A job with the label of a queue, at rest."""
    document = complete(kind)
    document["spec"].update(spec)
    document["metadata"].setdefault("labels", {})[QUEUE] = queue
    found = WORLDS.get(kind, World)(document)
    found.settle()
    return found


def workload(found: World) -> dict[str, Any]:
    """The only Workload."""
    (one,) = found.workloads.values()
    return one


def say(found: World, kind: str, status: str, reason: str, message: str = "") -> None:
    """Kueue sets a condition of the Workload."""
    conditions = workload(found)["status"].setdefault("conditions", [])
    conditions[:] = [each for each in conditions if each["type"] != kind]
    conditions.append(
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": found.stamp(),
        }
    )


def admit(found: World, flavor: str = "spot", **counts: int) -> None:
    """Kueue admits the job, and the operator acts on it."""
    one = workload(found)
    one["status"]["admission"] = {
        "clusterQueue": "cluster",
        "podSetAssignments": [
            {
                "name": each["name"],
                "flavors": {"cpu": flavor},
                "count": counts.get(each["name"], each["count"]),
            }
            for each in one["spec"]["podSets"]
        ],
    }
    for kind in ("QuotaReserved", "Admitted"):
        say(found, kind, "True", kind)
    if any(each["type"] == "Evicted" for each in one["status"]["conditions"]):
        say(found, "Evicted", "False", "QuotaReserved")
    found.settle()


def evict(found: World, reason: str = "Preempted") -> None:
    """Kueue takes the admission back, and the operator acts on it."""
    say(found, "Evicted", "True", reason, "to accommodate a workload of a higher priority")
    found.settle()


def condition(found: World, kind: str) -> dict[str, Any]:
    """A condition of the Workload."""
    conditions: list[dict[str, Any]] = workload(found)["status"]["conditions"]
    (one,) = (each for each in conditions if each["type"] == kind)
    return one


def held(found: World) -> str:
    """Why the job has no pods."""
    assert found.holds("Suspended")
    return str(found.conditions["Suspended"]["reason"])


def templates(found: World) -> list[dict[str, Any]]:
    """The templates of all pods, or the pods, if the operator creates them itself."""
    made = [
        each["spec"]["template"]
        for key, each in found.children.items()
        if key.kind in {"Job", "StatefulSet"}
    ]
    return made or list(found.pods.values())


@pytest.fixture(params=list(MANIFESTS))
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind."""
    return str(request.param)


def test_a_job_waits_without_pods_until_it_is_admitted(kind: str) -> None:
    job = queued(kind)
    assert not job.pods
    assert held(job) == "QueueAdmissionPending"
    assert job.status["message"] == "Waiting in queue team-a of Kueue"
    one = workload(job)
    metadata = job.job["metadata"]
    name, group = metadata["name"], job.job["apiVersion"].rpartition("/")[0]
    text = f"{kind}\n{group}\n{name}\n{metadata['uid']}"
    short = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:5]
    assert one["metadata"]["name"] == f"{kind.lower()}-{name}-{short}"
    assert one["metadata"]["finalizers"] == [FINALIZER]
    assert one["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == metadata["uid"]
    (owner,) = one["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (metadata["uid"], True)
    assert one["spec"]["queueName"] == "team-a"
    for each in one["spec"]["podSets"]:
        assert each["name"] == each["name"].lower()
        assert each["template"]["spec"]["containers"][0]["name"]
        assert each["template"].get("metadata", {}).keys() <= {"labels", "annotations"}
    before = job.writes
    job.settle()
    assert job.writes == before


def test_an_admission_reaches_every_pod_and_nothing_is_restarted_for_it(kind: str) -> None:
    job = queued(kind)
    toleration = {"key": "spot", "operator": "Exists"}
    job.flavors = {"spot": {"nodeLabels": {"pool": "spot"}, "tolerations": [toleration]}}
    admit(job)
    assert job.pods
    for each in templates(job):
        spec = each["spec"]
        assert spec["nodeSelector"]["pool"] == "spot"
        assert toleration in spec["tolerations"]
        assert each["metadata"]["labels"]["kueue.x-k8s.io/podset"]
    made = [*job.children.values(), *job.pods.values(), *templates(job)]
    # Kueue would queue them by itself.
    assert not any(QUEUE in (each["metadata"].get("labels") or {}) for each in made)
    assert job.status["queue"]["clusterQueue"] == "cluster"
    sets = {each["name"] for each in workload(job)["spec"]["podSets"]}
    assert {each["metadata"]["labels"]["kueue.x-k8s.io/podset"] for each in templates(job)} <= sets
    # Another operator, and flavors that change meanwhile.
    pods = {name: each["metadata"]["uid"] for name, each in job.pods.items()}
    job.restart_operator()
    job.flavors["spot"]["nodeLabels"]["pool"] = "other"
    job.settle()
    assert {name: each["metadata"]["uid"] for name, each in job.pods.items()} == pods


def test_quota_is_given_back_when_no_pod_is_left(kind: str) -> None:
    job = queued(kind)
    admit(job)
    name = workload(job)["metadata"]["name"]
    job.run()
    say(job, "Evicted", "True", "Preempted", "to accommodate another")
    for _ in range(50):
        if not job.step() and not job.pods:
            break
        if any(pod["status"]["phase"] == "Running" for pod in job.pods.values()):
            assert condition(job, "QuotaReserved")["status"] == "True"
        job.controllers()
        if all("deletionTimestamp" in pod["metadata"] for pod in job.pods.values()):
            assert condition(job, "QuotaReserved")["status"] == "True" or not job.pods
            job.nodes_let_go()
    job.settle()
    assert not job.pods
    assert held(job) == "QueueAdmissionPending"
    assert condition(job, "QuotaReserved") | {"lastTransitionTime": ""} == {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "Pending",
        "message": "to accommodate another",
        "lastTransitionTime": "",
        "observedGeneration": 1,
    }
    assert condition(job, "Requeued")["status"] == "True"
    assert condition(job, "Admitted")["status"] == "False"
    assert "admission" not in workload(job)["status"]
    assert workload(job)["metadata"]["name"] == name


def test_a_victim_comes_back_with_another_flavor(kind: str) -> None:
    job = queued(kind)
    job.flavors = {
        "spot": {"nodeLabels": {"pool": "spot"}},
        "reserved": {"nodeLabels": {"pool": "reserved"}},
    }
    admit(job)
    job.run()
    evict(job, "PodsReadyTimeout")
    assert not job.pods
    assert condition(job, "Requeued")["status"] == "False"
    admit(job, "reserved")
    assert job.pods
    for each in templates(job):
        assert each["spec"]["nodeSelector"]["pool"] == "reserved"
    assert not job.holds("Suspended")


def test_the_user_wins_and_the_workload_stays(kind: str) -> None:
    job = queued(kind)
    admit(job)
    policy = (
        job.job["spec"] if kind == "ElasticJob" else job.job["spec"].setdefault("runPolicy", {})
    )
    policy["suspend"] = True
    job.job["metadata"]["generation"] += 1
    job.settle()
    assert not job.pods
    assert held(job) == f"{kind}Suspended"
    reserved = condition(job, "QuotaReserved")
    assert (reserved["status"], reserved["reason"]) == ("False", "OnHold")
    policy["suspend"] = False
    job.job["metadata"]["generation"] += 1
    job.settle()
    assert condition(job, "QuotaReserved")["reason"] == "Pending"
    assert held(job) == "QueueAdmissionPending"
    admit(job)
    assert job.pods


def test_what_kueue_says_is_said_with_the_fix(kind: str) -> None:
    job = queued(kind, "nobody")
    say(job, "QuotaReserved", "False", "Inadmissible", "LocalQueue nobody doesn't exist")
    job.settle()
    assert "LocalQueue nobody doesn't exist" in job.status["message"]
    assert "create the queue" in job.status["message"]
    say(job, "QuotaReserved", "False", "Inadmissible", "LocalQueue nobody is inactive")
    job.settle()
    assert "stopped" in job.status["message"]
    never = "insufficient quota for cpu in flavor f, request > maximum capacity (2)"
    say(job, "QuotaReserved", "False", "Pending", never)
    job.settle()
    assert "can never hold this job" in job.status["message"]


def test_a_job_that_cannot_be_queued_says_why(kind: str) -> None:
    document = complete(kind)
    document["metadata"].setdefault("labels", {})[QUEUE] = "team-a"
    job = WORLDS.get(kind, World)(document)
    job.queue_problem = "Kueue is not installed: install it"
    job.settle()
    assert not job.pods
    assert held(job) == "QueueUnavailable"
    assert job.status["message"] == job.queue_problem
    told = [each for each in job.events if each.reason == "QueueUnavailable"]
    assert [each.type for each in told] == ["Warning"]


def test_a_job_that_runs_keeps_its_pods_while_nothing_is_known(kind: str) -> None:
    job = queued(kind)
    admit(job)
    job.run()
    job.settle()
    pods = {name: each["metadata"]["uid"] for name, each in job.pods.items()}
    job.queue_problem = "the operator may not use Workloads"
    job.settle()
    assert {name: each["metadata"]["uid"] for name, each in job.pods.items()} == pods
    assert not job.holds("Suspended")
    (synced,) = (each for each in job.status["conditions"] if each["type"] == "Synced")
    assert (synced["reason"], synced["message"]) == ("QueueUnavailable", job.queue_problem)
    job.queue_problem = ""
    job.settle()
    assert {name: each["metadata"]["uid"] for name, each in job.pods.items()} == pods


def test_a_spec_that_is_edited_while_it_waits_is_what_the_workload_asks_for(kind: str) -> None:
    job = queued(kind)
    spec = job.job["spec"]
    template = {
        "ChainerJob": lambda: spec["master"]["template"],
        "ElasticJob": lambda: spec["replicaSpecs"]["Worker"]["template"],
        "MxJob": lambda: spec["replicaSpecs"][0]["template"],
        "MPICluster": lambda: spec["workers"]["template"],
    }[kind]()
    template["spec"]["containers"][0]["image"] = "changed:2"
    job.job["metadata"]["generation"] += 1
    job.settle()
    images = [
        each["template"]["spec"]["containers"][0]["image"]
        for each in workload(job)["spec"]["podSets"]
    ]
    assert "changed:2" in images
    job.job["metadata"]["labels"][QUEUE] = "team-b"
    job.settle()
    assert workload(job)["spec"]["queueName"] == "team-b"
    admit(job)
    job.job["metadata"]["labels"][QUEUE] = "team-c"
    job.settle()
    assert workload(job)["spec"]["queueName"] == "team-b"
    assert job.pods


def test_a_job_that_leaves_its_queue_while_it_waits_runs(kind: str) -> None:
    job = queued(kind)
    del job.job["metadata"]["labels"][QUEUE]
    job.settle()
    assert not job.workloads
    assert job.pods
    assert "queue" not in job.status


def test_a_workload_that_is_deleted_stops_the_job_which_is_queued_again(kind: str) -> None:
    job = queued(kind)
    admit(job)
    job.run()
    before = workload(job)["metadata"]["uid"]
    workload(job)["metadata"]["deletionTimestamp"] = job.stamp()
    job.settle()
    assert not job.pods
    assert held(job) == "QueueAdmissionPending"
    assert workload(job)["metadata"]["uid"] != before


def test_a_workload_that_is_not_active_stops_the_job(kind: str) -> None:
    job = queued(kind)
    admit(job)
    workload(job)["spec"]["active"] = False
    evict(job, "Deactivated")
    assert not job.pods
    assert held(job) == "QueueStopped"
    assert '"active":true' in job.status["message"]


def test_an_admission_check_that_contradicts_the_template_fails_the_job(kind: str) -> None:
    job = queued(kind)
    one = workload(job)
    updates = [
        {"name": each["name"], "nodeSelector": {"pool": "other"}} for each in one["spec"]["podSets"]
    ]
    one["status"]["admissionChecks"] = [
        {"name": "provision", "state": "Ready", "podSetUpdates": updates}
    ]
    job.flavors = {"spot": {"nodeLabels": {"pool": "spot"}}}
    admit(job)
    assert job.holds("Failed")
    assert "pool=other" in job.status["message"]
    finished = condition(job, "Finished")
    assert (finished["status"], finished["reason"]) == ("True", "Failed")
    assert not workload(job)["metadata"].get("finalizers")
    assert "workload" not in job.status["queue"]


def test_pods_of_a_topology_wait_for_kueue_to_place_them(kind: str) -> None:
    job = queued(kind)
    admit(job)
    evict(job)
    one = workload(job)
    admission = {
        "clusterQueue": "cluster",
        "podSetAssignments": [
            {"name": each["name"], "count": each["count"], "topologyAssignment": {"levels": ["x"]}}
            for each in one["spec"]["podSets"]
        ],
    }
    one["status"]["admission"] = admission
    for name in ("QuotaReserved", "Admitted"):
        say(job, name, "True", name)
    say(job, "Evicted", "False", "QuotaReserved")
    job.settle()
    for each in templates(job):
        assert {"name": "kueue.x-k8s.io/topology"} in each["spec"]["schedulingGates"]
        named = each["metadata"]["annotations"]["kueue.x-k8s.io/workload"]
        assert named == one["metadata"]["name"]


def test_without_the_label_everything_is_the_same(kind: str) -> None:
    plain, other = (WORLDS.get(kind, World)(complete(kind)) for _ in range(2))
    other.queue_problem = "Kueue is broken"
    plain.settle()
    other.settle()
    assert not other.workloads
    assert other.children == plain.children
    assert other.pods == plain.pods
    assert other.status == plain.status
    assert "queue" not in plain.status


def test_an_elastic_job_runs_with_the_workers_that_are_admitted() -> None:
    job = queued("ElasticJob", minReplicas=1, maxReplicas=3)
    (asked,) = workload(job)["spec"]["podSets"]
    assert (asked["count"], asked["minCount"]) == (2, 1)
    admit(job, worker=1)
    assert len(job.pods) == 1
    assert job.status["queue"]["admitted"] == {"worker": 1}
    (pod,) = job.pods.values()
    assert any("--nnodes=1:3" in each for each in pod["spec"]["containers"][0]["args"])


def test_workers_that_are_scaled_in_or_done_give_their_quota_back() -> None:
    job = queued("ElasticJob", minReplicas=1, maxReplicas=3)
    admit(job)
    job.run()
    job.settle()
    assert condition(job, "PodsReady")["status"] == "True"
    worker = copy.deepcopy(job.job["spec"]["replicaSpecs"]["Worker"])
    job.edit(replicaSpecs={"Worker": {**worker, "replicas": 1}})
    job.settle()
    assert len(job.pods) == 1
    assert workload(job)["status"]["reclaimablePods"] == [{"name": "worker", "count": 1}]
    # What was given back is not used again.
    job.edit(replicaSpecs={"Worker": {**worker, "replicas": 2}})
    job.settle()
    assert len(job.pods) == 1
    assert not job.holds("Suspended")


def test_a_job_that_somebody_else_manages_is_left_alone(kind: str) -> None:
    document = complete(kind)
    document["spec"]["managedBy"] = "example.com/another"
    document["metadata"].setdefault("labels", {})[QUEUE] = "team-a"
    document["status"] = {"phase": "Running", "message": "on another cluster"}
    job = WORLDS.get(kind, World)(document)
    job.settle()
    assert job.writes == 0
    assert job.status == {"phase": "Running", "message": "on another cluster"}


def test_a_job_of_this_operator_by_name_is_managed(kind: str) -> None:
    document = complete(kind)
    document["spec"]["managedBy"] = "traincrew.dev/operator"
    job = WORLDS.get(kind, World)(document)
    job.settle()
    assert job.pods


def test_quota_of_a_finished_job_is_in_use_until_its_pods_are_gone() -> None:
    job = queued("ElasticJob", minReplicas=2, maxReplicas=3, cleanPodPolicy="Running")
    admit(job)
    job.run()
    job.settle()
    first, second = sorted(job.pods)
    job.end(job.pods[first], 1)
    for _ in range(20):
        job.step()
        if second in job.pods and "deletionTimestamp" in job.pods[second]["metadata"]:
            assert not any(
                each["type"] == "Finished" for each in workload(job)["status"]["conditions"]
            )
            job.nodes_let_go()
    job.settle()
    assert job.holds("Failed")
    assert condition(job, "Finished")["reason"] == "Failed"
    assert job.status["queue"] == {"name": "team-a"}
    before = job.writes
    job.settle()
    assert job.writes == before


def test_quota_is_given_back_soon_after_kueue_answers_again() -> None:
    job = queued("ElasticJob", minReplicas=2, maxReplicas=3)
    admit(job)
    job.run()
    for pod in job.pods.values():
        job.end(pod, 0)
    job.queue_problem = "Kueue does not answer"
    job.settle()
    assert job.holds("Succeeded")
    assert job.requeue_after is not None
    assert job.requeue_after <= 15
    job.queue_problem = ""
    job.settle()
    assert condition(job, "Finished")["status"] == "True"


def test_a_worker_that_is_done_stops_no_other() -> None:
    job = queued("ElasticJob", minReplicas=2, maxReplicas=3)
    admit(job)
    job.run()
    job.settle()
    first, second = sorted(job.pods)
    job.end(job.pods[first], 0)
    job.settle()
    assert workload(job)["status"]["reclaimablePods"] == [{"name": "worker", "count": 1}]
    assert job.pods[second]["status"]["phase"] == "Running"
    assert not job.holds("Suspended")
    job.end(job.pods[second], 0)
    job.settle()
    assert job.holds("Succeeded")
    assert condition(job, "Finished")["reason"] == "Succeeded"
