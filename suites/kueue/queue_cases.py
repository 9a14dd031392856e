"""What jobs do in queues of the real Kueue; a file for each cluster runs all of it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .queue_user import ELASTIC, PLURALS, SINGLE, WORKLOADS

if TYPE_CHECKING:
    from pathlib import Path

    from suites.shell import Document

    from .queue_user import Queues


def quota(kind: str) -> str:
    """The quota for one job."""
    return "100m" if kind in SINGLE else "200m"


TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREEMPTION = {"withinClusterQueue": "LowerPriority"}
STUBBORN = "trap '' TERM; sleep 100 & wait; wait; sleep 100"
"""A script that ends when it is killed."""


STEPS = """
made=$(cat /data/step 2>/dev/null || echo 0)
echo "begins after step $made"
while [ $made -lt 12 ]; do
    sleep 1
    made=$((made + 1))
    echo $made > /data/new && mv /data/new /data/step
done
"""


def _steps(file: Path) -> int:
    """The step of a checkpoint."""
    return int(file.read_text())


def _near(job: Document) -> Document:
    """A job whose pods of each set have to be on one node."""

    def annotated(value: Any) -> Any:
        if isinstance(value, list):
            return [annotated(each) for each in value]
        if not isinstance(value, dict):
            return value
        found = {name: annotated(each) for name, each in value.items()}
        if isinstance(template := found.get("template"), dict):
            template["metadata"] = {"annotations": {TOPOLOGY: "kubernetes.io/hostname"}}
        return found

    changed: Document = annotated(job)
    return changed


class QueueCases:
    """The cases; the fixture ``queues`` is of the file's cluster, ``kind`` one that it chooses."""

    def test_a_queue_for_one_job_runs_three_one_after_the_other(
        self, queues: Queues, kind: str
    ) -> None:
        """The pods of each are given what the flavor says."""
        name = kind.lower()
        toleration = {"key": "spot", "operator": "Exists"}
        queues.flavor("spot", nodeLabels={"kubernetes.io/os": "linux"}, tolerations=[toleration])
        queues.cluster_queue(name, quota(kind), "spot")
        names = [f"{name}-{number}" for number in range(3)]
        for each in names:
            queues.create(queues.job(kind, each, name))

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
        queues.delete(kind, *names)

    def test_a_higher_priority_preempts_and_the_victim_returns(
        self, queues: Queues, kind: str
    ) -> None:
        queue = f"ranked-{kind.lower()}"
        queues.cluster_queue(queue, quota(kind), preemption=PREEMPTION)
        low, high = f"{queue}-low", f"{queue}-high"
        queues.create(queues.job(kind, low, queue, "sleep 6"))
        queues.until_holds(kind, low, "Running")
        before = {pod["metadata"]["uid"] for pod in queues.pods(low)}
        queues.create(queues.urgent(kind, high, queue))
        queues.until_holds(kind, low, "Suspended")
        queues.until_holds(kind, high, "Succeeded")
        queues.until_holds(kind, low, "Running")
        assert not before & {pod["metadata"]["uid"] for pod in queues.pods(low)}
        queues.until_holds(kind, low, "Succeeded")
        queues.delete(kind, low, high)

    def test_a_topology_places_the_pods_of_a_set_together(self, queues: Queues, kind: str) -> None:
        """Their gate is opened when Kueue has chosen the node of each."""
        queue = f"near-{kind.lower()}"
        queues.topology("hosts", "kubernetes.io/hostname")
        queues.flavor("near", nodeLabels={"kubernetes.io/os": "linux"}, topologyName="hosts")
        queues.cluster_queue(queue, "1", "near")
        queues.create(_near(queues.job(kind, queue, queue, "sleep 60")))
        queues.until_holds(kind, queue, "Running")
        nodes: dict[str, set[str]] = {}
        for pod in queues.pods(queue):
            assert not pod["spec"].get("schedulingGates")
            pod_set = pod["metadata"]["labels"]["kueue.x-k8s.io/podset"]
            nodes.setdefault(pod_set, set()).add(pod["spec"]["nodeName"])
        assert {pod_set: len(found) for pod_set, found in nodes.items()} == dict.fromkeys(nodes, 1)
        queues.delete(kind, queue)

    def test_a_victim_goes_on_from_its_checkpoint(self, queues: Queues) -> None:
        """Its program writes each step to a volume, and begins with the last one it finds."""
        queues.cluster_queue("resumes", "100m", preemption=PREEMPTION)
        directory = queues.directory("checkpoints")
        volume = {"name": "data", "hostPath": {"path": str(directory), "type": "Directory"}}
        victim = queues.job("ChainerJob", "resumes", "resumes", STEPS, volumes=[volume])
        (container,) = victim["spec"]["master"]["template"]["spec"]["containers"]
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        queues.create(victim)
        step = directory / "step"
        queues.until("it has made three steps", lambda: step.exists() and _steps(step) >= 3, 60)
        queues.create(queues.urgent("ChainerJob", "interrupts", "resumes"))
        queues.until_holds("ChainerJob", "resumes", "Suspended")
        made = _steps(step)
        queues.until_holds("ChainerJob", "interrupts", "Succeeded")
        queues.until_holds("ChainerJob", "resumes", "Succeeded")
        (pod,) = queues.pods("resumes")
        first, *_ = queues.kubectl("logs", pod["metadata"]["name"]).splitlines()
        assert 3 <= made <= int(first.removeprefix("begins after step ")) < 12
        assert _steps(step) == 12
        queues.delete("ChainerJob", "resumes", "interrupts")

    def test_quota_is_not_given_back_before_a_slow_pod_is_gone(self, queues: Queues) -> None:
        queues.cluster_queue("slow", "200m", preemption=PREEMPTION)
        queues.create(
            queues.job("ElasticJob", "slow", "slow", STUBBORN, terminationGracePeriodSeconds=20)
        )
        queues.until_holds("ElasticJob", "slow", "Running")
        queues.create(queues.urgent("ElasticJob", "urgent", "slow"))
        queues.until("the victim is evicted", lambda: queues.says("slow", "Evicted") == "True", 30)
        ended = 0

        def admitted() -> bool:
            nonlocal ended
            is_admitted = queues.says("urgent", "Admitted") == "True"
            left = queues.holding("slow")
            if is_admitted:
                assert not left, queues.state()
            ended += bool(left)
            return is_admitted

        queues.until("the other is admitted", admitted, 60)
        assert ended > 5
        queues.until_holds("ElasticJob", "urgent", "Succeeded")
        queues.delete("ElasticJob", "slow", "urgent")

    def test_a_job_is_deleted_in_every_state(self, queues: Queues, kind: str) -> None:
        """Waiting, running, being evicted, suspended: nothing is left, and its quota is free."""
        name = f"deleted-{kind.lower()}"
        running, waiting, evicted, last = (f"{name}-{number}" for number in range(4))
        queues.cluster_queue(name, quota(kind), preemption=PREEMPTION)
        queues.create(queues.job(kind, running, name, "sleep 60"))
        queues.until_holds(kind, running, "Running")
        queues.create(queues.job(kind, waiting, name))
        queues.until_holds(kind, waiting, "Suspended")
        queues.delete(kind, waiting)
        queues.delete(kind, running)
        more = {"terminationGracePeriodSeconds": 4}
        queues.create(queues.job(kind, evicted, name, STUBBORN, **more))
        queues.until_holds(kind, evicted, "Running")
        queues.create(queues.urgent(kind, last, name))
        queues.until("it is evicted", lambda: queues.says(evicted, "Evicted") == "True", 30)
        queues.kubectl("delete", PLURALS[kind], evicted, "--wait=false")

        def succeeded() -> bool:
            if queues.says(last, "Admitted") == "True":
                assert not queues.holding(evicted), queues.state()
            return queues.holds(kind, last, "Succeeded")

        queues.until("the other has succeeded", succeeded, 60)
        queues.until("the evicted is gone", lambda: queues.workload(evicted) is None, 30)
        queues.delete(kind, last)
        suspended = queues.job(kind, f"{name}-4", name)
        policy = suspended["spec"]
        if kind != "ElasticJob":  # the fields of its run policy are in the spec itself
            policy = policy.setdefault("runPolicy", {})
        policy["suspend"] = True
        queues.create(suspended)
        queues.until_holds(kind, f"{name}-4", "Suspended")
        queues.delete(kind, f"{name}-4")

    def test_a_queue_borrows_from_its_cohort(self, queues: Queues) -> None:
        queues.cluster_queue("lender", "200m", cohortName="lab")
        queues.cluster_queue("borrower", "0", cohortName="lab")
        queues.create(queues.job("ElasticJob", "borrows", "borrower"))
        queues.until_holds("ElasticJob", "borrows", "Succeeded")
        queues.delete("ElasticJob", "borrows")

    def test_an_elastic_job_runs_with_what_there_is_room_for(self, queues: Queues) -> None:
        queues.cluster_queue("narrow", "300m")
        wide = queues.job("ElasticJob", "wide", "narrow", "sleep 5")
        wide["spec"]["minReplicas"] = 2
        wide["spec"]["replicaSpecs"]["Worker"]["replicas"] = 5
        queues.create(wide)
        queues.until_holds("ElasticJob", "wide", "Running")
        assert len(queues.pods("wide")) == 3
        assert queues.stored("ElasticJob", "wide")["status"]["queue"]["admitted"] == {"worker": 3}
        queues.until_holds("ElasticJob", "wide", "Succeeded")
        queues.delete("ElasticJob", "wide")

    def test_an_elastic_job_grows_training_on_when_quota_is_free(self, queues: Queues) -> None:
        """To as many as there is room for, and to all later; a preemption makes it small again."""
        queues.cluster_queue("elastic", "700m", preemption=PREEMPTION)
        for name in ("holder-1", "holder-2"):
            queues.create(queues.job("ElasticJob", name, "elastic", "sleep 600"))
            queues.until_holds("ElasticJob", name, "Running")
        grows = queues.job("ElasticJob", "grows", "elastic", "sleep 600")
        grows["metadata"]["annotations"] = {ELASTIC: "true"}
        grows["spec"]["minReplicas"] = 2
        grows["spec"]["replicaSpecs"]["Worker"]["replicas"] = 6
        queues.create(grows)
        pods = self._until_workers(queues, "grows", 3)
        queues.until(
            "why says what it waits for",
            lambda: (
                "3 worker pods were admitted, and 4 are asked for: couldn't assign flavors"
                in queues.traincrew("why", "grows")
            ),
            30,
        )
        queues.delete("ElasticJob", "holder-1")
        more = self._until_workers(queues, "grows", 5)
        assert pods <= more
        queues.kill_operator()
        queues.kubectl("delete", PLURALS["ElasticJob"], "holder-2", "--wait=false")
        queues.kill_kueue()
        queues.start_operator()
        most = self._until_workers(queues, "grows", 6, 120)
        assert more <= most
        queues.until("one Workload is left", lambda: len(queues.workloads("grows")) == 1, 30)
        queues.until(
            "the job says so",
            lambda: "admitted" not in queues.stored("ElasticJob", "grows")["status"]["queue"],
            30,
        )
        queues.create(queues.urgent("ElasticJob", "presses", "elastic", "sleep 600"))
        queues.until_holds("ElasticJob", "presses", "Running")
        assert not most & self._until_workers(queues, "grows", 5)
        queues.delete("ElasticJob", "presses")
        self._until_workers(queues, "grows", 6)
        queues.delete("ElasticJob", "grows")

    def _until_workers(
        self, queues: Queues, name: str, number: int, seconds: float = 60
    ) -> set[str]:
        """Wait until so many workers of a job run, and no other; return their UIDs."""

        def found() -> set[str]:
            pods = queues.pods(name)
            running = [each for each in pods if each["status"]["phase"] == "Running"]
            return (
                {each["metadata"]["uid"] for each in pods}
                if len(pods) == len(running) == number
                else set()
            )

        return queues.until(f"{number} workers of {name} run", found, seconds)

    def test_what_can_never_be_admitted_says_why(self, queues: Queues) -> None:
        """Told in the status: the queue does not exist, is stopped, or is too small."""
        queues.cluster_queue("stopped", "1", stopPolicy="Hold")
        queues.cluster_queue("tiny", "100m")
        for queue, words in (
            ("nobody", ("LocalQueue nobody doesn't exist", "create the queue")),
            ("stopped", ("ClusterQueue stopped is inactive", "stopped it")),
            ("tiny", ("insufficient quota for cpu", "can never hold this job")),
        ):
            name = f"for-{queue}"
            queues.create(queues.job("ElasticJob", name, queue))

            def told() -> bool:
                reason, text = queues.reason("ElasticJob", name)  # noqa: B023
                return reason == "QueueAdmissionPending" and all(each in text for each in words)  # noqa: B023

            queues.until(f"{name} says why it waits", told, 30)
            assert not queues.pods(name)
            why = queues.traincrew("why", name, code=None)
            assert words[0] in why, why
            queues.delete("ElasticJob", name)

    def test_kueue_and_the_operator_are_killed_in_between(self, queues: Queues) -> None:
        queues.cluster_queue("shaky", "200m")
        first, second = "shaky-1", "shaky-2"
        queues.create(queues.job("ElasticJob", first, "shaky", "sleep 15"))
        queues.until_holds("ElasticJob", first, "Running")
        uids = {pod["metadata"]["uid"] for pod in queues.pods(first)}
        queues.kill_operator()
        queues.create(queues.job("ElasticJob", second, "shaky"))
        queues.kill_kueue()
        queues.start_operator()
        queues.until_kueue_is_up()
        assert {pod["metadata"]["uid"] for pod in queues.pods(first)} == uids
        queues.until_holds("ElasticJob", first, "Succeeded")
        queues.until_holds("ElasticJob", second, "Succeeded")
        # Deleted while nobody looks: its Workload goes when the operator is back.
        queues.create(queues.job("ElasticJob", "left", "shaky", "sleep 60"))
        queues.until_holds("ElasticJob", "left", "Running")
        queues.kill_operator()
        queues.kubectl("delete", PLURALS["ElasticJob"], "left", "--wait=false")
        queues.until("its pods are gone", lambda: not queues.pods("left"))
        assert queues.workload("left") is not None
        queues.start_operator()
        queues.until("its Workload is gone", lambda: queues.workload("left") is None)
        queues.delete("ElasticJob", first, second)

    def test_all_are_killed_while_a_victim_ends(self, queues: Queues) -> None:
        """Neither forgets that its pods are there: the quota is not given away before."""
        queues.cluster_queue("blackout", "200m", preemption=PREEMPTION)
        victim, other = "blackout-low", "blackout-high"
        more = {"terminationGracePeriodSeconds": 15}
        queues.create(queues.job("ElasticJob", victim, "blackout", STUBBORN, **more))
        queues.until_holds("ElasticJob", victim, "Running")
        before = queues.holding(victim)
        queues.create(queues.urgent("ElasticJob", other, "blackout"))
        queues.until("it is evicted", lambda: queues.says(victim, "Evicted") == "True", 30)
        queues.kill_operator()
        queues.kill_kueue()
        queues.start_operator()

        def succeeded() -> bool:
            if queues.says(other, "Admitted") == "True":
                assert not before & queues.holding(victim), queues.state()
            return queues.holds("ElasticJob", other, "Succeeded")

        queues.until("the other has succeeded", succeeded, 120)
        queues.until_kueue_is_up()
        queues.until_holds("ElasticJob", victim, "Running")
        queues.delete("ElasticJob", victim, other)

    def test_a_workload_is_stopped_and_deleted_by_hand(self, queues: Queues) -> None:
        queues.cluster_queue("manual", "200m")
        queues.create(queues.job("ElasticJob", "manual", "manual", "sleep 60"))
        queues.until_holds("ElasticJob", "manual", "Running")
        found = queues.workload("manual")
        assert found is not None
        name = found["metadata"]["name"]
        stop, go = (f'{{"spec":{{"active":{each}}}}}' for each in ("false", "true"))
        queues.kubectl("patch", WORKLOADS, name, "--type=merge", "-p", stop)
        queues.until(
            "the job is stopped",
            lambda: (
                queues.reason("ElasticJob", "manual")[0] == "QueueStopped"
                and not queues.pods("manual")
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
        queues.delete("ElasticJob", "manual")
