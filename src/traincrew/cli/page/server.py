"""The server of the page: static files for everybody on this machine, all else for sessions."""

from __future__ import annotations

import asyncio
import contextlib
import time
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from traincrew.cli.errors import CommandFailed
from traincrew.cli.jobview.why import explain
from traincrew.cli.page.access import Access
from traincrew.cli.page.feed import Message
from traincrew.cli.page.jobfeed import JobFeed
from traincrew.cli.page.listfeed import ListCursor, ListFeed, kind_key, served_by
from traincrew.cli.page.streams import JobCursor, send
from traincrew.cli.watching.gather import gather
from traincrew.engine.errors import ApiError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from traincrew.cli.page.feed import Cursor, Feed
    from traincrew.cli.watching.kinds import Served
    from traincrew.engine.client import Client

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

__all__ = ["PageServer"]

READ_SECONDS = 2.0
"""Seconds that may be spent at the end of a cluster to read what it still says."""
_READ_POLL_SECONDS = 0.05
MOST_STREAMS = 32
"""Streams at the same time, of all sessions together."""
MOST_FEEDS = 16
LARGEST_BODY = 4096
MOST_FOLLOWED = 8
"""Jobs that are followed although nobody looks at them, if the server is to follow jobs."""
IDLE_SECONDS = 30.0
"""How long a job is watched after the last browser has left it."""
_SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


class _Ended(msgspec.Struct, frozen=True):
    """The end of the cluster: what is said of it, and when it was (seconds since 1970)."""

    text: str
    at: float


class _EndingCursor:
    """A cursor that tells the browser of the end of the cluster as well, and before all else."""

    def __init__(self, cursor: Cursor, ended: Callable[[], _Ended | None]) -> None:
        self._cursor = cursor
        self._ended = ended
        self._told = False

    def collect(self) -> list[Message]:
        """Return what has changed since the last call."""
        ended = None if self._told else self._ended()
        self._told = self._told or ended is not None
        first = [] if ended is None else [Message("ended", ended)]
        return first + self._cursor.collect()


class PageServer:
    """Serves the page on loopback.

    Args:
        client: The API server, with the rights of the user.
        cluster: What to call the cluster.
        namespace: Only jobs of this namespace; None for all.
        opened: Called when a browser has used the address, with the next one.
        follow: Follow jobs from the start, whether or not somebody looks at them: for a cluster
            that may end before somebody does.
    """

    def __init__(
        self,
        client: Client,
        cluster: str,
        namespace: str | None = None,
        opened: Callable[[str], None] | None = None,
        follow: bool = False,
    ) -> None:
        self._follow = follow
        self._ended: _Ended | None = None
        self._client = client
        self._cluster = cluster
        self._opened = opened
        self._list = ListFeed(client, namespace)
        self._feeds: dict[tuple[str, str, str], tuple[JobFeed, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams = 0
        self._files = _static()
        self._access: Access
        self._runner: web.AppRunner
        self._watching: asyncio.Task[None]
        self.port = 0

    # -- life cycle -------------------------------------------------------------------------------

    async def start(self, port: int = 0) -> None:
        """Listen on a port of 127.0.0.1; 0 chooses a free one.

        Raises:
            OSError: The port is taken.
        """
        application = web.Application(middlewares=[self._guard], client_max_size=LARGEST_BODY)
        application.add_routes(
            [
                web.get("/", self._file),
                web.get("/static/{name:.+}", self._file),
                web.post("/session", self._session),
                web.get("/jobs", self._jobs),
                web.get("/jobs/{kind}/{namespace}/{name}", self._job),
                web.get("/jobs/{kind}/{namespace}/{name}/manifest", self._manifest),
                web.get("/jobs/{kind}/{namespace}/{name}/why", self._why),
                web.post("/jobs/{kind}/{namespace}/{name}/logs/{pod}", self._follow_log),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._access = Access(self.port)
        self._watching = self._start(self._list.run())
        if self._follow:
            self._start(self._follow_jobs())

    async def until_read(self, jobs: int) -> None:
        """Wait, for a short time, until the jobs that are followed and their logs were read.

        Args:
            jobs: How many jobs the cluster has.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                while not self._has_read(min(jobs, MOST_FOLLOWED)):  # noqa: ASYNC110 - of several feeds
                    await asyncio.sleep(_READ_POLL_SECONDS)

    def _has_read(self, jobs: int) -> bool:
        feeds = [feed for feed, _ in self._feeds.values()]
        return len(feeds) >= jobs and all(
            feed.head is not None and feed.head.job.ended_at and feed.logs.all_read
            for feed in feeds
        )

    async def cluster_ended(self, text: str) -> None:
        """Watch no more: the cluster does not exist any more. What was seen stays.

        Args:
            text: What to say of it.
        """
        self._ended = _Ended(text, time.time())
        watching = [self._watching, *(task for _, task in self._feeds.values())]
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        for feed in (self._list, *(feed for feed, _ in self._feeds.values())):
            feed.changed()

    async def stop(self) -> None:
        """End all streams and watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._runner.cleanup()

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def address(self, job: str = "") -> str:
        """Return an address that one browser can open once.

        Args:
            job: ``KIND.GROUP/NAMESPACE/NAME`` of the job to show; the list if it is empty.
        """
        token = self._access.new_token(time.monotonic())
        return f"http://127.0.0.1:{self.port}/#token={token}" + (f"&job={job}" if job else "")

    # -- requests ---------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if refusal := self._access.refusal(request.headers):
            return _problem(403, refusal)
        public = request.path in {"/", "/session"} or request.path.startswith("/static/")
        if not public and not self._access.is_session(request.headers.get("Authorization", "")):
            return _problem(401, "this session has ended: open the address that was printed last")
        try:
            response = await handler(request)
        except web.HTTPException as error:
            return _problem(error.status, error.reason)
        if not response.prepared:
            response.headers.update(_SECURITY)
        return response

    async def _file(self, request: web.Request) -> web.StreamResponse:
        content = self._files.get(request.match_info.get("name", "index.html"))
        if content is None:
            raise web.HTTPNotFound
        body, kind = content
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _session(self, request: web.Request) -> web.StreamResponse:
        try:
            token = msgspec.json.decode(await request.read(), type=dict[str, str])["token"]
        except (msgspec.MsgspecError, KeyError):
            return _problem(400, "a token is missing")
        session = self._access.exchange(token, time.monotonic())
        if session is None:
            return _problem(
                403, "this address was used already, or is too old: open the one printed last"
            )
        if self._opened is not None:
            self._opened(self.address())
        return _json({"session": session, "cluster": self._cluster})

    async def _jobs(self, request: web.Request) -> web.StreamResponse:
        return await self._stream(request, self._list, ListCursor(self._list))

    async def _job(self, request: web.Request) -> web.StreamResponse:
        feed = self._feed(request)
        return await self._stream(request, feed, JobCursor(feed))

    async def _follow_log(self, request: web.Request) -> web.StreamResponse:
        known = self._feeds.get(_key(request))
        if known is None or not known[0].logs.ask(request.match_info["pod"]):
            raise web.HTTPNotFound(reason="the job has no such pod (any more)")
        return web.Response(status=204)

    def _feed(self, request: web.Request) -> JobFeed:
        match = request.match_info
        return self._feed_of(_served(request), match["namespace"], match["name"])

    def _feed_of(self, served: Served, namespace: str, name: str) -> JobFeed:
        key = (kind_key(served), namespace, name)
        known = self._feeds.get(key)
        if known is not None and (self._ended or not known[1].done()):
            return known[0]
        if self._ended is not None:
            raise web.HTTPNotFound(reason=self._ended.text)
        if len(self._feeds) >= MOST_FEEDS:
            raise web.HTTPTooManyRequests(reason="too many jobs are shown: close a page")
        feed = JobFeed(self._client, served, namespace, name)
        self._feeds[key] = feed, self._start(self._while_used(key, feed))
        return feed

    async def _follow_jobs(self) -> None:
        """Follow the first jobs of the list, each from when it appears."""
        changed = self._list.subscribe()
        while True:
            await changed.wait()
            changed.clear()
            for key in list(self._list.rows):
                kind, namespace, name = key.split("/")
                served = served_by(kind)
                if served is not None and len(self._feeds) < MOST_FOLLOWED:
                    self._feed_of(served, namespace, name)

    async def _while_used(self, key: tuple[str, str, str], feed: JobFeed) -> None:
        work = asyncio.create_task(feed.run())
        idle = 0.0
        try:
            while idle < IDLE_SECONDS and not work.done():
                await asyncio.wait({work}, timeout=1.0)
                idle = 0.0 if feed.subscribers or self._follow else idle + 1.0
        finally:
            if self._ended is None:
                self._feeds.pop(key, None)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _stream(self, request: web.Request, feed: Feed, cursor: Cursor) -> web.StreamResponse:
        if self._streams >= MOST_STREAMS:
            raise web.HTTPTooManyRequests(reason="too many pages are open: close one")
        response = web.StreamResponse(headers={**_SECURITY, "Content-Type": "text/event-stream"})
        self._streams += 1
        try:
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):
                await send(response, feed, _EndingCursor(cursor, lambda: self._ended))
        finally:
            self._streams -= 1
        return response

    async def _manifest(self, request: web.Request) -> web.StreamResponse:
        import yaml

        served = _served(request)
        try:
            document = await self._client.get(
                served.resource, request.match_info["name"], request.match_info["namespace"]
            )
        except NotFoundError:
            return _problem(404, "the job does not exist (any more)")
        except ApiError as error:
            return _problem(502, self._ended.text if self._ended else error.message)
        document["metadata"].pop("managedFields", None)
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        return web.Response(text=text, content_type="text/plain")

    async def _why(self, request: web.Request) -> web.StreamResponse:
        resource = _served(request).resource
        word = f"{resource.plural}.{resource.group}/{request.match_info['name']}"
        try:
            found = await gather(self._client, word, request.match_info["namespace"])
        except CommandFailed as error:
            return _problem(404, error.format_message())
        return _json(explain(found.facts))


def _key(request: web.Request) -> tuple[str, str, str]:
    named = request.match_info
    return named["kind"], named["namespace"], named["name"]


def _served(request: web.Request) -> Served:
    served = served_by(request.match_info["kind"])
    if served is None:
        raise web.HTTPNotFound(reason="there is no such kind")
    return served


def _static() -> dict[str, tuple[bytes, str]]:
    """Return the files of the page by name, with their types: nothing else can be asked for."""
    found = {}
    for folder in ("", "vendor/"):
        for file in (files("traincrew.cli.page") / "static" / folder).iterdir():
            kind = _TYPES.get("." + file.name.rpartition(".")[2])
            if file.is_file() and kind is not None:
                found[folder + file.name] = (file.read_bytes(), kind)
    return found


def _json(content: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), content_type="application/json")


def _problem(status: int, text: str) -> web.Response:
    response = web.Response(
        status=status, body=msgspec.json.encode({"error": text}), content_type="application/json"
    )
    response.headers.update(_SECURITY)
    return response
