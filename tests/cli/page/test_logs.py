"""The logs of a job: which are followed when there are many, and lines that come too fast."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from traincrew.cli.display.objects import Job, Pod, decode
from traincrew.cli.page import logs as page_logs
from traincrew.cli.page.jobfeed import JobFeed
from traincrew.cli.page.logs import JobLogs
from traincrew.cli.page.series import Recorder
from traincrew.cli.page.streams import JobCursor
from traincrew.cli.watching.kinds import ALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

DEADLINE = 60.0
STAMP = "2026-01-02T03:00:00.{:09}Z"


class Client:
    """An API server with logs only.

    Attributes:
        open: Names of the pods whose logs are read.
    """

    def __init__(self, lines: int = 0, texts: tuple[str, ...] = ()) -> None:
        self._texts = texts
        self.open: list[str] = []
        self._lines = lines
        self._ends: dict[str, asyncio.Event] = {}

    async def logs(
        self, name: str, *_: Any, follow: bool, previous: bool = False, **__: Any
    ) -> AsyncIterator[bytes]:
        if previous:
            yield f"{STAMP.format(1)} \x1b[31mbefore\x1b[0m\n{STAMP.format(2)} cut".encode()
            return
        self.open.append(name)
        try:
            for number in range(self._lines):
                yield f"{STAMP.format(number)} line {number}\n".encode()
            for number, text in enumerate(self._texts):
                yield f"{STAMP.format(number)} {text}\n".encode()
            if follow:
                await self._ends.setdefault(name, asyncio.Event()).wait()
        finally:
            self.open.remove(name)

    def end(self, name: str) -> None:
        self._ends.setdefault(name, asyncio.Event()).set()


def pending(name: str) -> Pod:
    return decode({"metadata": {"name": name, "uid": name, "namespace": "default"}}, Pod)


def pod(
    name: str, *, phase: str = "Running", exit_code: int | None = None, restarts: int = 0
) -> Pod:
    started = {"startedAt": "2026-01-02T03:00:00Z"}
    state = (
        {"running": started}
        if exit_code is None
        else {"terminated": {**started, "exitCode": exit_code}}
    )
    return decode(
        {
            "metadata": {"name": name, "uid": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c"}]},
            "status": {
                "phase": phase,
                "containerStatuses": [{"name": "c", "state": state, "restartCount": restarts}],
            },
        },
        Pod,
    )


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_logs, "MOST_LOGS", 2)
    monkeypatch.setattr(page_logs, "SCHEDULE_SECONDS", 0.0)


def job_logs(client: Client) -> JobLogs:
    return JobLogs(client, Recorder(), lambda: None)  # type: ignore[arg-type]


@pytest.mark.usefixtures("few")
async def test_the_first_pods_are_followed_and_the_others_counted() -> None:
    client = Client()
    logs = job_logs(client)
    for _ in range(3):  # changes of the same pods are no more logs
        for number in range(5):
            logs.update(pod(f"p{number}"), gone=False)
        await until(lambda: client.open == ["p0", "p1"])
    assert logs.unfollowed == 3

    logs.update(pod("p0", phase="Succeeded", exit_code=0), gone=False)
    client.end("p0")
    await until(lambda: client.open == ["p1", "p2"])
    await until(lambda: logs.unfollowed == 2)
    await logs.stop()


async def test_colours_are_kept_and_no_part_of_what_is_read() -> None:
    client = Client(texts=("loss=\x1b[32m0.5\x1b[0m", "\x1b[2Jx\x1b]0;title\x07y"))
    recorder = Recorder()
    logs = JobLogs(client, recorder, lambda: None)  # type: ignore[arg-type]
    logs.update(pod("p"), gone=False)
    await until(lambda: len(logs.lines) == 2)
    assert [line.text for line in logs.lines] == ["loss=\x1b[32m0.5\x1b[0m\x1b[0m", "xy"]
    assert recorder.names == [("loss", "p")]
    await logs.stop()


async def test_the_log_before_a_restart_is_read_of_containers_that_were_restarted() -> None:
    logs = job_logs(Client())
    logs.update(pod("p"), gone=False)
    for name in ("p", "other"):
        with pytest.raises(LookupError):
            await logs.previous(name)
    logs.update(pod("p", restarts=1), gone=False)
    found = await logs.previous("p")
    assert [(line.pod, line.text) for line in found] == [
        ("p", "\x1b[31mbefore\x1b[0m\x1b[0m"),
        ("p", "cut"),
    ]
    await logs.stop()


@pytest.mark.usefixtures("few")
async def test_a_pod_that_has_failed_goes_before_others() -> None:
    client = Client(lines=3)
    logs = job_logs(client)
    for number in range(3):
        logs.update(pod(f"p{number}"), gone=False)
    await until(lambda: client.open == ["p0", "p1"])
    logs.update(pod("wrong", phase="Failed", exit_code=3), gone=False)
    await until(lambda: "wrong" in {line.pod for line in logs.lines})
    # It was read to its end, and one of the others is followed again, without repeating its lines.
    await until(lambda: len(client.open) == 2)
    assert sorted(line.text for line in logs.lines if line.pod == "p0") == [
        "line 0", "line 1", "line 2",
    ]  # fmt: skip
    await logs.stop()


@pytest.mark.usefixtures("few")
async def test_a_pod_that_was_asked_for_goes_before_others() -> None:
    client = Client()
    logs = job_logs(client)
    for number in range(5):
        logs.update(pod(f"p{number}"), gone=False)
    await until(lambda: client.open == ["p0", "p1"])
    assert logs.ask("p4")
    await until(lambda: client.open == ["p0", "p4"])
    assert not logs.ask("unknown")
    await logs.stop()


@pytest.mark.usefixtures("few")
async def test_the_log_of_a_pod_that_is_gone_is_not_counted() -> None:
    client = Client()
    logs = job_logs(client)
    for number in range(3):
        logs.update(pod(f"p{number}"), gone=False)
    await until(lambda: logs.unfollowed == 1)
    logs.update(pod("p2"), gone=True)
    await until(lambda: logs.unfollowed == 0)
    await logs.stop()


async def test_lines_that_come_too_fast_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_logs, "FIRST_LINES", 100)
    monkeypatch.setattr(page_logs, "MOST_LINES_A_SECOND", 0)
    client = Client(lines=250)
    logs = job_logs(client)
    logs.update(pod("loud"), gone=False)
    # What is there at the beginning is read in any case.
    await until(lambda: (logs.read, logs.skipped) == (100, 150))
    assert logs.lines[-1].text == "line 99"
    await logs.stop()


async def test_a_browser_gets_what_is_kept_and_how_much_is_missing() -> None:
    feed = JobFeed(Client(), ALL[0], "default", "digits")  # type: ignore[arg-type]
    cursor = JobCursor(feed)
    for number in range(page_logs.MOST_LINES + 7):
        feed.logs.lines.append(page_logs.LogLine(0.0, "p", str(number)))
        feed.logs.read += 1
    feed.logs.skipped = 3
    (message,) = cursor.collect()
    assert message.event == "log"
    assert message.content["missed"] == 10
    texts = [line.text for line in message.content["lines"]]
    assert (len(texts), texts[0], texts[-1]) == (5000, "7", "5006")
    assert cursor.collect() == []


async def test_a_burst_of_pods_is_derived_once_in_an_interval() -> None:
    """Else 1,000 pods that start together would keep the server busy, once for each browser."""
    feed = JobFeed(Client(), ALL[0], "default", "digits")  # type: ignore[arg-type]
    feed._job_changed(None, decode({"metadata": {"name": "digits"}}, Job))
    for number in range(1000):
        feed._pod_changed(None, pending(f"p{number}"))
    await until(lambda: len(feed.rows) == 1000)
    assert feed.version == 1
    first, second = JobCursor(feed), JobCursor(feed)
    for cursor in (first, second):
        sent = {message.event: message.content for message in cursor.collect()}
        assert len(sent["pods"]["changed"]) == 1000

    feed._pod_changed(None, pod("p7", exit_code=1))
    await until(lambda: feed.version == 2)
    sent = {message.event: message.content for message in first.collect()}
    assert [row.pod.name for row in sent["pods"]["changed"]] == ["p7"]
    await feed.logs.stop()
