"""Jobs whose pods are placed together: with a scheduler of gangs, without one, without rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness import OPERATOR_AGENT, PODS, Cluster
from plan.elasticjob.world import elastic
from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import Resource
from traincrew.local.apiserver.http.faults import Fault, refuse
from traincrew.operator import gangs

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.faults import AuditRecord

NAME = "flowers"
GROUP = "flowers-elasticjob"
POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
LABEL = "scheduling.x-k8s.io/pod-group"


@pytest.fixture(autouse=True)
def _looks_soon(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The APIs that a cluster serves, and PodGroups, are read again soon."""
    monkeypatch.setattr(gangs, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(gangs, "READ_SECONDS", 0.1)


async def install(cluster: Cluster) -> None:
    """Install the definition of the coscheduling plugin, until it is served."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": POD_GROUPS.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup",
             "listKind": "PodGroupList"}  # fmt: skip
    await cluster.client.create(
        DEFINITIONS,
        {
            "apiVersion": DEFINITIONS.api_version,
            "kind": DEFINITIONS.kind,
            "metadata": {
                "name": f"podgroups.{POD_GROUPS.group}",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
            },
            "spec": {
                "group": POD_GROUPS.group,
                "scope": "Namespaced",
                "names": names,
                "versions": [version],
            },
        },
    )

    async def is_served() -> bool:
        try:
            await cluster.client.list(POD_GROUPS, "default")
        except NotFoundError:
            return False
        return True

    await cluster.until(is_served)


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


async def test_the_reason_of_the_scheduler_becomes_that_of_the_job(cluster: Cluster) -> None:
    await install(cluster)
    await cluster.start_operator()
    await cluster.create(gang())
    await cluster.until_members(NAME, 2)
    patch = {"status": {"phase": "Scheduling"}}
    await cluster.client.patch(POD_GROUPS, GROUP, "default", patch=patch)
    for pod in await cluster.members(NAME):
        text = {"metadata": {"annotations": {"seen": "yes"}}}
        await cluster.client.patch(PODS, pod["metadata"]["name"], "default", patch=text)
    job = await cluster.until_phase(NAME, "Created", reason="WaitingForGang")
    assert "phase Scheduling" in job["status"]["message"]


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
