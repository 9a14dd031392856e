"""ElasticJobs with the operator and the embedded API server; tests set the state of pods."""

from __future__ import annotations

import copy
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from harness import ELASTIC_JOBS, OPERATOR_AGENT, PODS, Cluster
from plan.elasticjob.world import elastic
from traincrew.api.meta import format_time
from traincrew.engine.errors import InvalidError
from traincrew.engine.resources import EVENTS, JOBS, SERVICES
from traincrew.operator.deferral import STATUS_INTERVAL

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.faults import AuditRecord

NAME = "flowers"


async def scale(cluster: Cluster, replicas: int) -> None:
    """As `kubectl scale` does."""
    await cluster.client.patch(
        ELASTIC_JOBS,
        NAME,
        "default",
        patch={"spec": {"replicas": replicas}},
        subresource="scale",
    )


async def services(cluster: Cluster) -> list[str]:
    """Names of the job's Services."""
    return sorted(
        item["metadata"]["name"]
        for item in await cluster.all(SERVICES)
        if item["metadata"].get("labels", {}).get("job-name") == NAME
    )


async def test_a_job_from_creation_to_success(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(elastic())
    await cluster.until_phase(NAME, "Created", reason="WaitingForWorkers")
    pods = await cluster.run_members(NAME, 2)
    job = await cluster.until_phase(NAME, "Running", workersReady="2/2")
    assert job["status"]["startTime"]
    assert await services(cluster) == [f"{NAME}-worker-0", f"{NAME}-worker-1"]
    for pod in pods:
        await cluster.end_pod(pod, 0)
    job = await cluster.until_phase(NAME, "Succeeded")
    assert job["status"]["replicaStatuses"]["Worker"]["succeeded"] == 2

    async def told() -> bool:
        return len(await cluster.events_of(NAME)) == 3

    await cluster.until(told)
    names = f"{NAME}-worker-0, {NAME}-worker-1"
    assert sorted(await cluster.events_of(NAME)) == sorted(
        [
            ("Normal", "SuccessfulCreateService", f"Created 2 services: {names}"),
            ("Normal", "SuccessfulCreatePod", f"Created 2 pods: {names}"),
            ("Normal", "ElasticJobSucceeded", f"ElasticJob {NAME} is successfully completed."),
        ]
    )
    sources = {
        event["source"]["component"]
        for event in await cluster.all(EVENTS)
        if event["involvedObject"]["name"] == NAME
    }
    assert sources == {"elastic-job-controller"}


async def test_kubectl_scale_out_and_in(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(elastic())
    before = {pod["metadata"]["uid"] for pod in await cluster.run_members(NAME, 2)}
    await cluster.until_phase(NAME, "Running", workersReady="2/2")
    read = await cluster.client.request(
        "GET", ELASTIC_JOBS.path("default", NAME, subresource="scale")
    )
    assert b'"replicas":2' in read.replace(b" ", b"")
    assert b"group-name=elastic.pytorch.org,job-name=flowers,replica-type=worker" in read

    await scale(cluster, 3)
    pods = await cluster.run_members(NAME, 3)
    assert before < {pod["metadata"]["uid"] for pod in pods}
    await cluster.until_phase(NAME, "Running", workersReady="3/3")
    await scale(cluster, 1)
    (left,) = await cluster.until_members(NAME, 1)
    assert left["metadata"]["name"] == f"{NAME}-worker-0"

    async def one_service() -> bool:
        return await services(cluster) == [f"{NAME}-worker-0"]

    await cluster.until(one_service)
    job = await cluster.until_phase(NAME, "Running", workersReady="1/1")
    assert job["status"]["restarts"] == 0
    with pytest.raises(InvalidError, match="at most maxReplicas"):
        await scale(cluster, 4)


async def test_a_killed_worker_is_counted_once_and_recreated(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import timedelta

    from traincrew.plan.shared.replicas import states

    monkeypatch.setattr(states, "MIN_RECREATE_AGE", timedelta(0))
    await cluster.start_operator()
    await cluster.create(elastic())
    _, second = await cluster.run_members(NAME, 2)
    await cluster.until_phase(NAME, "Running", workersReady="2/2")
    await cluster.end_pod(second, 137)
    await cluster.until_phase(NAME, "Restarting", message="exited with code 137")

    async def replaced() -> bool:
        pods = await cluster.until_members(NAME, 2)
        return bool(pods[1]["metadata"]["uid"] != second["metadata"]["uid"])

    await cluster.until(replaced)
    await cluster.run_members(NAME, 2)
    job = await cluster.until_phase(NAME, "Running", workersReady="2/2", restarts="1")
    assert job["status"]["failures"] == 1

    async def reported() -> bool:
        events = await cluster.events_of(NAME)
        return [event for event in events if event[1] == "ExitedWithCode"] == [
            ("Normal", "ExitedWithCode", f"Pod: default.{NAME}-worker-1 exited with code 137")
        ]

    await cluster.until(reported)


async def test_an_unschedulable_worker_is_given_up_and_retried(cluster: Cluster) -> None:
    await cluster.start_operator()
    fit = {"afterSeconds": 1, "retrySeconds": 1}
    await cluster.create(elastic(2, fitAvailable=fit))
    first, second = await cluster.until_members(NAME, 2)
    await cluster.run_pod(first)
    no_room = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available.",
        "lastTransitionTime": format_time(datetime.now(UTC)),
    }
    await cluster.set_pod(second["metadata"]["name"], {"conditions": [no_room]})

    async def tried_again() -> Any:
        again = await cluster.find(PODS, second["metadata"]["name"])
        return again if again and again["metadata"]["uid"] != second["metadata"]["uid"] else None

    again = await cluster.until(tried_again)
    job = await cluster.until_phase(NAME, "Running", workersReady="1/2")
    assert job["status"]["fit"]["givenUpIndexes"] == "1"
    await cluster.run_pod(again)
    job = await cluster.until_phase(NAME, "Running", workersReady="2/2")
    assert "fit" not in job["status"]
    assert job["status"]["restarts"] == 0

    async def told() -> bool:
        reasons = [reason for _, reason, _ in await cluster.events_of(NAME)]
        return {"WorkersGivenUp", "AllWorkersAskedFor"} <= set(reasons)

    await cluster.until(told)


async def test_an_expired_job_leaves_nothing(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(elastic(1, ttlSecondsAfterFinished=0))
    (pod,) = await cluster.run_members(NAME, 1)
    await cluster.end_pod(pod, 0)

    async def gone() -> bool:
        return (
            await cluster.find(ELASTIC_JOBS, NAME) is None
            and not await cluster.members(NAME)
            and not await services(cluster)
        )

    await cluster.until(gone)

    async def told() -> bool:
        return ("Normal", "SuccessfulDeleteJob", f"Deleted job: {NAME}") in (
            await cluster.events_of(NAME)
        )

    await cluster.until(told)


async def test_the_deadline_requeues_the_job(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(elastic(activeDeadlineSeconds=1, cleanPodPolicy="Running"))
    await cluster.until_phase(NAME, "Failed", reason="JobFailed", message="longer than specified")
    assert await cluster.until_members(NAME, 0) == []


async def test_a_batch_job_with_our_label_is_ignored(
    cluster: Cluster,
) -> None:
    await cluster.start_operator()
    await cluster.create(elastic(1))
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    job = {"metadata": {"name": NAME}, "spec": {"template": template}}
    await cluster.client.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **job}, "default")
    await cluster.run_members(NAME, 1)
    found = await cluster.until_phase(NAME, "Running", workersReady="1/1")

    assert found["status"]["replicaStatuses"]["Worker"]["active"] == 1
    labelled = (await cluster.client.list(PODS, "default", label_selector=f"job-name={NAME}"))[
        "items"
    ]
    assert len(labelled) == 2


async def test_the_number_of_writes_of_a_job(cluster: Cluster) -> None:
    records: list[AuditRecord] = []
    cluster.server.audit = records.append
    await cluster.start_operator()
    began = time.monotonic()
    await cluster.create(elastic(3, minReplicas=None, maxReplicas=None))
    pods = await cluster.run_members(NAME, 3)
    await cluster.until_phase(NAME, "Running", workersReady="3/3")
    for pod in pods:
        await cluster.end_pod(pod, 0)
    await cluster.until_phase(NAME, "Succeeded")

    async def told() -> bool:
        return any(reason == "ElasticJobSucceeded" for _, reason, _ in await events())

    async def events() -> list[Any]:
        return await cluster.events_of(NAME)

    await cluster.until(told)
    # A change of the status that can wait is stored at most once in so many seconds, so a slow
    # machine may store some that a fast one stores together.
    slow = int((time.monotonic() - began) / STATUS_INTERVAL)
    writes = [
        f"{record.method} {record.path.partition('?')[0]} {record.code}"
        for record in records
        if record.user_agent.startswith(OPERATOR_AGENT) and record.method != "GET"
    ]
    assert len(writes) <= 3 + 3 + 9 + slow, "\n".join(writes)


async def test_a_settled_job_causes_no_writes(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(elastic())
    await cluster.run_members(NAME, 2)
    await cluster.until_phase(NAME, "Running", workersReady="2/2")
    version = (await cluster.job(NAME))["metadata"]["resourceVersion"]
    records: list[AuditRecord] = []
    cluster.server.audit = records.append
    await cluster.kill_operator()
    await cluster.start_operator()
    other = copy.deepcopy(elastic(1))
    other["metadata"]["name"] = "other"
    await cluster.create(other)
    await cluster.run_members("other", 1)
    await cluster.until_phase("other", "Running")

    assert (await cluster.job(NAME))["metadata"]["resourceVersion"] == version
    assert not [
        record
        for record in records
        if record.method != "GET"
        and record.user_agent.startswith(OPERATOR_AGENT)
        and NAME in record.path
    ]
