"""What the API would refuse of children that are created later, and pods whose name is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness import JOBS, OPERATOR_AGENT, PODS, Cluster
from plan.chainerjob.world import distributed
from plan.elasticjob.world import elastic
from plan.mpicluster.manifests import interactive, one_shot, without_ssh
from traincrew.local.apiserver.http.faults import Fault, refuse
from traincrew.operator import checks

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("impatient")
NAME = "hello"
JOB = "digits-mn"
QUOTA = 'pods "hello-master" is forbidden: exceeded quota: gold, requested: pods=1, used: pods=2'


def pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the API again soon."""
    monkeypatch.setattr(checks, "SOON_SECONDS", 0.0)
    monkeypatch.setattr(checks, "FORESIGHT_SECONDS", 0.2)
    monkeypatch.setattr(checks, "MISSING_SECONDS", 0.1)
    monkeypatch.setattr(checks, "CHECK_SECONDS", 0.2)


class DryRuns:
    """Counts the operator's dry runs, and answers those of a resource."""

    def __init__(self, resource: str = "", fault: Fault | None = None) -> None:
        self.resource, self.fault, self.count = resource, fault, 0

    def __call__(self, method: str, path: str, agent: str) -> Fault | None:
        """The hook of the API server."""
        where, _, query = path.partition("?")
        if not agent.startswith(OPERATOR_AGENT) or "dryRun=All" not in query:
            return None
        self.count += 1
        return self.fault if where.endswith(f"/{self.resource}") else None


@pytest.mark.parametrize("make", [interactive, one_shot, without_ssh])
async def test_the_name_of_a_master_is_checked_before_the_workers_are_ready(
    cluster: Cluster, make: Callable[[str], dict[str, Any]]
) -> None:
    await cluster.client.create(PODS, pod(f"{NAME}-master"), "default")
    await cluster.start_operator()
    await cluster.create(make(NAME))
    await cluster.until_phase(
        NAME,
        "Created",
        reason="ErrResourceExists",
        message=f'Resource "{NAME}-master" already exists and is not managed by MPICluster',
    )
    await cluster.client.delete(PODS, f"{NAME}-master", "default", grace_period=0)
    await cluster.until_phase(NAME, "Created", reason="WaitingForWorkers")


async def test_the_name_of_the_job_of_a_master_is_checked(cluster: Cluster) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{JOB}-master"},
        "spec": {"template": {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}},
    }
    await cluster.client.create(JOBS, job, "default")
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(
        JOB,
        "Created",
        reason="ErrResourceExists",
        message=f'Resource "{JOB}-master" already exists and is not managed by ChainerJob',
    )
    await cluster.client.delete(JOBS, f"{JOB}-master", "default", propagation="Background")
    await cluster.until_phase(JOB, "Created", reason="WaitingForWorkers")


async def test_a_pod_with_the_name_of_a_masters_job_is_nobodys_problem(cluster: Cluster) -> None:
    await cluster.client.create(PODS, pod(f"{JOB}-master"), "default")
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(JOB, "Created", reason="WaitingForWorkers")
    await cluster.run_workers(2)
    await cluster.run_master()
    await cluster.until_phase(JOB, "Running")


@pytest.mark.parametrize(
    ("manifest", "name"), [(interactive(NAME), NAME), (distributed(), JOB)], ids=["pod", "job"]
)
async def test_a_quota_is_reported_until_there_is_room(
    cluster: Cluster, manifest: dict[str, Any], name: str
) -> None:
    faults = DryRuns("pods", refuse(403, QUOTA))
    cluster.server.faults = faults
    await cluster.start_operator()
    await cluster.create(manifest)
    await cluster.until_phase(
        name, "Created", reason="FailedSynced", message="exceeded quota: gold"
    )

    async def reported() -> bool:  # events are written after the status
        found = [reason for kind, reason, _ in await cluster.events_of(name) if kind == "Warning"]
        assert found == ["FailedSynced"]
        return True

    await cluster.until(reported)
    faults.fault = None
    await cluster.until_phase(name, "Created", reason="WaitingForWorkers")


@pytest.mark.parametrize(
    ("manifest", "name", "resource"),
    [(interactive(NAME), NAME, "pods"), (distributed(), JOB, "jobs")],
    ids=["pod", "job"],
)
async def test_a_master_that_is_invalid_fails_the_job_at_once(
    cluster: Cluster, manifest: dict[str, Any], name: str, resource: str
) -> None:
    text = "spec.containers[0].volumeMounts[0].name: Not found"
    cluster.server.faults = DryRuns(resource, refuse(422, text))
    await cluster.start_operator()
    await cluster.create(manifest)
    await cluster.until_phase(name, "Failed", reason="FailedSynced", message=text)


@pytest.mark.parametrize(
    "fault",
    [
        refuse(400, 'admission webhook "check.example.com" does not support dry run'),
        refuse(500, "failed calling webhook"),
        refuse(403, 'User "operator" cannot create resource "pods" in API group "" in the name'),
    ],
    ids=["no dry run", "internal", "no right"],
)
async def test_an_answer_that_says_nothing_about_the_master_is_ignored(
    cluster: Cluster, fault: Fault
) -> None:
    faults = DryRuns("pods", fault)
    cluster.server.faults = faults
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(JOB, "Created", reason="WaitingForWorkers")
    assert faults.count > 0


async def test_the_api_is_asked_once_about_a_master(cluster: Cluster) -> None:
    faults = DryRuns()
    cluster.server.faults = faults
    await cluster.start_operator()
    await cluster.create(one_shot(NAME, workers=3))
    await cluster.run_hosts(NAME, "worker-0", "worker-1", "worker-2")
    await cluster.run_hosts(NAME, "master")
    await cluster.until_phase(NAME, "Running")
    assert faults.count == 1


async def test_another_operator_does_not_forget_what_was_foreseen(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.client.create(PODS, pod(f"{NAME}-master"), "default")
    await cluster.start_operator()
    await cluster.create(interactive(NAME))
    before = await cluster.until_phase(NAME, "Created", reason="ErrResourceExists")
    await cluster.stop_operator()
    monkeypatch.setattr(checks, "SOON_SECONDS", 120.0)
    faults = DryRuns()
    cluster.server.faults = faults
    await cluster.start_operator()

    async def asked() -> bool:
        return faults.count > 1  # and again, after FORESIGHT_SECONDS

    await cluster.until(asked)
    after = await cluster.job(NAME)
    assert after["status"]["conditions"] == before["status"]["conditions"]
    assert len([each for each in await cluster.events_of(NAME) if each[0] == "Warning"]) == 1


async def test_a_job_that_runs_soon_costs_no_dry_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SOON_SECONDS", 120.0)
    faults = DryRuns()
    cluster.server.faults = faults
    await cluster.start_operator()
    await cluster.create(one_shot(NAME, workers=1))
    await cluster.run_hosts(NAME, "worker-0")
    await cluster.run_hosts(NAME, "master")
    await cluster.until_phase(NAME, "Running")
    assert faults.count == 0


async def test_jobs_that_are_created_together_ask_one_after_the_other(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "FORESIGHT_INTERVAL", 120.0)
    faults = DryRuns()
    cluster.server.faults = faults
    await cluster.start_operator()
    names = ("a", "b", "c")
    for name in names:
        await cluster.create(one_shot(name, workers=1))
    for name in names:
        await cluster.run_hosts(name, "worker-0")
        await cluster.run_hosts(name, "master")
        await cluster.until_phase(name, "Running")
    assert faults.count == 1


async def test_the_pod_of_somebody_else_with_the_name_of_a_worker(cluster: Cluster) -> None:
    await cluster.client.create(PODS, pod(f"{NAME}-worker-1"), "default")
    await cluster.start_operator()
    await cluster.create(interactive(NAME, workers=2))
    taken = f"{NAME}-worker-1: another pod has this name and is not managed by this job"
    await cluster.run_hosts(NAME, "worker-0")
    await cluster.until_phase(NAME, "Created", message=f"1/2 workers ready; {taken}")
    await cluster.client.delete(PODS, f"{NAME}-worker-1", "default", grace_period=0)
    await cluster.run_hosts(NAME, "worker-1")
    await cluster.run_hosts(NAME, "master")
    await cluster.until_phase(NAME, "Running", workersReady="2/2")


async def test_the_pod_of_somebody_else_with_the_name_of_a_chainerjobs_worker(
    cluster: Cluster,
) -> None:
    name = f"{JOB}-workerset-ws0-0"
    await cluster.client.create(PODS, pod(name), "default")
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase(
        JOB, "Created", message=f"{name}: another pod has this name and is not managed by this job"
    )


async def test_the_names_of_workers_are_checked_before_their_host_has_a_node(
    cluster: Cluster,
) -> None:
    job = elastic(hosted=True, fitAvailable={})
    name = job["metadata"]["name"]
    await cluster.client.create(PODS, pod(f"{name}-worker-1"), "default")
    await cluster.start_operator()
    await cluster.create(job)
    await cluster.until_phase(
        name,
        "Created",
        reason="ErrResourceExists",
        message=f'Resource "{name}-worker-1" already exists and is not managed by ElasticJob',
    )
    host = await cluster.client.get(PODS, f"{name}-worker-0", "default")
    assert not host["spec"].get("nodeName")
