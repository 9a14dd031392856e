"""The operator against the embedded API server and its controllers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from harness import OPERATOR_AGENT, STATEFUL_SETS, Cluster
from plan.chainerjob.world import distributed, plain
from plan.elasticjob.world import elastic
from traincrew.engine.resources import RESOURCE_QUOTAS
from traincrew.operator import checks
from traincrew.operator.deferral import STATUS_INTERVAL

if TYPE_CHECKING:
    import pytest

    from traincrew.local.apiserver.http.faults import AuditRecord


async def test_a_distributed_job_from_creation_to_success(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.until_phase("digits-mn", "Created", message="0/2 workers ready")
    await cluster.run_workers(2)
    master = await cluster.run_master()
    await cluster.until_phase("digits-mn", "Running", workersReady="2/2")
    await cluster.end_pod(master, 0)
    job = await cluster.until_phase("digits-mn", "Succeeded", workersReady="0/0")

    assert job["status"]["succeeded"] == 1
    assert await cluster.pods("workerset") == []
    workers = await cluster.find(STATEFUL_SETS, "digits-mn-workerset-ws0")
    assert workers is not None
    assert workers["spec"]["replicas"] == 0

    async def told() -> bool:  # later than the status: events wait while children are created
        synced = ("Normal", "Synced", "ChainerJob synced successfully")
        return synced in await cluster.events_of("digits-mn")

    await cluster.until(told)


async def test_the_number_of_writes_of_a_job(cluster: Cluster) -> None:
    records: list[AuditRecord] = []
    cluster.server.audit = records.append
    await cluster.start_operator()
    began = time.monotonic()
    await cluster.create(distributed())
    await cluster.run_workers(2)
    master = await cluster.run_master()
    await cluster.until_phase("digits-mn", "Running")
    await cluster.end_pod(master, 0)
    await cluster.until_phase("digits-mn", "Succeeded", workersReady="0/0")

    # A change of the status that can wait is stored at most once in so many seconds, so a slow
    # machine may store some that a fast one stores together.
    slow = int((time.monotonic() - began) / STATUS_INTERVAL)
    writes = [
        f"{record.method} {record.path.partition('?')[0]} {record.code}"
        for record in records
        if record.user_agent.startswith(OPERATOR_AGENT) and record.method != "GET"
    ]
    # The Role is written three times, however many workers there are: without pods, with all of
    # them, and without again.
    assert sum("/roles/" in each or each.endswith("/roles 201") for each in writes) == 3
    assert len(writes) <= 6 + 8 + slow, "\n".join(writes)


async def test_a_plain_job_fails(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(plain(runPolicy={"backoffLimit": 0}))
    master = await cluster.run_master()
    await cluster.until_phase("digits", "Running")
    await cluster.end_pod(master, 3)
    job = await cluster.until_phase("digits", "Failed", reason="BackoffLimitExceeded")

    assert "container chainer exited with code 3" in job["status"]["message"]


async def test_a_settled_job_causes_no_writes(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.run_workers(2)
    await cluster.run_master()
    await cluster.until_phase("digits-mn", "Running", workersReady="2/2", ready="1")
    version = (await cluster.job("digits-mn"))["metadata"]["resourceVersion"]
    records: list[AuditRecord] = []
    cluster.server.audit = records.append

    await cluster.kill_operator()
    await cluster.start_operator()
    await cluster.create(plain())
    await cluster.run_master_of("digits")
    await cluster.until_phase("digits", "Running")

    assert (await cluster.job("digits-mn"))["metadata"]["resourceVersion"] == version
    assert not [
        record
        for record in records
        if record.method != "GET"
        and record.user_agent.startswith(OPERATOR_AGENT)
        and "digits-mn" in record.path
    ]


async def limit_pods(cluster: Cluster, count: int) -> None:
    """A quota whose usage is known."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": "default"},
        "spec": {"hard": {"pods": str(count)}},
    }
    await cluster.client.apply(RESOURCE_QUOTAS, quota, field_manager="test")

    async def counted() -> bool:
        found = await cluster.find(RESOURCE_QUOTAS, "team")
        assert found is not None
        return bool((found["status"].get("hard") or {}).get("pods") == str(count))

    await cluster.until(counted)


async def test_a_quota_that_refuses_pods_is_named_in_the_status(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MISSING_SECONDS", 0.0)
    monkeypatch.setattr(checks, "CHECK_SECONDS", 0.1)
    await cluster.start_operator()
    await limit_pods(cluster, 1)
    await cluster.create(distributed())
    await cluster.until_phase(
        "digits-mn",
        "Created",
        message=(
            "0/2 workers ready; digits-mn-workerset-ws0-1: exceeded quota: team, "
            "requested: pods=1, used: pods=1, limited: pods=1"
        ),
    )
    await limit_pods(cluster, 2)
    await cluster.run_workers(2)
    await cluster.until_phase(
        "digits-mn",
        "Created",
        message=(
            "The master is not running: exceeded quota: team, requested: pods=1, used: pods=2, "
            "limited: pods=2"
        ),
    )
    await limit_pods(cluster, 3)
    await cluster.run_master()
    await cluster.until_phase("digits-mn", "Running", workersReady="2/2")


async def test_a_quota_that_refuses_workers_of_an_elastic_job(cluster: Cluster) -> None:
    await cluster.start_operator()
    await limit_pods(cluster, 1)
    await cluster.create(elastic())
    await cluster.until_phase("flowers", "Created")

    async def named() -> bool:
        conditions = (await cluster.job("flowers"))["status"]["conditions"]
        return any("exceeded quota: team" in condition["message"] for condition in conditions)

    await cluster.until(named)
