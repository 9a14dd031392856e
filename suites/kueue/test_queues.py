"""Jobs of every kind in queues of the real Kueue."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from suites.kueue.conftest import DEPLOYMENT, LABEL, PLURALS, SYSTEM, WORKLOADS, Queues

Document = dict[str, Any]
KINDS = ("ElasticJob", "MxJob", "ChainerJob", "MPICluster")


def template(container: str, script: str, **spec: Any) -> Document:
    """Pods that run a shell script and ask for a tenth of a processor."""
    resources = {"requests": {"cpu": "100m"}}
    main: Document = {"name": container, "image": "shell:1", "resources": resources}
    if script:
        main["command"] = ["sh", "-c", script]
    return {"spec": {"containers": [main], "terminationGracePeriodSeconds": 1, **spec}}


def job(kind: str, name: str, queue: str, script: str = "sleep 1", **more: Any) -> Document:
    """A job that asks for two tenths of a processor, or one if it has a single pod.

    Args:
        kind: Its kind.
        name: Its name.
        queue: Its queue; empty for none.
        script: What its program does.
        more: Further fields of the pods.
    """
    metadata = {"name": name, "labels": {LABEL: queue} if queue else {}}
    api, spec = _specs(script, more)[kind]
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def _specs(script: str, more: Document) -> dict[str, tuple[str, Document]]:
    """Version and ``spec`` of a job of each kind."""
    workers = {"replicas": 2, "template": template("worker", script, **more)}
    single = {"mxReplicaType": "WORKER", "template": template("mxnet", script, **more)}
    alone = {"template": template("chainer", script, **more)}
    command = {"oneShot": {"command": script}, "template": template("mpi-master", "", **more)}
    hosts = {"replicas": 1, "template": template("mpi-worker", "", **more)}
    return {
        "ElasticJob": (
            "elastic.pytorch.org/v1alpha1",
            {
                "rdzvEndpoint": "nowhere:1",
                "cleanPodPolicy": "Running",
                "replicaSpecs": {"Worker": workers},
            },
        ),
        "MxJob": ("mxnet.mlkube.io/v1beta1", {"jobMode": "local", "replicaSpecs": [single]}),
        "ChainerJob": ("kubeflow.org/v1alpha1", {"master": alone}),
        "MPICluster": (
            "traincrew.dev/v1alpha1",
            {"transport": "exec", "master": command, "workers": hosts},
        ),
    }


SINGLE = {"MxJob", "ChainerJob"}
"""Kinds whose jobs have one pod here."""
PRIORITY = "kueue.x-k8s.io/priority-class"


def quota(kind: str) -> str:
    """The quota for one job."""
    return "100m" if kind in SINGLE else "200m"


def delete(queues: Queues, kind: str, *names: str) -> None:
    """Delete jobs; nothing of them is left in the end."""
    for name in names:
        queues.kubectl("delete", PLURALS[kind], name, "--timeout=60s")
    queues.until("no Workload is left", lambda: not any(map(queues.workload, names)), 60)
    assert not any(queues.pods(name) for name in names)


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_for_one_job_runs_three_one_after_the_other(queues: Queues, kind: str) -> None:
    """The pods of each are given what the flavor says."""
    name = kind.lower()
    toleration = {"key": "spot", "operator": "Exists"}
    queues.flavor("spot", nodeLabels={"kubernetes.io/os": "linux"}, tolerations=[toleration])
    queues.cluster_queue(name, quota(kind), "spot")
    names = [f"{name}-{number}" for number in range(3)]
    for each in names:
        queues.create(job(kind, each, name))

    def ended() -> bool:
        for pod in (pod for each in names for pod in queues.pods(each)):
            assert pod["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux"
            assert toleration in pod["spec"]["tolerations"]
        return all(queues.says(each, "Finished") == "True" for each in names)

    queues.until("all have ended", ended, 120)
    assert all(queues.holds(kind, each, "Succeeded") for each in names)
    turns = sorted(
        (queues.since(each, "Admitted"), queues.since(each, "Finished")) for each in names
    )
    assert all(end <= begin for (_, end), (begin, _) in pairwise(turns)), turns
    delete(queues, kind, *names)


@pytest.mark.parametrize("kind", KINDS)
def test_a_higher_priority_preempts_and_the_victim_returns(queues: Queues, kind: str) -> None:
    queue = f"ranked-{kind.lower()}"
    queues.cluster_queue(queue, quota(kind), preemption={"withinClusterQueue": "LowerPriority"})
    queues.priority("high", 1000)
    low, high = f"{queue}-low", f"{queue}-high"
    queues.create(job(kind, low, queue, "sleep 6"))
    queues.until_holds(kind, low, "Running")
    before = {pod["metadata"]["uid"] for pod in queues.pods(low)}
    above = job(kind, high, queue)
    above["metadata"]["labels"][PRIORITY] = "high"
    queues.create(above)
    queues.until_holds(kind, low, "Suspended")
    queues.until_holds(kind, high, "Succeeded")
    queues.until_holds(kind, low, "Running")
    assert not before & {pod["metadata"]["uid"] for pod in queues.pods(low)}
    queues.until_holds(kind, low, "Succeeded")
    delete(queues, kind, low, high)


def test_quota_is_not_given_back_before_a_slow_pod_is_gone(queues: Queues) -> None:
    queues.cluster_queue("slow", "200m", preemption={"withinClusterQueue": "LowerPriority"})
    queues.priority("high", 1000)
    script = "trap '' TERM; sleep 100 & wait; wait; sleep 100"
    queues.create(job("ElasticJob", "slow", "slow", script, terminationGracePeriodSeconds=20))
    queues.until_holds("ElasticJob", "slow", "Running")
    above = job("ElasticJob", "urgent", "slow")
    above["metadata"]["labels"][PRIORITY] = "high"
    queues.create(above)
    queues.until("the victim is evicted", lambda: queues.says("slow", "Evicted") == "True", 30)
    ended = 0

    def admitted() -> bool:
        nonlocal ended
        is_admitted = queues.says("urgent", "Admitted") == "True"
        left = queues.pods("slow")
        if is_admitted:
            assert not left, queues.state()
        ended += bool(left)
        return is_admitted

    queues.until("the other is admitted", admitted, 60)
    assert ended > 5
    queues.until_holds("ElasticJob", "urgent", "Succeeded")
    delete(queues, "ElasticJob", "slow", "urgent")


def test_a_queue_borrows_from_its_cohort(queues: Queues) -> None:
    queues.cluster_queue("lender", "200m", cohortName="lab")
    queues.cluster_queue("borrower", "0", cohortName="lab")
    queues.create(job("ElasticJob", "borrows", "borrower"))
    queues.until_holds("ElasticJob", "borrows", "Succeeded")
    delete(queues, "ElasticJob", "borrows")


def test_an_elastic_job_runs_with_what_there_is_room_for(queues: Queues) -> None:
    queues.cluster_queue("narrow", "300m")
    wide = job("ElasticJob", "wide", "narrow", "sleep 5")
    wide["spec"]["minReplicas"] = 2
    wide["spec"]["replicaSpecs"]["Worker"]["replicas"] = 5
    queues.create(wide)
    queues.until_holds("ElasticJob", "wide", "Running")
    assert len(queues.pods("wide")) == 3
    assert queues.job("ElasticJob", "wide")["status"]["queue"]["admitted"] == {"worker": 3}
    queues.until_holds("ElasticJob", "wide", "Succeeded")
    delete(queues, "ElasticJob", "wide")


def test_what_can_never_be_admitted_says_why(queues: Queues) -> None:
    """Told in the status: the queue does not exist, is stopped, or is too small."""
    queues.cluster_queue("stopped", "1", stopPolicy="Hold")
    queues.cluster_queue("tiny", "100m")
    for queue, words in (
        ("nobody", ("LocalQueue nobody doesn't exist", "create the queue")),
        ("stopped", ("ClusterQueue stopped is inactive", "stopped it")),
        ("tiny", ("insufficient quota for cpu", "can never hold this job")),
    ):
        name = f"for-{queue}"
        queues.create(job("ElasticJob", name, queue))

        def told() -> bool:
            reason, text = queues.reason("ElasticJob", name)  # noqa: B023
            return reason == "QueueAdmissionPending" and all(each in text for each in words)  # noqa: B023

        queues.until(f"{name} says why it waits", told, 30)
        assert not queues.pods(name)
        why = queues.traincrew("why", name, code=None)
        assert words[0] in why, why
        delete(queues, "ElasticJob", name)


def test_kueue_and_the_operator_are_killed_in_between(queues: Queues) -> None:
    queues.cluster_queue("shaky", "200m")
    first, second = "shaky-1", "shaky-2"
    queues.create(job("ElasticJob", first, "shaky", "sleep 15"))
    queues.until_holds("ElasticJob", first, "Running")
    uids = {pod["metadata"]["uid"] for pod in queues.pods(first)}
    queues.kill_operator()
    queues.create(job("ElasticJob", second, "shaky"))
    queues.kubectl("delete", "pod", "--all", *SYSTEM, "--force", "--grace-period=0")
    queues.start_operator()
    queues.kubectl("wait", DEPLOYMENT, *SYSTEM, "--for=condition=Available", "--timeout=120s")
    assert {pod["metadata"]["uid"] for pod in queues.pods(first)} == uids
    queues.until_holds("ElasticJob", first, "Succeeded")
    queues.until_holds("ElasticJob", second, "Succeeded")
    # Deleted while nobody looks: its Workload goes when the operator is back.
    queues.create(job("ElasticJob", "left", "shaky", "sleep 60"))
    queues.until_holds("ElasticJob", "left", "Running")
    queues.kill_operator()
    queues.kubectl("delete", PLURALS["ElasticJob"], "left", "--wait=false")
    queues.until("its pods are gone", lambda: not queues.pods("left"))
    assert queues.workload("left") is not None
    queues.start_operator()
    queues.until("its Workload is gone", lambda: queues.workload("left") is None)
    delete(queues, "ElasticJob", first, second)


def test_a_workload_is_stopped_and_deleted_by_hand(queues: Queues) -> None:
    queues.cluster_queue("manual", "200m")
    queues.create(job("ElasticJob", "manual", "manual", "sleep 60"))
    queues.until_holds("ElasticJob", "manual", "Running")
    found = queues.workload("manual")
    assert found is not None
    name = found["metadata"]["name"]
    stop, go = (f'{{"spec":{{"active":{each}}}}}' for each in ("false", "true"))
    queues.kubectl("patch", WORKLOADS, name, "--type=merge", "-p", stop)
    queues.until(
        "the job is stopped",
        lambda: (
            queues.reason("ElasticJob", "manual")[0] == "QueueStopped" and not queues.pods("manual")
        ),
        30,
    )
    queues.kubectl("patch", WORKLOADS, name, "--type=merge", "-p", go)
    queues.until_holds("ElasticJob", "manual", "Running")
    queues.kubectl("delete", WORKLOADS, name, "--timeout=60s")
    queues.until_holds("ElasticJob", "manual", "Running")
    again = queues.workload("manual")
    assert again is not None
    assert again["metadata"]["uid"] != found["metadata"]["uid"]
    delete(queues, "ElasticJob", "manual")
