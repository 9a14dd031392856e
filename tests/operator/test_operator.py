"""The operator against the embedded API server and its controllers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from harness import OPERATOR_AGENT, STATEFUL_SETS, Cluster
from plan.world import distributed, plain
from traincrew.operator.reconciler import STATUS_INTERVAL

if TYPE_CHECKING:
    from traincrew.local.apiserver.faults import AuditRecord


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
    assert (await cluster.find(STATEFUL_SETS, "digits-mn-workerset-ws0"))["spec"]["replicas"] == 0
    assert ("Normal", "Synced", "ChainerJob synced successfully") in (
        await cluster.events_of("digits-mn")
    )


async def test_how_many_writes_a_job_costs(cluster: Cluster) -> None:
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
    assert len(writes) <= 6 + 6 + slow, "\n".join(writes)


async def test_a_plain_job_fails(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(plain(runPolicy={"backoffLimit": 0}))
    master = await cluster.run_master()
    await cluster.until_phase("digits", "Running")
    await cluster.end_pod(master, 3)
    job = await cluster.until_phase("digits", "Failed", reason="BackoffLimitExceeded")

    assert "container chainer exited with code 3" in job["status"]["message"]


async def test_a_settled_job_costs_nothing(cluster: Cluster) -> None:
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
