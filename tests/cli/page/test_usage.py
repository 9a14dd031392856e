"""What pods use: measured while somebody looks, bounded, and said once where it is not measured."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from cli.anycluster import job
from cli.page.test_server import DEADLINE, DIGITS, opened
from harness import Cluster
from traincrew.cli.page import usage
from traincrew.cli.page.usage import (
    MOST_TIMES,
    NOT_MEASURED,
    NOT_SERVED,
    UsageCursor,
    UsageMeter,
    UsageRecorder,
)
from traincrew.cli.watching.jobwatch import Scope
from traincrew.cli.watching.podmetrics import Amounts
from traincrew.engine.errors import ForbiddenError
from traincrew.engine.resources import PODS
from traincrew.local.apiserver.http.node_backend import ContainerUsage, PodUsage, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    for name in ("INTERVAL_SECONDS", "STARTING_SECONDS", "REFUSED_SECONDS"):
        monkeypatch.setattr(usage, name, 0.05)
    async with Cluster(controllers=False) as running:
        yield running


class Meter:
    """A node that measures, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.pods: dict[str, PodUsage] = {}

    async def usage(self) -> Usage:
        self.asked += 1
        return Usage(1_800_000_000.0 + self.asked, 15.0, self.pods)


async def a_job_that_runs(cluster: Cluster, **resources: Any) -> str:
    """Create a job with a running master; return the pod's UID."""
    await cluster.create(job("digits"))
    labels = {"chainerjob.kubeflow.org/name": "digits", "chainerjob.kubeflow.org/role": "master"}
    container = {"name": "chainer", "image": "python", "resources": resources}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "digits-master-0", "labels": labels},
        "spec": {"containers": [container], "schedulerName": "none"},
    }
    created = await cluster.client.create(PODS, pod, "default")
    await cluster.set_pod("digits-master-0", {"phase": "Running"})
    uid: str = created["metadata"]["uid"]
    return uid


async def test_what_pods_use_is_measured_while_somebody_looks(cluster: Cluster) -> None:
    uid = await a_job_that_runs(cluster, limits={"cpu": "2", "memory": "4Gi"})
    meter = Meter()
    meter.pods = {uid: PodUsage(15.0, {"chainer": ContainerUsage(1.9, 1258291 * 1024)})}
    cluster.server.node = meter  # type: ignore[assignment]
    async with opened(cluster) as browser:
        await browser.until("/jobs", lambda seen: bool(seen.get("rows")))
        assert meter.asked == 0  # nobody looks at the job

        seen = await browser.until(
            DIGITS, lambda seen: bool(seen.get("usage", {}).get("limits")) and "used" in seen
        )
        assert seen["usage"]["pods"][uid][0][0] == 1900
        assert seen["usage"]["pods"][uid][1][0] == 1258291
        assert seen["usage"]["limits"] == {uid: [2000, 4 * 1024**2]}
        assert seen["used"]["latest"] == {uid: [1900, 1258291]}
        assert seen["usage"]["problem"] == ""

        # A window that is opened later gets all of it at once.
        seen = await browser.until(DIGITS, lambda seen: "usage" in seen)
        assert len(seen["usage"]["times"]) >= 2

        # The pod ends: nothing is used any more, and what was measured stays.
        await cluster.set_pod("digits-master-0", {"phase": "Succeeded"})
        seen = await browser.until(
            DIGITS, lambda seen: not seen.get("usage", {"latest": 1})["latest"]
        )
        assert seen["usage"]["pods"][uid][0][0] == 1900


async def test_nobody_looks_any_more(cluster: Cluster) -> None:
    uid = await a_job_that_runs(cluster)
    meter = Meter()
    meter.pods = {uid: PodUsage(15.0, {"chainer": ContainerUsage(0.5, 1024)})}
    cluster.server.node = meter  # type: ignore[assignment]
    async with opened(cluster) as browser:
        await browser.until(DIGITS, lambda seen: "used" in seen)
        feed = browser.server._feeds.known(("ChainerJob.kubeflow.org", "default", "digits"))
        assert feed is not None
        async with asyncio.timeout(DEADLINE):
            while feed.subscribers or feed.usage._wake.is_set():
                await asyncio.sleep(0.01)
        before = meter.asked
        await browser.until("/jobs", lambda seen: bool(seen.get("rows")))
        assert meter.asked == before


async def test_a_cluster_that_measures_nothing_says_so_once(cluster: Cluster) -> None:
    await a_job_that_runs(cluster)
    async with opened(cluster) as browser:
        seen = await browser.until(DIGITS, lambda seen: "usage" in seen)
        assert seen["usage"]["problem"] == NOT_SERVED
        assert seen["job"]["problems"] == []
        meter = Meter()
        cluster.server.node = meter  # type: ignore[assignment]
        await browser.until(DIGITS, lambda seen: seen.get("usage", {}).get("problem") == "")


class Refusing:
    """An API server that refuses to say what pods use."""

    async def request(self, *_: Any, **__: Any) -> bytes:
        raise ForbiddenError('User "eve" cannot list resource "pods" in API group "metrics.k8s.io"')


async def test_a_missing_right_is_named() -> None:
    meter = UsageMeter(
        Refusing(),  # type: ignore[arg-type]
        Scope("team", labels="app=x"),
        lambda: {"pod": "uid"},
        lambda: True,
        lambda: None,
    )
    assert await meter._measure() == usage.REFUSED_SECONDS
    assert meter.recorder.problem == (
        "CPU and memory are not shown: the right to list pods.metrics.k8s.io in namespace team is"
        " missing for eve; to check: kubectl auth can-i list pods.metrics.k8s.io -n team"
    )


# -- what is kept -------------------------------------------------------------------------------


def recorded(pods: int, count: int) -> UsageRecorder:
    recorder = UsageRecorder()
    for time in range(count):
        recorder.add(time, {f"pod-{pod}": Amounts(time, 2 * time) for pod in range(pods)})
    return recorder


def test_a_long_training_is_thinned_and_stays_whole() -> None:
    recorder = recorded(1, 1000)
    assert len(recorder.times) <= MOST_TIMES
    assert recorder.times[0] == 0
    assert recorder.times[-1] >= 950
    gaps = {b - a for a, b in zip(recorder.times, recorder.times[1:], strict=False)}
    assert len(gaps) <= 2  # the same distance everywhere, but at the place of the last thinning
    cpu, memory = recorder.pods["pod-0"]
    assert list(cpu) == recorder.times
    assert list(memory) == [2 * time for time in recorder.times]
    assert recorder.latest == {"pod-0": Amounts(999, 1998)}


def test_a_thousand_pods_are_a_few_megabytes() -> None:
    recorder = recorded(1000, 200)
    size = sum(curve.itemsize * len(curve) for pair in recorder.pods.values() for curve in pair)
    assert size <= 2 * 8 * 1000 * MOST_TIMES


def test_a_pod_that_comes_later_or_goes_has_gaps() -> None:
    recorder = UsageRecorder()
    recorder.add(1, {"a": Amounts(1, 1)})
    recorder.add(2, {"a": Amounts(2, 2), "b": Amounts(5, 5)})
    recorder.add(3, {"b": Amounts(6, 6)})
    assert list(recorder.pods["a"][0]) == [1, 2, NOT_MEASURED]
    assert list(recorder.pods["b"][0]) == [NOT_MEASURED, 5, 6]
    recorder.forget("a")
    assert set(recorder.pods) == {"b"}


def test_a_browser_gets_all_at_first_then_what_is_new() -> None:
    recorder = recorded(2, 3)
    cursor = UsageCursor(recorder)
    (message,) = cursor.collect()
    assert message.event == "usage"
    assert message.content.pods["pod-1"] == ([0, 1, 2], [0, 2, 4])
    assert cursor.collect() == []
    recorder.add(3, {"pod-0": Amounts(7, 8)})
    (message,) = cursor.collect()
    assert (message.event, message.content.at, message.content.kept) == ("used", 3, True)
    # One that is slow, and one whose points were thinned, get all again.
    for time in (4, 5):
        recorder.add(time, {"pod-0": Amounts(7, 8)})
    assert [message.event for message in cursor.collect()] == ["usage"]
    for time in range(6, MOST_TIMES + 1):
        recorder.add(time, {"pod-0": Amounts(7, 8)})
        events = [message.event for message in cursor.collect()]
    assert events == ["usage"]
