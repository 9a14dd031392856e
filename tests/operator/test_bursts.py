"""Many children at once: what trains goes first, statuses and events follow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from harness import OPERATOR_AGENT, PODS
from plan.elasticjob.world import elastic
from plan.mpicluster.manifests import interactive
from plan.mxjob.manifests import distributed
from traincrew.engine.controller import Request
from traincrew.engine.gate import Gate
from traincrew.engine.testing import SimulatedClock, simulate
from traincrew.local.apiserver.http.faults import AuditRecord, Fault
from traincrew.local.apiserver.values.errors import forbidden
from traincrew.operator import checks, pace
from traincrew.operator.deferral import (
    MAX_DELAY,
    MAX_STATUS_INTERVAL,
    STATUS_INTERVAL,
    STATUS_RATE,
    Deferral,
)
from traincrew.operator.observer import Observer

if TYPE_CHECKING:
    import pytest

    from harness import Cluster
    from traincrew.api.meta import CustomObject
    from traincrew.operator.jobstate import JobState
    from traincrew.plan.shared.model import Observed

NAME = "flowers"
BIG = "orchard"
SLOW = 40
"""Creates that take long: more than are sent at a time, so the others have to wait."""


class SlowPods:
    """The first creates of pods take a while; remembers what the operator has written."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begun = 0
        self.writes: list[str] = []

    def delay(self, method: str, path: str, agent: str) -> Fault | None:
        """The hook of the API server for faults."""
        if method != "POST" or "/pods" not in path or not agent.startswith(OPERATOR_AGENT):
            return None
        self.begun += 1
        return Fault(delay=self.seconds) if self.begun <= SLOW else None

    def record(self, record: AuditRecord) -> None:
        """The hook of the API server for finished requests."""
        if record.user_agent.startswith(OPERATOR_AGENT) and record.method != "GET":
            self.writes.append(f"{record.method} {record.path.partition('?')[0]}")

    def of(self, method: str, *words: str) -> list[str]:
        """Writes of a kind so far."""
        return [
            write
            for write in self.writes
            if write.startswith(method) and all(word in write for word in words)
        ]


async def begin_burst(cluster: Cluster, slow: SlowPods) -> None:
    """Create a job whose pods keep the operator busy."""
    big = elastic(SLOW, hosted=True, minReplicas=1, maxReplicas=SLOW)
    big["metadata"]["name"] = BIG
    await cluster.create(big)

    async def busy() -> bool:
        return slow.begun >= 32

    await cluster.until(busy)


async def test_statuses_and_events_follow_the_children(cluster: Cluster) -> None:
    slow = SlowPods(2.0)
    cluster.server.faults, cluster.server.audit = slow.delay, slow.record
    await cluster.start_operator()
    await begin_burst(cluster, slow)
    small = elastic(3, hosted=True)
    small["metadata"]["name"] = NAME
    await cluster.create(small)
    await cluster.run_members(NAME, 3)
    assert len(slow.of("POST", "/pods")) < SLOW + 3, "pods of the big job are still being created"
    assert slow.of("POST", "/events") == []
    assert slow.of("PATCH", NAME, "/status") == []
    assert len(slow.of("POST", "/services")) <= 2, "the Services of the other workers come last"

    job = await cluster.until_phase(NAME, "Running", workersReady="3/3")
    assert job["status"]["startTime"]
    assert len(slow.of("PATCH", NAME, "/status")) <= 2

    async def complete() -> bool:
        told = [message for _, _, message in await cluster.events_of(NAME)]
        return bool(told) and len(slow.of("POST", "/services")) == SLOW + 3

    await cluster.until(complete)


async def test_the_statuses_of_an_mpicluster_follow_and_its_keys_are_made_once(
    cluster: Cluster,
) -> None:
    slow = SlowPods(2.0)
    cluster.server.faults, cluster.server.audit = slow.delay, slow.record
    await cluster.start_operator()
    await begin_burst(cluster, slow)
    await cluster.create(interactive(workers=2))
    await cluster.run_hosts("hello", "worker-0", "worker-1")
    assert slow.of("PATCH", "hello", "/status") == []
    await cluster.run_hosts("hello", "master")
    job = await cluster.until_phase("hello", "Running", workersReady="2/2")
    assert job["status"]["sshKeySecretName"] == "hello-ssh-key"
    assert len(slow.of("PATCH", "hello", "/status")) <= 2
    assert len(slow.of("POST", "/secrets")) == 1


async def test_a_job_is_planned_now_and_then_while_many_begin(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[str] = []
    observe = Observer.observe

    def counted(self: Observer, request: Request, job: CustomObject, memory: JobState) -> Observed:
        planned.append(request.name)
        return observe(self, request, job, memory)

    monkeypatch.setattr(Observer, "observe", counted)
    slow = SlowPods(3.0)
    cluster.server.faults, cluster.server.audit = slow.delay, slow.record
    await cluster.start_operator()
    await begin_burst(cluster, slow)
    small = elastic(3, hosted=True)
    small["metadata"]["name"] = NAME
    await cluster.create(small)
    await cluster.run_members(NAME, 3)
    planned.clear()
    clock = asyncio.get_running_loop().time
    began, changes = clock(), 0
    while clock() < began + 1.0:
        changes += 1
        patch = {"status": {"reason": f"Change{changes}"}}
        pod = f"{NAME}-worker-0"
        await cluster.client.patch(PODS, pod, "default", patch=patch, subresource="status")
    passes = planned.count(NAME)
    assert passes <= 2 + (clock() - began) / pace.MAX_REST, f"{changes} changes"
    assert slow.of("PATCH", NAME, "/status") == [], "the burst has not ended"
    await cluster.until_phase(NAME, "Running", workersReady="3/3")


async def test_nobody_asks_why_pods_are_missing_while_others_are_being_created(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MISSING_SECONDS", 0.0)
    slow, writes = SlowPods(1.0), list[str]()

    def faults(method: str, path: str, agent: str) -> Fault | None:
        if method != "POST" or "/pods" not in path:
            return None
        if agent.startswith("controllers"):
            # Those of Jobs stay missing.
            return Fault(error=forbidden("pods", "", "", "no pods today"))
        return None if "dryRun" in path else slow.delay(method, path, agent)

    def record(record: AuditRecord) -> None:
        slow.record(record)
        if record.method == "POST" and "/pods" in record.path and record.user_agent != "test":
            writes.append("dry run" if "dryRun" in record.path else record.user_agent)

    cluster.server.faults, cluster.server.audit = faults, record
    await cluster.start_operator()
    await begin_burst(cluster, slow)
    await cluster.create(distributed("digits", workers=1))

    async def asked() -> bool:
        return "dry run" in writes

    await cluster.until(asked)
    before = writes[: writes.index("dry run")]
    assert "controllers" in before
    assert sum(agent.startswith(OPERATOR_AGENT) for agent in before) == SLOW


async def test_the_statuses_of_a_job_alone(cluster: Cluster) -> None:
    slow = SlowPods(0.0)
    cluster.server.audit = slow.record
    await cluster.start_operator()
    await cluster.create(elastic(3, hosted=False))
    await cluster.until_phase(NAME, "Created", reason="WaitingForWorkers")
    before = len(slow.of("PATCH", "/status"))
    assert before <= 2  # the second, if something prevents pods from starting
    await cluster.run_members(NAME, 3)
    await cluster.until_phase(NAME, "Running", workersReady="3/3")
    assert len(slow.of("PATCH", "/status")) <= before + 2  # the first one runs, and all of them


# -- the decision -----------------------------------------------------------------------------


def test_a_write_is_deferred_during_a_burst_and_for_a_limited_time() -> None:
    async def main() -> None:
        gate, enqueued = Gate(burst=0), list[Request]()
        deferral = Deferral(gate, SimulatedClock(), enqueued.append)
        one, other = Request("default", "one"), Request("default", "other")
        assert deferral.delay(one, "status") == 0
        with gate.urgent():
            assert deferral.delay(one, "status") == MAX_DELAY
            await asyncio.sleep(2)
            assert round(deferral.delay(one, "status"), 2) == MAX_DELAY - 2
            assert deferral.delay(one, "children") == MAX_DELAY, "each on its own"
            await asyncio.sleep(MAX_DELAY - 1)
            assert deferral.delay(one, "status") == 0
            assert deferral.delay(one, "status") == MAX_DELAY, "the next one waits again"
            deferral.delay(other, "status")
            deferral.forget(other, "children", "checks", "status")
            assert enqueued == []
        assert set(enqueued) == {one}, "reconciled at once when the burst has ended"
        assert deferral.delay(one, "status") == 0

    simulate(main())


def test_statuses_wait_longer_the_more_of_them_wait() -> None:
    async def main() -> None:
        deferral = Deferral(Gate(), SimulatedClock(), lambda _: None)
        jobs = [Request("default", f"job-{number}") for number in range(1_000)]

        def wait(job: Request, *, urgent: bool = False) -> float:
            return deferral.delay_status(job, urgent=urgent, patient=True)

        assert wait(jobs[0], urgent=True) == 0
        assert wait(jobs[0]) == STATUS_INTERVAL
        for job in jobs[:100]:
            wait(job)
        assert wait(jobs[0]) == 100 / STATUS_RATE
        for job in jobs:
            wait(job)
        assert wait(jobs[0]) == MAX_STATUS_INTERVAL
        assert wait(jobs[1], urgent=True) == 0
        await asyncio.sleep(MAX_STATUS_INTERVAL - 2)
        assert round(wait(jobs[0]), 2) == 2, "counted from when it began to differ"
        for job in jobs[1:]:
            deferral.status_settled(job)
        assert wait(jobs[0]) == 0

    simulate(main())
