"""What a page marks in the curves of a job whose pods are replaced."""

from __future__ import annotations

from typing import Any

from cli.builders import condition, ended, job, pod
from cli.page.test_logs import Client, until
from traincrew.cli.display.objects import Pod, decode
from traincrew.cli.jobview.attention import Attention
from traincrew.cli.page.jobfeed import JobFeed
from traincrew.cli.watching.kinds import ALL


def worker(name: str, second: int) -> Pod:
    metadata: dict[str, Any] = {"name": name, "uid": name, "namespace": "default"}
    created = f"2026-01-02T03:00:0{second}Z"
    labels = {"chainerjob.kubeflow.org/role": "workerset"}
    return decode({"metadata": {**metadata, "creationTimestamp": created, "labels": labels}}, Pod)


async def test_another_attempt_of_a_place_is_marked_once() -> None:
    served = next(one for one in ALL if one.resource.kind == "ChainerJob")
    feed = JobFeed(Client(), served, "default", "digits")  # type: ignore[arg-type]
    feed._job_changed(None, job("Running"))
    first, second = worker("digits-workerset-0", 1), worker("digits-workerset-0b", 5)
    feed._pod_changed(None, first)
    await until(lambda: len(feed.rows) == 1)
    assert feed.recorder.marks == []
    feed._pod_changed(first, None)
    feed._pod_changed(None, second)
    await until(lambda: len(feed.rows) == 2)
    (mark,) = feed.recorder.marks
    ((role, pod),) = [(row.role, row.pod) for _, row in feed.rows.values() if row.pod.attempt == 2]
    assert mark.text == f"{role} {pod.rank}: attempt 2"
    assert mark.at == 1767322805.0
    version = feed.version
    feed._job_changed(None, job("Running", message="still"))
    await until(lambda: feed.version > version)
    assert feed.recorder.marks == [mark]
    await feed.logs.stop()


async def test_a_pod_that_was_deleted_still_explains_the_failure() -> None:
    served = next(one for one in ALL if one.resource.kind == "ChainerJob")
    feed = JobFeed(Client(), served, "default", "digits")  # type: ignore[arg-type]
    feed._job_changed(None, job("Failed", conditions=[condition("Failed")]))
    failed = pod("digits-master-x", "Failed", ended(3), role="master")
    leaving = pod("digits-master-x", "Failed", ended(3), role="master", deleting=True)
    feed._pod_changed(None, failed)
    feed._pod_changed(failed, leaving)
    feed._pod_changed(leaving, None)
    await until(lambda: len(feed.rows) == 1)
    ((_, row),) = feed.rows.values()
    assert (row.pod.state, row.level) == ("deleted", Attention.EXPLAINS)
    await feed.logs.stop()


def ended_at(code: int, started: int, finished: int) -> dict[str, Any]:
    at = "2026-01-02T03:0{}:00Z"
    times = {"startedAt": at.format(started), "finishedAt": at.format(finished)}
    return {"terminated": {**times, "exitCode": code}}


def running(minute: int) -> dict[str, Any]:
    return {"running": {"startedAt": f"2026-01-02T03:0{minute}:00Z"}}


def with_runs(name: str, last: dict[str, Any], now: dict[str, Any], minute: int = 0) -> Pod:
    rank = name.rpartition("-")[2]
    labels = {"chainerjob.kubeflow.org/role": "workerset", "apps.kubernetes.io/pod-index": rank}
    created = f"2026-01-02T03:0{minute}:00Z"
    container = {"name": "chainer", "lastState": last, "state": now, "restartCount": len(last)}
    metadata = {"name": name, "uid": name, "namespace": "default", "labels": labels}
    return decode(
        {
            "metadata": {**metadata, "creationTimestamp": created},
            "spec": {"containers": [{"name": "chainer"}]},
            "status": {"phase": "Running", "containerStatuses": [container]},
        },
        Pod,
    )


async def test_what_happened_before_the_page_was_opened_is_marked() -> None:
    served = next(one for one in ALL if one.resource.kind == "ChainerJob")
    feed = JobFeed(Client(), served, "default", "digits")  # type: ignore[arg-type]
    feed._job_changed(None, job("Running"))
    before = [
        with_runs("digits-workerset-0", ended_at(3, 1, 2), running(3)),
        with_runs("digits-workerset-1", ended_at(0, 1, 4), running(5)),
        with_runs("digits-workerset-2", {}, running(6), minute=6),
    ]
    for each in before:
        feed._pod_changed(None, each)
    await until(lambda: len(feed.rows) == 3)
    marks = sorted(
        (mark.at - 1767322800, mark.text.partition(" ")[2]) for mark in feed.recorder.marks
    )
    assert [at for at, _ in marks] == [120, 300, 360]
    assert [text.partition(": ")[2] for _, text in marks[:2]] == ["exit code 3", "restart"]
    assert feed.recorder.marks[-1].text == "+1 pod"

    # What happens later is marked once, and not what was marked already.
    known = len(feed.recorder.marks)
    feed._pod_changed(
        before[1], with_runs("digits-workerset-1", ended_at(0, 1, 4), ended_at(9, 5, 7))
    )
    await until(lambda: len(feed.recorder.marks) > known)
    assert feed.recorder.marks[-1].text.endswith(": exit code 9")
    version = feed.version
    feed._job_changed(None, job("Running", message="still"))
    await until(lambda: feed.version > version)
    assert len(feed.recorder.marks) == known + 1
    await feed.logs.stop()
