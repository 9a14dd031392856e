"""Jobs whose pods are placed together: with a scheduler of gangs, without one, without rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import gangs_api
from harness import OPERATOR_AGENT, Cluster
from plan.elasticjob.world import elastic
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from traincrew.local.apiserver.http.faults import Fault, refuse
from traincrew.operator import gangs
from traincrew.plan.shared.gangs import release

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.faults import AuditRecord

NAME = "flowers"
GROUP = "flowers-elasticjob"
POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
pytestmark = pytest.mark.usefixtures("impatient")
LABEL = "scheduling.x-k8s.io/pod-group"
UNPLACED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient cpu.",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


async def install(cluster: Cluster) -> None:
    """Install the definition of the coscheduling plugin, until it is served."""
    await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, gangs_api.definition(POD_GROUPS))
    await cluster.until(lambda: gangs_api.is_served(cluster.client, POD_GROUPS))


def gang(**policy: Any) -> dict[str, Any]:
    """An ElasticJob of two workers that asks for a gang."""
    return elastic(schedulingPolicy={"minAvailable": 2, **policy})


async def until_group(cluster: Cluster, **spec: Any) -> dict[str, Any]:
    """Wait for the PodGroup with this ``spec``."""

    async def check() -> Any:
        found = await cluster.find(POD_GROUPS, GROUP)
        return found if found is not None and found["spec"] == spec else None

    found: dict[str, Any] = await cluster.until(check)
    return found


async def test_the_group_is_there_before_the_pods(cluster: Cluster) -> None:
    await install(cluster)
    created: list[str] = []

    def note(method: str, path: str, agent: str) -> Fault | None:
        if method == "POST" and agent.startswith(OPERATOR_AGENT):
            created.append(path.rpartition("/")[2].partition("?")[0])
        return None

    cluster.server.faults = note
    await cluster.start_operator(gang_scheduling="auto")
    job = await cluster.create(gang(queue="research"))
    pods = await cluster.until_members(NAME, 2)
    assert {pod["metadata"]["labels"][LABEL] for pod in pods} == {GROUP}
    assert created.index("podgroups") < created.index("pods")
    group = await until_group(cluster, minMember=2)
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (job["metadata"]["uid"], True)

    async def told() -> bool:
        return any("queue" in text for _, _, text in await cluster.events_of(NAME))

    await cluster.until(told)


async def test_jobs_that_ask_at_the_same_time_get_the_same_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gangs, "LOOK_SECONDS", 60.0)
    await install(cluster)

    def slow(_method: str, path: str, _agent: str) -> Fault | None:
        return Fault(delay=0.2) if path.endswith("/scheduling.x-k8s.io/v1alpha1") else None

    cluster.server.faults = slow
    names = [f"job-{number}" for number in range(4)]
    for name in names:
        job = gang()
        job["metadata"]["name"] = name
        await cluster.create(job)
    await cluster.start_operator()
    for name in names:
        pods = await cluster.until_members(name, 2)
        assert {pod["metadata"]["labels"].get(LABEL) for pod in pods} == {f"{name}-elasticjob"}


async def test_the_reason_of_the_scheduler_becomes_that_of_the_job(cluster: Cluster) -> None:
    await install(cluster)
    await cluster.start_operator()
    await cluster.create(gang())
    for pod in await cluster.until_members(NAME, 2):
        await cluster.set_pod(pod["metadata"]["name"], {"conditions": [UNPLACED]})
    job = await cluster.until_phase(NAME, "Created", reason="WaitingForGang")
    assert "1 Insufficient cpu" in job["status"]["message"]


async def test_a_scheduler_that_is_installed_later_is_for_later_jobs(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(gang())
    await cluster.until_members(NAME, 2)
    await install(cluster)
    later = gang()
    later["metadata"]["name"] = "later"
    await cluster.create(later)

    async def found() -> Any:
        return await cluster.find(POD_GROUPS, "later-elasticjob")

    await cluster.until(found)
    assert await cluster.find(POD_GROUPS, GROUP) is None
    assert all(LABEL not in pod["metadata"]["labels"] for pod in await cluster.members(NAME))


async def test_without_a_right_the_pods_are_created_and_the_rule_is_named(
    cluster: Cluster,
) -> None:
    await install(cluster)
    text = (
        'podgroups.scheduling.x-k8s.io is forbidden: User "operator" cannot create resource'
        ' "podgroups" in API group "scheduling.x-k8s.io"'
    )

    def forbid(method: str, path: str, agent: str) -> Fault | None:
        mine = agent.startswith(OPERATOR_AGENT) and method == "POST"
        return refuse(403, text) if mine and "/podgroups" in path else None

    cluster.server.faults = forbid
    await cluster.start_operator()
    await cluster.create(gang())
    pods = await cluster.until_members(NAME, 2)
    assert all(LABEL not in pod["metadata"]["labels"] for pod in pods)

    async def told() -> bool:
        events = await cluster.events_of(NAME)
        return any("apiGroups [scheduling.x-k8s.io]" in text for _, _, text in events)

    await cluster.until(told)


async def test_nothing_is_asked_for_a_job_without_a_gang(cluster: Cluster) -> None:
    asked: list[str] = []

    def audit(record: AuditRecord) -> None:
        if record.user_agent.startswith(OPERATOR_AGENT) and "/apis/scheduling" in record.path:
            asked.append(record.path)

    cluster.server.audit = audit
    await cluster.start_operator()
    await cluster.create(elastic())
    await cluster.until_members(NAME, 2)
    await cluster.until_phase(NAME, "Created", reason="WaitingForWorkers")
    assert asked == []


async def test_pods_that_wait_in_vain_for_others_are_released(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "FIRST_SECONDS", 1)
    monkeypatch.setattr(release, "SHORTEST_WAIT", 0.1)
    await cluster.start_operator(gang_scheduling="none")
    await cluster.create(elastic(schedulingPolicy={"minAvailable": 2}, minReplicas=2))
    first, second = await cluster.until_members(NAME, 2)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": first["metadata"]["name"]},
        "target": {"kind": "Node", "name": "node-1"},
    }
    path = f"/api/v1/namespaces/default/pods/{first['metadata']['name']}/binding"
    await cluster.client.request("POST", path, body=binding)
    await cluster.set_pod(second["metadata"]["name"], {"conditions": [UNPLACED]})
    uids = {first["metadata"]["uid"], second["metadata"]["uid"]}

    async def created_again() -> bool:
        pods = await cluster.members(NAME)
        return len(pods) == 2 and not uids & {pod["metadata"]["uid"] for pod in pods}

    await cluster.until(created_again)
    assert "GangReleased" in {reason for _, reason, _ in await cluster.events_of(NAME)}
    job = await cluster.job(NAME)
    assert job["status"]["gangReleases"] == 1
    assert job["status"].get("failures", 0) == 0
