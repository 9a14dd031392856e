"""Jobs that hang, with the operator and the embedded API server; tests write the output of pods."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from plan.chainerjob.world import distributed
from plan.elasticjob.world import elastic
from plan.mpicluster.manifests import one_shot
from plan.mxjob.manifests import distributed as parameter_servers
from traincrew.engine.client import Client
from traincrew.engine.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness import Cluster

pytestmark = pytest.mark.usefixtures("impatient")
NAME = "flowers"
SILENT = "No output and no status change of any pod for 2 s"


class Outputs:
    """The last lines of pods, as nodes tell them.

    Attributes:
        written: When a pod last wrote a line; missing: never.
        chatty: Pods that write all the time.
        unreadable: Pods whose node does not answer.
        read: Pods whose output was read.
    """

    def __init__(self) -> None:
        self.written: dict[str, datetime] = {}
        self.chatty: set[str] = set()
        self.unreadable: set[str] = set()
        self.read: list[str] = []

    async def logs(
        self, _client: Client, name: str, *_: Any, **wanted: Any
    ) -> AsyncIterator[bytes]:
        assert {key: wanted[key] for key in ("tail", "timestamps", "limit_bytes")} == {
            "tail": 1,
            "timestamps": True,
            "limit_bytes": 64,
        }
        self.read.append(name)
        if name in self.unreadable:
            raise BadRequestError("the kubelet does not answer")
        time = datetime.now(UTC) if name in self.chatty else self.written.get(name)
        if time is not None:
            yield f"{time:%Y-%m-%dT%H:%M:%S.%f}789Z step".encode()


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> Outputs:
    found = Outputs()

    def logs(client: Client, name: str, *rest: Any, **wanted: Any) -> AsyncIterator[bytes]:
        return found.logs(client, name, *rest, **wanted)

    monkeypatch.setattr(Client, "logs", logs)
    return found


async def running(cluster: Cluster, outputs: Outputs, **fields: Any) -> set[str]:
    """Create a job of two workers that run; return their UIDs.

    They write output until the job has been seen running, however long that takes.
    """
    wanted = outputs.chatty
    outputs.chatty = wanted or {f"{NAME}-worker-{index}" for index in range(2)}
    await cluster.start_operator()
    await cluster.create(elastic(2, progressDeadlineSeconds=2, **fields))
    pods = await cluster.run_members(NAME, 2)
    await cluster.until_phase(NAME, "Running", workersReady="2/2")
    outputs.chatty = wanted
    return {pod["metadata"]["uid"] for pod in pods}


async def other_workers(cluster: Cluster, before: set[str]) -> None:
    """Wait until both workers are others."""

    async def replaced() -> bool:
        pods = await cluster.until_members(NAME, 2)
        return len(pods) == 2 and not {pod["metadata"]["uid"] for pod in pods} & before

    await cluster.until(replaced)


async def test_workers_that_hang_are_recreated_once(cluster: Cluster, outputs: Outputs) -> None:
    before = await running(cluster, outputs)
    await cluster.until_phase(NAME, "Restarting", reason="NoProgress", message=SILENT)
    await other_workers(cluster, before)
    outputs.chatty = {f"{NAME}-worker-1"}
    await cluster.run_members(NAME, 2)
    job = await cluster.until_phase(NAME, "Running", workersReady="2/2")
    assert (job["status"]["failures"], job["status"]["restarts"]) == (1, 2)

    async def told() -> bool:
        events = await cluster.events_of(NAME)
        message = f"{SILENT}; 2 workers will be recreated"
        return ("Warning", "NoProgress", message) in events

    await cluster.until(told)


async def test_a_job_that_writes_output_goes_on(cluster: Cluster, outputs: Outputs) -> None:
    outputs.chatty = {f"{NAME}-worker-1"}
    await running(cluster, outputs)

    async def asked_again_and_again() -> bool:
        return len(outputs.read) >= 4

    await cluster.until(asked_again_and_again)
    job = await cluster.job(NAME)
    assert job["status"]["phase"] == "Running"
    assert "failures" not in job["status"]
    assert outputs.read[1:] == [f"{NAME}-worker-1"] * (len(outputs.read) - 1)


async def test_output_that_cannot_be_read_is_not_silence(
    cluster: Cluster, outputs: Outputs
) -> None:
    outputs.unreadable = {f"{NAME}-worker-1"}
    before = await running(cluster, outputs)

    async def asked_twice() -> bool:
        return outputs.read.count(f"{NAME}-worker-1") >= 2

    await cluster.until(asked_twice)
    assert (await cluster.job(NAME))["status"]["phase"] == "Running"
    outputs.unreadable = set()
    await other_workers(cluster, before)


async def test_past_the_backoff_limit_the_job_fails(cluster: Cluster, outputs: Outputs) -> None:
    await running(cluster, outputs, backoffLimit=0)
    job = await cluster.until_phase(NAME, "Failed", reason="NoProgress")
    assert job["status"]["message"] == f"{SILENT}; the backoff limit is reached"
    assert outputs.read


async def test_an_operator_killed_after_its_decision_is_stored(
    cluster: Cluster, outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete, blocked = Client.delete, asyncio.Event()

    async def no_delete(*_: Any, **__: Any) -> None:
        blocked.set()
        await asyncio.Event().wait()

    before = await running(cluster, outputs)
    with monkeypatch.context() as patch:
        patch.setattr(Client, "delete", no_delete)
        await cluster.until_phase(NAME, "Restarting", reason="NoProgress")
        async with asyncio.timeout(10):
            await blocked.wait()
        await cluster.kill_operator()
    assert Client.delete is delete
    pods = await cluster.until_members(NAME, 2)
    assert {pod["metadata"]["uid"] for pod in pods} == before
    # The launcher of the second one notices that the first one is gone before it is deleted.
    await cluster.end_pod(pods[1], 1)

    await cluster.start_operator()
    await other_workers(cluster, before)
    await cluster.run_members(NAME, 2)
    job = await cluster.until_phase(NAME, "Running", workersReady="2/2")
    assert (job["status"]["failures"], job["status"]["restarts"]) == (1, 2)


async def test_the_master_of_a_chainerjob_is_ended(cluster: Cluster, outputs: Outputs) -> None:
    await cluster.start_operator()
    await cluster.create(distributed(runPolicy={"progressDeadlineSeconds": 2}))
    await cluster.run_workers(2)
    first = await cluster.run_master()
    await cluster.until_phase("digits-mn", "Running")
    await cluster.until_phase("digits-mn", "Restarting", reason="NoProgress", message=SILENT)
    assert outputs.read[0] == first["metadata"]["name"]

    async def asked_to_end() -> bool:
        return "deletionTimestamp" in (await cluster.pods("master"))[0]["metadata"]

    await cluster.until(asked_to_end)
    await cluster.end_pod(first, 143)

    async def another() -> Any:
        pods = await cluster.until_pods("master", 1)
        return pods[0]["metadata"]["uid"] != first["metadata"]["uid"] and pods

    (master,) = await cluster.until(another)
    outputs.chatty = {master["metadata"]["name"]}
    await cluster.run_pod(master)
    job = await cluster.until_phase("digits-mn", "Running", restarts="1")
    assert job["status"]["replicaStatuses"]["master"]["restarts"] == 1


async def test_all_replicas_of_an_mxjob_are_recreated(cluster: Cluster, outputs: Outputs) -> None:
    await cluster.start_operator()
    await cluster.create(parameter_servers(NAME, runPolicy={"progressDeadlineSeconds": 2}))
    before = await cluster.run_replicas(NAME, 4)
    await cluster.until_phase(NAME, "Running", workersReady="4/4")
    job = await cluster.until_phase(NAME, "Creating", attempt="1")
    assert SILENT in job["status"]["lastRestartReason"]
    # Workers write output while they train, so one of them is asked first; all of them are.
    assert "-worker-" in outputs.read[0]
    names = {pod["metadata"]["name"] for pod in before.values()}
    assert set(outputs.read) == names

    after = await cluster.until(lambda: _others(cluster, before))
    outputs.chatty = {after["worker-1"]["metadata"]["name"]}
    await cluster.run_replicas(NAME, 4)
    await cluster.until_phase(NAME, "Running", attempt="1", failures="1", restarts="1")

    async def told() -> bool:
        events = await cluster.events_of(NAME)
        return [each[0] for each in events if SILENT in each[2]] == ["Warning"]

    await cluster.until(told)


async def _others(cluster: Cluster, before: dict[str, Any]) -> dict[str, Any] | None:
    """Return the replicas of an MxJob once none of them is one of those before."""
    replicas = await cluster.replicas(NAME)
    uids = {pod["metadata"]["uid"] for pod in before.values()}
    same = {pod["metadata"]["uid"] for pod in replicas.values()} & uids
    return replicas if set(replicas) == set(before) and not same else None


async def test_an_mxjob_fails_past_the_backoff_limit(cluster: Cluster, outputs: Outputs) -> None:
    await cluster.start_operator()
    policy = {"progressDeadlineSeconds": 2, "backoffLimit": 0}
    await cluster.create(parameter_servers(NAME, runPolicy=policy))
    await cluster.run_replicas(NAME, 4)
    job = await cluster.until_phase(NAME, "Done", state="Failed")
    assert SILENT in job["status"]["reason"]
    assert outputs.read


async def test_the_command_of_an_mpicluster_is_run_again(
    cluster: Cluster, outputs: Outputs
) -> None:
    await cluster.start_operator()
    await cluster.create(one_shot(NAME, runPolicy={"progressDeadlineSeconds": 2}))
    workers = await cluster.run_hosts(NAME, "worker-0", "worker-1")
    first = (await cluster.run_hosts(NAME, "master"))["master"]
    await cluster.until_phase(NAME, "Running", workersReady="2/2")
    await cluster.until_phase(NAME, "Restarting", reason="NoProgress", message=SILENT)
    # Output of the processes of all hosts is written by mpiexec.
    assert outputs.read[0] == f"{NAME}-master"

    outputs.chatty = {f"{NAME}-master"}

    async def another() -> bool:
        found = (await cluster.hosts(NAME)).get("master")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await cluster.until(another)
    await cluster.run_hosts(NAME, "master")
    await cluster.until_phase(NAME, "Running", failures="1", restarts="1")
    hosts = await cluster.hosts(NAME)
    for name, pod in workers.items():
        assert hosts[name]["metadata"]["uid"] == pod["metadata"]["uid"]


async def test_an_mpicluster_fails_past_the_backoff_limit(
    cluster: Cluster, outputs: Outputs
) -> None:
    await cluster.start_operator()
    policy = {"progressDeadlineSeconds": 2, "backoffLimit": 0}
    await cluster.create(one_shot(NAME, runPolicy=policy))
    await cluster.run_hosts(NAME, "worker-0", "worker-1")
    await cluster.run_hosts(NAME, "master")
    job = await cluster.until_phase(NAME, "Failed", reason="NoProgress")
    assert SILENT in job["status"]["message"]
    assert outputs.read
