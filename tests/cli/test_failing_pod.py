"""Status, `watch`, `why` and the page name the same pod as the one by which a job has failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from chainerjobs import chainer_job
from cli.anycluster import DEADLINE, Commands, commands, own_home
from cli.page.test_server import opened
from harness import MX_JOBS
from plan.elasticjob.world import elastic
from plan.mpicluster.manifests import one_shot
from plan.mxjob.manifests import distributed
from traincrew.cli.jobview.attention import Attention
from traincrew.cli.watching.target import Target
from traincrew.cli.watching.watch import watch

if TYPE_CHECKING:
    from harness import Cluster

__all__ = ["commands", "own_home"]

CODES = {"first": 3, "second": 4}
TIMES = {"first": "2026-01-01T00:00:03Z", "second": "2026-01-01T00:00:05Z"}


def failed(when: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": CODES[when], "reason": "Error", "finishedAt": TIMES[when]}}


async def fail(cluster: Cluster, pod: dict[str, Any], when: str) -> None:
    """End a pod for good."""
    container = {"name": pod["spec"]["containers"][0]["name"], "state": failed(when)}
    await cluster.set_pod(
        pod["metadata"]["name"], {"phase": "Failed", "containerStatuses": [container]}
    )


async def crash(cluster: Cluster, pod: dict[str, Any], when: str) -> None:
    """End a container that its kubelet starts again."""
    container = {
        "name": pod["spec"]["containers"][0]["name"],
        "restartCount": 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": failed(when),
    }
    await cluster.set_pod(
        pod["metadata"]["name"], {"phase": "Running", "containerStatuses": [container]}
    )


def name_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


async def check(commands: Commands, capsys: pytest.CaptureFixture[str], pod: str, other: str,
                when: str) -> None:  # fmt: skip
    """Fail unless everything names a pod of job `digits`, which failed at this time."""
    cluster = commands.cluster
    phase = "Done" if cluster.kind_of("digits") == MX_JOBS else "Failed"
    told = (await cluster.until_phase("digits", phase))["status"]["message"]
    assert pod in told
    assert other not in told.partition(pod)[0]

    capsys.readouterr()
    code = await watch(
        Target(cluster.config, "test"), "digits", "default", timeout=DEADLINE, tail=10,
        verbose=False, no_colour=True, as_json=False,
    )  # fmt: skip
    shown = capsys.readouterr().out
    assert f"\nPod {pod}, container " in shown
    assert f"\nPod {other}, container " not in shown
    assert code == CODES[when]

    explained = json.loads((await commands("why", "digits", "-o", "json")).stdout)
    assert pod in explained["text"]
    assert other not in explained["text"].partition(pod)[0]

    resource = cluster.kind_of("digits")
    async with opened(cluster) as browser:
        path = f"/jobs/{resource.kind}.{resource.group}/default/digits"
        seen = await browser.until(path, lambda seen: explains(seen) != [])
        assert explains(seen) == [pod]


def explains(seen: dict[str, Any]) -> list[str]:
    rows = seen.get("pods", {}).get("changed", ())
    return [row["pod"]["name"] for row in rows if row["level"] == Attention.EXPLAINS]


ORDERS = pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])


@ORDERS
async def test_a_worker_of_an_elasticjob(
    commands: Commands, capsys: pytest.CaptureFixture[str], order: tuple[str, str]
) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    manifest = elastic(2, "Never")
    manifest["metadata"]["name"] = "digits"
    await cluster.create(manifest)
    workers = await cluster.run_members("digits", 2)
    await cluster.until_phase("digits", "Running")
    await cluster.stop_operator()
    for pod, when in zip(workers, order, strict=True):
        await fail(cluster, pod, when)
    await cluster.start_operator()
    which = order.index("first")
    await check(commands, capsys, name_of(workers[which]), name_of(workers[1 - which]), "first")


@pytest.mark.parametrize("ends", [("worker-0", "worker-1"), ("scheduler-0", "worker-0"),
                                  ("server-0", "scheduler-0")])  # fmt: skip
@ORDERS
async def test_a_replica_of_an_mxjob(
    commands: Commands, capsys: pytest.CaptureFixture[str], order: tuple[str, str],
    ends: tuple[str, str],
) -> None:  # fmt: skip
    cluster = commands.cluster
    await cluster.start_operator()
    await cluster.create(distributed())
    replicas = await cluster.run_replicas("digits", 4)
    await cluster.until_phase("digits", "Running")
    await cluster.stop_operator()
    for replica, when in zip(ends, order, strict=True):
        await fail(cluster, replicas[replica], when)
    await cluster.start_operator()
    which = order.index("first")
    first, second = replicas[ends[which]], replicas[ends[1 - which]]
    await check(commands, capsys, name_of(first), name_of(second), "first")


@ORDERS
async def test_the_master_of_a_chainerjob(
    commands: Commands, capsys: pytest.CaptureFixture[str], order: tuple[str, str]
) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    await cluster.create(chainer_job("digits", workers=1))
    (worker,) = await cluster.until_pods("workerset", 1)
    await cluster.run_pod(worker)
    master = await cluster.run_master()
    await cluster.until_phase("digits", "Running")
    await cluster.stop_operator()
    await crash(cluster, worker, order[0])
    await fail(cluster, master, order[1])
    await cluster.start_operator()
    await check(commands, capsys, name_of(master), name_of(worker), order[1])


@ORDERS
async def test_the_master_of_an_mpicluster(
    commands: Commands, capsys: pytest.CaptureFixture[str], order: tuple[str, str]
) -> None:
    cluster = commands.cluster
    await cluster.start_operator()
    manifest = one_shot("digits", workers=1, runPolicy={"backoffLimit": 0})
    await cluster.create(manifest)
    worker = (await cluster.run_hosts("digits", "worker-0"))["worker-0"]
    master = (await cluster.run_hosts("digits", "master"))["master"]
    await cluster.until_phase("digits", "Running")
    await cluster.stop_operator()
    await crash(cluster, worker, order[0])
    await crash(cluster, master, order[1])
    await cluster.start_operator()
    await check(commands, capsys, name_of(master), name_of(worker), order[1])
