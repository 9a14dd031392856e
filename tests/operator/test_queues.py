"""Jobs in queues with the operator: who follows an admission, who lets a Workload go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import queues_api
from harness import ELASTIC_JOBS, OPERATOR_AGENT, PODS, Cluster
from plan.elasticjob.world import elastic
from traincrew.engine.errors import InvalidError, NotFoundError
from traincrew.local.apiserver.http.faults import Fault, refuse
from traincrew.operator.queues import WORKLOADS

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.faults import AuditRecord

NAME = "flowers"
ELASTIC = "kueue.x-k8s.io/elastic-job"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
pytestmark = pytest.mark.usefixtures("impatient")


def queued(name: str = NAME, **labels: str) -> dict[str, Any]:
    """An ElasticJob of two workers in a queue."""
    job = elastic()
    job["metadata"]["name"] = name
    job["metadata"]["labels"] = {queues_api.QUEUE: "team-a", **labels}
    return job


async def until_held(cluster: Cluster, reason: str, name: str = NAME) -> dict[str, Any]:
    """Wait until a job is held for a reason."""
    return await cluster.until_phase(name, "Suspended", reason=reason)


async def until_let_go(cluster: Cluster, name: str) -> None:
    """Wait until a Workload does not exist."""

    async def check() -> bool:
        try:
            await cluster.client.get(WORKLOADS, name, "default")
        except NotFoundError:
            return True
        return False

    await cluster.until(check)


async def test_an_admission_is_followed_and_taken_back(cluster: Cluster) -> None:
    await queues_api.install(cluster)
    await cluster.start_operator()
    await cluster.create(queued(**{queues_api.PRIORITY_CLASS: queues_api.CLASS}))
    await until_held(cluster, "QueueAdmissionPending")
    workload = await queues_api.admit(cluster, NAME)
    assert workload["spec"]["priority"] == 1000
    assert workload["spec"]["priorityClassRef"]["kind"] == "WorkloadPriorityClass"
    pods = await cluster.until_members(NAME, 2)
    assert all(pod["spec"]["nodeSelector"] == queues_api.LABELS for pod in pods)
    await queues_api.evict(cluster, NAME)

    async def given_back() -> bool:
        found = await queues_api.workload_of(cluster, NAME)
        assert found is not None
        return queues_api.said(found)["QuotaReserved"] == "False"

    await cluster.until(given_back)
    assert await cluster.members(NAME) == []
    found = await queues_api.until_workload(cluster, NAME)
    assert found["metadata"]["uid"] == workload["metadata"]["uid"]


async def test_a_deleted_job_lets_its_workload_go(cluster: Cluster) -> None:
    await queues_api.install(cluster)
    await cluster.start_operator()
    await cluster.create(queued())
    workload = await queues_api.admit(cluster, NAME)
    await cluster.until_members(NAME, 2)
    await cluster.client.delete(ELASTIC_JOBS, NAME, "default")
    await until_let_go(cluster, workload["metadata"]["name"])
    assert await cluster.members(NAME) == []


async def test_a_workload_is_let_go_whose_job_was_deleted_meanwhile(cluster: Cluster) -> None:
    await queues_api.install(cluster)
    await cluster.start_operator()
    await cluster.create(queued())
    workload = await queues_api.until_workload(cluster, NAME)
    await cluster.stop_operator()
    await cluster.client.delete(ELASTIC_JOBS, NAME, "default")

    async def deleted() -> bool:
        found = await cluster.client.get(WORKLOADS, workload["metadata"]["name"], "default")
        return "deletionTimestamp" in found["metadata"]

    await cluster.until(deleted)
    await cluster.start_operator()
    await until_let_go(cluster, workload["metadata"]["name"])


async def test_without_kueue_the_job_says_what_to_install(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(queued())
    job = await until_held(cluster, "QueueUnavailable")
    assert "install Kueue" in job["status"]["message"]
    assert await cluster.members(NAME) == []

    async def told() -> bool:
        return "QueueUnavailable" in {reason for _, reason, _ in await cluster.events_of(NAME)}

    await cluster.until(told)


async def test_a_class_that_does_not_exist_is_named(cluster: Cluster) -> None:
    await queues_api.install(cluster)
    await cluster.start_operator()
    await cluster.create(queued(**{queues_api.PRIORITY_CLASS: "nobody"}))
    job = await until_held(cluster, "QueueUnavailable")
    assert "WorkloadPriorityClass nobody does not exist" in job["status"]["message"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_without_a_right_the_rules_are_named(cluster: Cluster, method: str) -> None:
    await queues_api.install(cluster)
    text = (
        'workloads.kueue.x-k8s.io is forbidden: User "operator" cannot create resource'
        ' "workloads" in API group "kueue.x-k8s.io"'
    )

    def forbid(used: str, path: str, agent: str) -> Fault | None:
        mine = agent.startswith(OPERATOR_AGENT) and used == method
        return refuse(403, text) if mine and "/workloads" in path else None

    cluster.server.faults = forbid
    await cluster.start_operator()
    await cluster.create(queued())
    job = await until_held(cluster, "QueueUnavailable")
    assert "deploy/2-rbac.yaml" in job["status"]["message"]


async def test_nothing_is_asked_for_a_job_without_a_queue(cluster: Cluster) -> None:
    asked: list[str] = []

    def audit(record: AuditRecord) -> None:
        if record.user_agent.startswith(OPERATOR_AGENT) and "kueue" in record.path:
            asked.append(record.path)

    cluster.server.audit = audit
    await cluster.start_operator()
    await cluster.create(elastic())
    await cluster.until_members(NAME, 2)
    await cluster.until_phase(NAME, "Created", reason="WaitingForWorkers")
    # Once, whether there may be Workloads of jobs that are gone.
    assert asked == ["/apis/kueue.x-k8s.io/v1beta2"]


async def test_a_job_of_another_manager_is_left_alone_and_stays_so(cluster: Cluster) -> None:
    await cluster.start_operator()
    manifest = elastic(managedBy="kueue.x-k8s.io/multikueue")
    await cluster.create(manifest)
    mine = elastic(managedBy="traincrew.dev/operator")
    mine["metadata"]["name"] = "mine"
    await cluster.create(mine)
    await cluster.until_members("mine", 2)
    job = await cluster.job(NAME)
    assert not job.get("status")
    assert await cluster.members(NAME) == []
    for changed in (None, "traincrew.dev/operator"):
        with pytest.raises(InvalidError, match="managedBy cannot be changed"):
            await cluster.edit(NAME, {"managedBy": changed})


async def test_another_leader_goes_on(cluster: Cluster) -> None:
    await queues_api.install(cluster)
    await cluster.start_operator()
    await cluster.create(queued())
    await until_held(cluster, "QueueAdmissionPending")
    await cluster.stop_operator()
    await queues_api.admit(cluster, NAME)
    await cluster.start_operator()
    pods = await cluster.until_members(NAME, 2)
    await cluster.stop_operator()
    await queues_api.evict(cluster, NAME)
    await cluster.start_operator()

    async def replaced() -> bool:
        uids = {pod["metadata"]["uid"] for pod in pods}
        now = await cluster.client.list(PODS, "default")
        return not any(pod["metadata"]["uid"] in uids for pod in now["items"])

    await cluster.until(replaced)
    await until_held(cluster, "QueueAdmissionPending")


async def test_an_elastic_job_grows_although_the_operator_is_replaced(cluster: Cluster) -> None:
    await queues_api.install(cluster)
    await cluster.start_operator()
    job = queued()
    job["metadata"]["annotations"] = {ELASTIC: "true"}
    job["spec"] |= {"minReplicas": 1, "maxReplicas": 4}
    job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 4
    await cluster.create(job)
    first = await queues_api.until_workload(cluster, NAME)
    await queues_api.write(cluster, first, _admitted(first, 2))
    members = {pod["metadata"]["uid"] for pod in await cluster.until_members(NAME, 2)}

    async def other() -> dict[str, Any] | None:
        listed = (await cluster.client.list(WORKLOADS, "default"))["items"]
        return next((each for each in listed if each["metadata"]["name"] != _name(first)), None)

    second: dict[str, Any] = await cluster.until(other)
    assert second["metadata"]["annotations"][REPLACES] == f"default/{_name(first)}"
    assert second["spec"]["podSets"][0]["count"] == 4
    await cluster.stop_operator()
    finished = queues_api.condition("Finished", "True", "WorkloadSliceReplaced")
    conditions = [*_admitted(first, 2)["conditions"], finished]
    await queues_api.write(cluster, first, {"conditions": conditions})
    await queues_api.write(cluster, second, _admitted(second, 4))
    await cluster.start_operator()
    grown = await cluster.until_members(NAME, 4)
    assert members < {pod["metadata"]["uid"] for pod in grown}
    await until_let_go(cluster, _name(first))
    await cluster.client.delete(ELASTIC_JOBS, NAME, "default")
    await until_let_go(cluster, _name(second))


def _name(workload: dict[str, Any]) -> str:
    return str(workload["metadata"]["name"])


def _admitted(workload: dict[str, Any], workers: int) -> dict[str, Any]:
    """The status of a Workload that was admitted with so many workers."""
    status = queues_api.admission(workload)
    status["admission"]["podSetAssignments"][0]["count"] = workers
    return status
