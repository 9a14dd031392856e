"""The server of the page, asked over HTTP as a browser does, beside an API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from cli.anycluster import job
from harness import Cluster
from traincrew.cli.page import jobfeeds
from traincrew.cli.page import server as page_server
from traincrew.cli.page.server import PageServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from traincrew.engine.client import Client

DEADLINE = 60.0
DIGITS = "/jobs/ChainerJob.kubeflow.org/default/digits"
COMPARED = "/compare?job=ChainerJob.kubeflow.org/default/a&job=ChainerJob.kubeflow.org/default/b"


class Browser:
    """A window of a browser with the page.

    Attributes:
        opened: Addresses that the server has printed after the first one.
    """

    def __init__(self, http: aiohttp.ClientSession, server: PageServer, opened: list[str]) -> None:
        self.http = http
        self.server = server
        self.opened = opened
        self.base = f"http://127.0.0.1:{server.port}"
        self.key = ""

    async def open(self, address: str) -> int:
        token = address.partition("#token=")[2].partition("&")[0]
        async with self.http.post(f"{self.base}/session", json={"token": token}) as answer:
            if answer.status == 200:
                self.key = (await answer.json())["session"]
            return answer.status

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.http.get(self.base + path, headers=self.headers | headers) as answer:
            return answer.status, await answer.text()

    async def until(self, path: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read a stream until the last contents of all its events are as wanted."""
        seen: dict[str, Any] = {}
        async with (
            asyncio.timeout(DEADLINE),
            self.http.get(self.base + path, headers=self.headers) as answer,
        ):
            assert answer.status == 200
            assert answer.content_type == "text/event-stream"
            event = ""
            async for line in answer.content:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    event = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    content = json.loads(text.removeprefix("data: "))
                    if event == "rows":
                        merged(seen, content)
                    else:
                        seen[event] = content
                    if wanted(seen):
                        return seen
        raise AssertionError(f"the stream ended: {seen}")


def merged(seen: dict[str, Any], content: dict[str, Any]) -> None:
    rows = seen.setdefault("rows", {})
    rows.update(content["changed"])
    for key in content["removed"]:
        rows.pop(key, None)
    seen["problems"] = content["problems"]


@contextlib.asynccontextmanager
async def opened(
    cluster: Cluster, namespace: str | None = None, *, client: Client | None = None
) -> AsyncIterator[Browser]:
    addresses: list[str] = []
    server = PageServer(client or cluster.client, "a cluster", namespace, opened=addresses.append)
    await server.start()
    try:
        async with aiohttp.ClientSession() as http:
            browser = Browser(http, server, addresses)
            assert await browser.open(server.address()) == 200
            yield browser
    finally:
        await server.stop()


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(controllers=False) as running:
        yield running


@pytest.fixture
async def operated() -> AsyncIterator[Cluster]:
    """A cluster whose controllers and operator run."""
    async with Cluster() as running:
        await running.start_operator()
        yield running


# -- access -------------------------------------------------------------------------------------


async def test_an_address_opens_one_window(cluster: Cluster) -> None:
    async with opened(cluster) as browser:
        first = browser.server.address(DIGITS.removeprefix("/jobs/"))
        assert first.endswith("&job=ChainerJob.kubeflow.org/default/digits")
        other = Browser(browser.http, browser.server, browser.opened)
        assert await other.open(first) == 200
        assert await other.open(first) == 403
        # The next address was printed when the first one was used.
        assert await other.open(browser.opened[-1]) == 200
        # A new tab has the key, and asks for the rest.
        status, text = await other.get("/session")
        assert (status, json.loads(text)) == (200, {"cluster": "a cluster", "firstJob": ""})


@pytest.mark.parametrize(
    "path",
    [
        "/session",
        "/jobs",
        DIGITS,
        f"{DIGITS}/manifest",
        f"{DIGITS}/why",
        f"{DIGITS}/logs/p/previous",
        COMPARED,
    ],
)
async def test_nothing_without_a_session(cluster: Cluster, path: str) -> None:
    async with opened(cluster) as browser:
        for header in ({"Authorization": ""}, {"Authorization": "Bearer x"}):
            status, text = await browser.get(path, **header)
            assert status == 401
            assert json.loads(text)["error"].startswith("this session has ended")


@pytest.mark.parametrize("path", ["/", "/jobs", "/static/app.js", "/session"])
@pytest.mark.parametrize(
    "header",
    [
        {"Host": "attacker.example"},
        {"Origin": "http://attacker.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
async def test_nothing_for_other_pages(cluster: Cluster, path: str, header: dict[str, str]) -> None:
    async with opened(cluster) as browser:
        status, text = await browser.get(path, **header)
        assert status == 403
        assert "error" in json.loads(text)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"{}", 400), (b'{"token": 1}', 400), (b'{"token": ""}', 403), (b"x" * 5000, 413)],
)
async def test_bodies_that_open_nothing(cluster: Cluster, body: bytes, status: int) -> None:
    async with (
        opened(cluster) as browser,
        browser.http.post(f"{browser.base}/session", data=body) as answer,
    ):
        assert answer.status == status


@pytest.mark.parametrize(
    "path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static/vendor", "/static/x.js",
             "/static//etc/passwd", "/x", "/jobs/Pod.v1/default/x", "/jobs/a/b"],
)  # fmt: skip
async def test_what_is_not_there(cluster: Cluster, path: str) -> None:
    async with opened(cluster) as browser:
        status, _ = await browser.get(path)
        assert status == 404


async def test_all_modules_are_named_in_the_page(cluster: Cluster) -> None:
    """A browser asks for all of them at once, not level by level of their imports.

    First for those of the list: nothing of them waits for a module that only diagrams need.
    """
    async with opened(cluster) as browser:
        _, page = await browser.get("/")
        first = re.findall(r'<link rel="modulepreload" href="/static/([^"]+)">', page)
        later = re.findall(r'<meta name="module" content="/static/([^"]+)">', page)
        assert {"app.js", "list.js"} <= set(first)
        assert {"job.js", "compare.js", "vendor/uPlot.esm.js"} <= set(later)
        assert not set(first) & set(later)
        for module in first + later:
            status, text = await browser.get(f"/static/{module}")
            assert status == 200
            folder = module.rpartition("/")[0]
            for imported in re.findall(r'from "\./([^"]+)"', text):
                known = first if module in first else first + later
                assert f"{folder}/{imported}".lstrip("/") in known


async def test_every_answer_has_a_strict_policy(cluster: Cluster) -> None:
    async with opened(cluster) as browser:
        for path in ("/", "/static/app.js", "/jobs", "/x"):
            async with browser.http.get(browser.base + path, headers=browser.headers) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert "Set-Cookie" not in answer.headers


async def test_streams_are_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "MOST_STREAMS", 2)
    async with opened(cluster) as browser, contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(
                browser.http.get(f"{browser.base}/jobs", headers=browser.headers)
            )
        status, text = await browser.get("/jobs")
        assert status == 429
        assert "too many pages" in text


async def test_a_page_that_was_left_is_no_stream(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although nothing is sent to it that would fail."""
    monkeypatch.setattr(page_server, "MOST_STREAMS", 1)
    async with opened(cluster) as browser:
        for _ in range(3):
            async with (
                asyncio.timeout(5),
                await until_open(browser) as answer,
            ):
                assert answer.status == 200


async def until_open(browser: Browser) -> aiohttp.ClientResponse:
    """Ask for the list until it is given."""
    while True:
        answer = await browser.http.get(f"{browser.base}/jobs", headers=browser.headers)
        if answer.status != 429:
            return answer
        answer.close()
        await asyncio.sleep(0.05)


# -- the list -----------------------------------------------------------------------------------


def phase_of(seen: dict[str, Any], key: str) -> str | None:
    row = seen.get("rows", {}).get(key)
    return None if row is None else row["job"]["phase"]


async def test_jobs_appear_change_and_go(operated: Cluster) -> None:
    key = "ChainerJob.kubeflow.org/default/digits"
    async with opened(operated) as browser:
        assert (await browser.until("/jobs", lambda seen: "rows" in seen))["rows"] == {}
        await operated.create(job("digits"))
        seen = await browser.until("/jobs", lambda seen: phase_of(seen, key) == "Created")
        assert seen["rows"][key]["job"]["desired"] == 1
        assert seen["rows"][key]["pods"] == {"ready": 0, "failed": 0, "finished": 0, "waiting": 1}
        assert seen["problems"] == []
        shown = asyncio.Event()

        def is_gone(seen: dict[str, Any]) -> bool:
            row = seen.get("rows", {}).get(key)
            if row is not None:
                shown.set()
            return row is not None and row["deletedAt"] is not None

        watching = asyncio.create_task(browser.until("/jobs", is_gone))
        await asyncio.wait_for(shown.wait(), DEADLINE)
        await operated.client.delete(operated.kind_of("digits"), "digits", "default")
        await watching


async def test_another_namespace_is_not_shown(cluster: Cluster) -> None:
    await cluster.create(job("digits"))
    async with opened(cluster, namespace="other") as browser:
        assert (await browser.until("/jobs", lambda seen: "rows" in seen))["rows"] == {}


# -- a job --------------------------------------------------------------------------------------


async def test_a_job_with_its_pods_and_events(operated: Cluster) -> None:
    await operated.create(job("digits", workers=2))
    async with opened(operated) as browser:
        seen = await browser.until(
            DIGITS, lambda seen: len(seen.get("pods", {}).get("changed", ())) == 2
        )
        roles = {role["name"]: role["desired"] for role in seen["job"]["roles"]}
        assert roles == {"master": 1, "ws0": 2}
        assert sorted(row["pod"]["rank"] for row in seen["pods"]["changed"]) == [0, 1]
        (life, _) = [row["life"] for row in seen["pods"]["changed"]]
        assert life["createdAt"]
        status, text = await browser.get(f"{DIGITS}/manifest")
        assert status == 200
        assert "kind: ChainerJob" in text
        assert "managedFields" not in text
        seen = await browser.until(DIGITS, lambda seen: bool(seen.get("events")))
        assert {event["kind"] for event in seen["events"]} <= {"Normal", "Warning"}


async def test_a_job_that_does_not_exist(cluster: Cluster) -> None:
    async with opened(cluster) as browser:
        seen = await browser.until(DIGITS, lambda seen: "absent" in seen)
        assert seen["absent"] == {"problems": []}
        status, text = await browser.get(f"{DIGITS}/manifest")
        assert (status, json.loads(text)) == (
            404,
            {"error": "the job does not exist (any more)"},
        )


async def test_reported_progress_is_shown_and_drawn(cluster: Cluster) -> None:
    await cluster.create(job("digits"))
    report = {
        "percentage": 40,
        "metrics": [{"name": "loss", "value": "0.5"}, {"name": "odd", "value": "nan"}],
        "lastUpdateTime": "2026-01-02T03:04:05Z",
    }
    await cluster.client.patch(
        cluster.kind_of("digits"), "digits", "default",
        patch={"status": {"progress": report}}, subresource="status",
    )  # fmt: skip
    async with opened(cluster) as browser:
        seen = await browser.until(DIGITS, lambda seen: "series" in seen and "job" in seen)
        assert seen["job"]["progress"]["percentage"] == 40
        assert seen["job"]["progress"]["metrics"] == {"loss": "0.5", "odd": "nan"}
        assert seen["series"]["names"] == [["loss", "reported"]]
        assert [value for _, _, value in seen["series"]["points"]] == [0.5]


async def test_why_a_job_waits(operated: Cluster) -> None:
    await operated.create(job("digits"))
    await operated.until_phase("digits", "Created")
    async with opened(operated) as browser:
        status, text = await browser.get(f"{DIGITS}/why")
        assert status == 200
        assert {"cause", "text", "evidence", "fix"} <= set(json.loads(text))
        status, text = await browser.get("/jobs/ChainerJob.kubeflow.org/default/other/why")
        assert status == 404
        assert "there is no ChainerJob 'other'" in json.loads(text)["error"]


async def test_a_job_that_is_scaled_is_marked(cluster: Cluster) -> None:
    await cluster.create(job("digits", workers=2))
    async with opened(cluster) as browser:
        watching = asyncio.create_task(browser.until(DIGITS, lambda seen: "marks" in seen))
        await browser.until(DIGITS, lambda seen: "job" in seen)
        await cluster.edit("digits", {"workerSets": {"ws0": {"replicas": 4}}})
        marks = (await watching)["marks"]
        assert marks[0][1] == "3 → 5 pods"


async def test_what_was_seen_of_a_deleted_job_stays(
    operated: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobfeeds, "IDLE_SECONDS", 0.5)
    key = DIGITS.removeprefix("/jobs/")
    await operated.create(job("digits", workers=1))
    async with opened(operated) as browser:
        await browser.until(DIGITS, lambda seen: seen.get("pods", {}).get("changed"))
        # Nobody looks at it while it is deleted; the list says that it was.
        await operated.client.delete(operated.kind_of("digits"), "digits", "default")

        def is_deleted(seen: dict[str, Any]) -> bool:
            row = seen.get("rows", {}).get(key)
            return row is not None and row["deletedAt"] is not None

        await browser.until("/jobs", is_deleted)
        # The list may have heard of it before the watch of the job has.
        seen = await browser.until(DIGITS, lambda seen: seen.get("job", {}).get("exists") is False)
        assert seen["job"]["job"]["name"] == "digits"
        # A new job of the same name is another one.
        await operated.create(job("digits"))
        await browser.until(
            DIGITS,
            lambda seen: seen.get("job", {}).get("exists") and not seen["job"]["job"]["restarts"],
        )
