"""MxJobs with the operator and the embedded API server; tests set the state of pods."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from harness import EVENTS, JOBS, MX_JOBS, OLDER_MX_JOBS, OPERATOR_AGENT, PODS, Cluster
from plan.mxjob.manifests import GROUP, OLDER_GROUP, distributed, local
from traincrew.engine.errors import ApiError, NotFoundError
from traincrew.engine.resources import SERVICES

NAME = "digits"
ROLES = {"scheduler-0", "server-0", "worker-0", "worker-1"}


async def until_event(cluster: Cluster, reason: str, text: str) -> None:
    """Wait for an event about the job."""

    async def told() -> bool:
        return any(
            event["reason"] == reason and text in event["message"]
            for event in await cluster.all(EVENTS)
            if event["involvedObject"]["name"] == NAME
        )

    await cluster.until(told)


async def started(cluster: Cluster, **spec: Any) -> dict[str, dict[str, Any]]:
    """Create a job, and set its pods to running."""
    await cluster.create(distributed(NAME, **spec))
    replicas = await cluster.run_replicas(NAME, 4)
    await cluster.until_phase(NAME, "Running", workersReady="4/4")
    return replicas


@pytest.mark.parametrize("group", [GROUP, OLDER_GROUP])
async def test_a_job_from_creation_to_success(cluster: Cluster, group: str) -> None:
    await cluster.start_operator()
    await cluster.create(distributed(NAME, group=group))
    await cluster.until_phase(NAME, "Creating", message="0/4 replicas running")
    replicas = await cluster.run_replicas(NAME, 4)
    assert set(replicas) == ROLES
    job = await cluster.until_phase(NAME, "Running", workersReady="4/4")
    identifier = job["spec"]["RuntimeId"]
    jobs = {item["metadata"]["name"]: item for item in await cluster.all(JOBS)}
    assert set(jobs) == {f"{NAME}-{role.replace('-', f'-{identifier}-')}" for role in sorted(ROLES)}
    (owner,) = jobs[f"{NAME}-worker-{identifier}-0"]["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"]) == (f"{group}/v1beta1", "MxJob")
    for pod in replicas.values():
        await cluster.end_pod(pod, 0)
    job = await cluster.until_phase(NAME, "Done", state="Succeeded")
    assert [entry["Mx_replica_type"] for entry in job["status"]["replicaStatuses"]] == [
        "SCHEDULER",
        "SERVER",
        "WORKER",
    ]
    await until_event(cluster, "MxJobSucceeded", "have succeeded")


async def test_all_replicas_are_restarted_after_one_was_killed(cluster: Cluster) -> None:
    await cluster.start_operator()
    before = await started(cluster)
    await cluster.end_pod(before["server-0"], 137)
    after = await cluster.run_replicas(NAME, 4)
    await cluster.until_phase(NAME, "Running", attempt="1", failures="1")
    uids = [{pod["metadata"]["uid"] for pod in pods.values()} for pods in (before, after)]
    assert not uids[0] & uids[1]
    await until_event(cluster, "Restarting", "Server 0 failed")
    job = await cluster.job(NAME)
    assert "exited with code 137" in job["status"]["lastRestartReason"]


async def test_an_operator_that_is_killed_during_a_restart_is_continued(cluster: Cluster) -> None:
    await cluster.start_operator()
    replicas = await started(cluster)
    await cluster.kill_operator()
    await cluster.end_pod(replicas["worker-1"], 137)
    for _ in range(3):
        await cluster.start_operator()
        await cluster.until_phase(NAME, "Creating", attempt="1")
        await cluster.kill_operator()
    await cluster.start_operator()
    await cluster.run_replicas(NAME, 4)
    await cluster.until_phase(NAME, "Running", attempt="1", failures="1", restarts="1")


async def test_a_program_that_fails_by_itself_fails_the_job(cluster: Cluster) -> None:
    await cluster.start_operator()
    replicas = await started(cluster)
    await cluster.end_pod(replicas["worker-1"], 3)
    job = await cluster.until_phase(NAME, "Done", state="Failed")
    assert "Worker 1 failed" in job["status"]["reason"]
    assert "exited with code 3" in job["status"]["reason"]

    async def stopped() -> bool:
        return set(await cluster.replicas(NAME)) == {"worker-1"}

    await cluster.until(stopped)


async def test_a_job_deleted_by_hand_restarts_all_replicas(cluster: Cluster) -> None:
    await cluster.start_operator()
    await started(cluster)
    identifier = (await cluster.job(NAME))["spec"]["RuntimeId"]
    await cluster.client.delete(JOBS, f"{NAME}-worker-{identifier}-0", "default")
    await cluster.run_replicas(NAME, 4)
    job = await cluster.until_phase(NAME, "Running", attempt="1")
    assert job["status"].get("failures", 0) == 0


async def test_both_groups_may_have_a_job_of_one_name_and_are_told_so(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(local(NAME))
    await cluster.run_replicas(NAME, 1)
    await cluster.create(local(NAME, group=OLDER_GROUP))
    await until_event(cluster, "SameName", "MxJob.mxnet.mlkube.io digits is in this namespace")

    async def both() -> bool:
        return len(await cluster.all(PODS)) == 2

    await cluster.until(both)
    await cluster.client.delete(OLDER_MX_JOBS, NAME, "default")

    async def one() -> bool:
        return len(await cluster.all(PODS)) == 1

    await cluster.until(one)
    assert (await cluster.client.get(MX_JOBS, NAME, "default"))["status"]["phase"] == "Running"


async def test_the_second_job_with_the_same_runtime_id_is_told_whose_it_is(
    cluster: Cluster,
) -> None:
    await cluster.start_operator()
    await cluster.create(local(NAME, RuntimeId="ab12"))
    await cluster.run_replicas(NAME, 1)
    await cluster.create(local(NAME, group=OLDER_GROUP, RuntimeId="ab12"))
    await cluster.until_phase(NAME, "Creating", message="its owner is MxJob.mxnet.mlkube.io digits")
    assert len(await cluster.all(JOBS)) == 1


async def test_two_jobs_with_the_same_runtime_id_have_a_scheduler_each(cluster: Cluster) -> None:
    await cluster.start_operator()
    for name in ("one", "two"):
        await cluster.create(distributed(name, RuntimeId="ab12"))
    for name in ("one", "two"):
        await cluster.run_replicas(name, 4)
        await cluster.until_phase(name, "Running")
        service = await cluster.client.get(SERVICES, f"{name}-scheduler-ab12-0", "default")
        wanted = service["spec"]["selector"].items()
        selected = [
            pod["metadata"]["labels"]["mxnet.mlkube.io/job-name"]
            for pod in await cluster.all(PODS)
            if wanted <= pod["metadata"]["labels"].items()
        ]
        assert selected == [name]


async def test_a_runtime_id_that_was_removed_cannot_be_set_to_another_one(
    cluster: Cluster,
) -> None:
    """While no operator runs nobody writes it back; the status still has it."""
    await cluster.start_operator()
    await cluster.create(distributed(NAME, RuntimeId="mine"))
    await cluster.until_phase(NAME, "Creating")
    await cluster.stop_operator()

    await cluster.edit(NAME, {"RuntimeId": None})
    with pytest.raises(ApiError, match=r"spec\.RuntimeId cannot be changed: delete the job"):
        await cluster.edit(NAME, {"RuntimeId": "other"})
    await cluster.edit(NAME, {"RuntimeId": "mine"})
    assert (await cluster.job(NAME))["spec"]["RuntimeId"] == "mine"


async def test_a_finished_job_never_changes_again(cluster: Cluster) -> None:
    """Whatever happens to its children, and whichever operator sees it."""
    writes: list[str] = []

    def note(method: str, path: str, agent: str) -> None:
        if agent.startswith(OPERATOR_AGENT) and method in {"POST", "PUT", "PATCH"}:
            writes.append(f"{method} {path.partition('?')[0]}")

    await cluster.start_operator()
    for pod in (await started(cluster)).values():
        await cluster.end_pod(pod, 0)
    before = await settled(cluster)

    cluster.server.faults = note
    for resource in (JOBS, PODS, SERVICES):
        for item in await cluster.all(resource):
            if item["metadata"].get("labels", {}).get("mxnet.mlkube.io/job-name") == NAME:
                # Pods may be gone with their Job.
                with contextlib.suppress(NotFoundError):
                    name = item["metadata"]["name"]
                    await cluster.client.delete(resource, name, "default", grace_period=0)
    await see_a_job_through(cluster, "second")
    assert (await cluster.job(NAME))["status"] == before["status"]
    await cluster.kill_operator()
    await cluster.start_operator()
    await see_a_job_through(cluster, "third")

    after = await cluster.job(NAME)
    assert after["status"] == before["status"]
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert not [write for write in writes if NAME in write]
    # A Job for each of the other two jobs, which are local ones.
    created = [write.rpartition("/")[2] for write in writes if write.startswith("POST")]
    assert (created.count("jobs"), created.count("services")) == (2, 0)
    left = [
        item["metadata"]["name"]
        for resource in (JOBS, PODS, SERVICES)
        for item in await cluster.all(resource)
        if item["metadata"].get("labels", {}).get("mxnet.mlkube.io/job-name") == NAME
    ]
    assert not left


async def settled(cluster: Cluster) -> dict[str, Any]:
    """Return the finished job, when its status counts no pod as active any more."""

    async def check() -> Any:
        job = await cluster.until_phase(NAME, "Done", state="Succeeded")
        active = [entry["active"] for entry in job["status"]["replicaStatuses"]]
        return job if not any(active) else None

    job: dict[str, Any] = await cluster.until(check)
    return job


async def see_a_job_through(cluster: Cluster, name: str) -> None:
    """Create another job and take it to its end: by then the operator has seen what was before."""
    await cluster.create(local(name))
    (pod,) = (await cluster.run_replicas(name, 1)).values()
    await cluster.end_pod(pod, 0)
    await cluster.until_phase(name, "Done", state="Succeeded")


async def test_a_job_deletes_everything_with_itself(cluster: Cluster) -> None:
    await cluster.start_operator()
    await started(cluster)
    await cluster.client.delete(MX_JOBS, NAME, "default")

    async def gone() -> bool:
        left = [await cluster.all(resource) for resource in (PODS, JOBS)]
        services = [
            item["metadata"]["name"]
            for item in await cluster.all(SERVICES)
            if item["metadata"]["name"] != "kubernetes"
        ]
        return not any(left) and not services

    await cluster.until(gone)


async def test_few_requests_are_made_for_a_job(cluster: Cluster) -> None:
    """Children, events, the defaults, and the status: Created, Running, Done."""
    writes: list[str] = []

    def note(method: str, path: str, agent: str) -> None:
        if method not in {"GET", "HEAD"} and agent.startswith(OPERATOR_AGENT):
            writes.append(f"{method} {path.partition('?')[0]}")

    cluster.server.faults = note
    await cluster.start_operator()
    for pod in (await started(cluster)).values():
        await cluster.end_pod(pod, 0)
    await cluster.until_phase(NAME, "Done", state="Succeeded")
    children = 5
    others = [write for write in writes if not write.endswith(("/jobs", "/services"))]
    assert len(writes) - len(others) == children, writes
    assert len([write for write in others if not write.endswith("/events")]) <= 6, others
