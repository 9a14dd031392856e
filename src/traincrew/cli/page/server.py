"""The server of the page: static files for everybody on this machine, all else for sessions."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from traincrew.cli.errors import CommandFailed
from traincrew.cli.jobview.why import explain
from traincrew.cli.page.access import Access
from traincrew.cli.page.comparing import MOST_COMPARED, CompareCursor, ComparedFeed
from traincrew.cli.page.feed import Message
from traincrew.cli.page.jobfeeds import JobFeeds, NotWatchedError, TooManyJobsError
from traincrew.cli.page.listfeed import ListCursor, ListFeed, served_by
from traincrew.cli.page.streams import JobCursor, send
from traincrew.cli.watching.gather import gather
from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.engine.errors import ApiError, NotFoundError
from traincrew.engine.serving.http import HttpServer
from traincrew.engine.serving.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traincrew.cli.page.feed import Cursor, Feed
    from traincrew.cli.page.jobfeed import JobFeed
    from traincrew.cli.watching.kinds import Served
    from traincrew.engine.client import Client

__all__ = ["PageServer"]

MOST_STREAMS = 32
"""Streams at the same time, of all sessions together."""
LIMITS = Limits("page", connections=128, share=1 / 16, least=0.2, body=4096)
"""Of browsers without a session."""
_SHUTDOWN_SECONDS = 1.0
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
_FIRST_MODULES = ("app.js", "list.js")
"""What the list needs, with all that they import. The page asks for the others when it can wait."""
_IMPORT = re.compile(rb'^import .* from "\./(.+)";$', re.MULTILINE)


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
        first_job: A command that creates a job on this cluster, for an empty list.
    """

    def __init__(
        self,
        client: Client,
        cluster: str,
        namespace: str | None = None,
        opened: Callable[[str], None] | None = None,
        *,
        follow: bool = False,
        first_job: str = "",
    ) -> None:
        self._follow = follow
        self._ended: _Ended | None = None
        self._client = client
        self._cluster = cluster
        self._opened = opened
        self._first_job = first_job
        self._list = ListFeed(client, namespace)
        self._feeds = JobFeeds(client, self._list, self._start, follow=follow)
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams = 0
        self._files = _static()
        self._access: Access
        self._server: HttpServer
        self._watching: asyncio.Task[None]
        self.port = 0

    # -- life cycle -------------------------------------------------------------------------------

    async def start(self, port: int = 0) -> None:
        """Listen on a port of 127.0.0.1; 0 chooses a free one.

        Raises:
            OSError: The port is taken.
        """
        server = HttpServer(LIMITS, self._guard)
        self.port = await server.listen("127.0.0.1", port)
        self._server = server
        self._access = Access(self.port)
        self._watching = self._start(self._list.run())
        if self._follow:
            self._start(self._feeds.follow_jobs())

    async def until_read(self, jobs: int) -> None:
        """Wait, for a short time, until the jobs that are followed and their logs were read.

        Args:
            jobs: How many jobs the cluster has.
        """
        await self._feeds.until_read(jobs)

    async def cluster_ended(self, text: str) -> None:
        """Watch no more: the cluster does not exist any more. What was seen stays.

        Args:
            text: What to say of it.
        """
        self._ended = _Ended(text, time.time())
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._feeds.freeze()
        self._list.changed()

    async def stop(self) -> None:
        """End all streams and watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.close(_SHUTDOWN_SECONDS)

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
        token = self._access.new_token()
        return f"http://127.0.0.1:{self.port}/#token={token}" + (f"&job={job}" if job else "")

    # -- requests ---------------------------------------------------------------------------------

    async def _guard(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            response = await self._route(request)
        except web.HTTPException as error:
            response = _problem(error.status, error.reason)
        if not response.prepared:
            response.headers.update(_SECURITY)
            if request.body_exists and not request.content.is_eof():
                response.force_close()  # what was not read of the body is no request
        return response

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        if refusal := self._access.refusal(request.headers):
            return _problem(403, refusal)
        method = "GET" if request.method == "HEAD" else request.method
        match method, request.path.split("/")[1:]:
            case "GET", [""]:
                return self._file("index.html")
            case "GET", ["static", *parts]:
                return self._file("/".join(parts))
            case "POST", ["session"]:
                return await self._session(request)
        if not self._access.is_session(request.headers.get("Authorization", "")):
            return _problem(401, "this session has ended: open the address that was printed last")
        self._server.mark_authenticated(request)
        match method, request.path.split("/")[1:]:
            case "GET", ["session"]:
                return _json(self._about())
            case "GET", ["jobs"]:
                return await self._stream(request, self._list, ListCursor(self._list))
            case "GET", ["compare"]:
                return await self._compare(request)
            case "GET", ["jobs", kind, namespace, name]:
                feed = self._feed_of(_served(kind), namespace, name)
                return await self._stream(request, feed, JobCursor(feed))
            case "GET", ["jobs", kind, namespace, name, "manifest"]:
                return await self._manifest(kind, namespace, name)
            case "GET", ["jobs", kind, namespace, name, "why"]:
                return await self._why(kind, namespace, name)
            case "GET", ["jobs", kind, namespace, name, "logs", pod, "previous"]:
                return await self._previous_log((kind, namespace, name), pod)
            case "POST", ["jobs", kind, namespace, name, "logs", pod]:
                return self._follow_log((kind, namespace, name), pod)
        raise web.HTTPNotFound

    def _file(self, name: str) -> web.StreamResponse:
        content = self._files.get(name)
        if content is None:
            raise web.HTTPNotFound
        body, kind = content
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _session(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Content-Encoding", "identity") != "identity":
            return _problem(415, "send the token without a Content-Encoding")
        try:
            token = decode_json(await request.read(), type=dict[str, str])["token"]
        except (UndecodableError, KeyError):
            return _problem(400, "a token is missing")
        session = self._access.exchange(token)
        if session is None:
            return _problem(403, "this address was used already: open the one printed last")
        if self._opened is not None:
            self._opened(self.address())
        return _json({"session": session} | self._about())

    def _about(self) -> dict[str, str]:
        """Return what every window has to know."""
        return {"cluster": self._cluster, "firstJob": self._first_job}

    def _follow_log(self, job: tuple[str, str, str], pod: str) -> web.StreamResponse:
        known = self._feeds.known(job)
        if known is None or not known.logs.ask(pod):
            raise web.HTTPNotFound(reason="the job has no such pod (any more)")
        return web.Response(status=204)

    async def _previous_log(self, job: tuple[str, str, str], pod: str) -> web.StreamResponse:
        known = self._feeds.known(job)
        try:
            return _json(await known.logs.previous(pod) if known is not None else [])
        except LookupError as error:
            raise web.HTTPNotFound(reason="no container of this pod was restarted") from error
        except ApiError as error:
            return _problem(502, self._ended.text if self._ended else error.message)

    def _feed_of(self, served: Served, namespace: str, name: str) -> JobFeed:
        try:
            return self._feeds.of(served, namespace, name)
        except NotWatchedError as error:
            raise web.HTTPNotFound(reason=self._ended.text if self._ended else "") from error
        except TooManyJobsError as error:
            raise web.HTTPTooManyRequests(reason="too many jobs are shown: close a page") from error

    async def _stream(
        self, request: web.BaseRequest, feed: Feed, cursor: Cursor
    ) -> web.StreamResponse:
        if self._streams >= MOST_STREAMS:
            raise web.HTTPTooManyRequests(reason="too many pages are open: close one")
        response = web.StreamResponse(headers={**_SECURITY, "Content-Type": "text/event-stream"})
        self._streams += 1
        try:
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):
                ending = _EndingCursor(cursor, lambda: self._ended)
                await send(response, feed, ending, lambda: request.transport is None)
        finally:
            self._streams -= 1
        return response

    async def _compare(self, request: web.BaseRequest) -> web.StreamResponse:
        keys = list(dict.fromkeys(request.query.getall("job", ())))
        named = [key.split("/") for key in keys]
        if not 1 <= len(keys) <= MOST_COMPARED or any(len(parts) != 3 for parts in named):
            return _problem(
                400, f"job: name 1 to {MOST_COMPARED} jobs, each as KIND.GROUP/NAMESPACE/NAME"
            )
        jobs = [self._feed_of(_served(kind), *rest) for kind, *rest in named]
        return await self._stream(request, ComparedFeed(jobs), CompareCursor(jobs))

    async def _manifest(self, kind: str, namespace: str, name: str) -> web.StreamResponse:
        import yaml

        served = _served(kind)
        try:
            document = await self._client.get(served.resource, name, namespace)
        except NotFoundError:
            return _problem(404, "the job does not exist (any more)")
        except ApiError as error:
            return _problem(502, self._ended.text if self._ended else error.message)
        document["metadata"].pop("managedFields", None)
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        return web.Response(text=text, content_type="text/plain")

    async def _why(self, kind: str, namespace: str, name: str) -> web.StreamResponse:
        resource = _served(kind).resource
        word = f"{resource.plural}.{resource.group}/{name}"
        try:
            found = await gather(self._client, word, namespace)
        except CommandFailed as error:
            return _problem(404, error.format_message())
        return _json(explain(found.facts))


def _served(kind: str) -> Served:
    served = served_by(kind)
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
    # A browser would find modules one level of imports after the other, and ask for each level.
    first = _imported(found, *_FIRST_MODULES)
    later = [name for name in found if name.endswith(".js") and name not in first]
    modules = [
        *(f'  <link rel="modulepreload" href="/static/{name}">' for name in first),
        *(f'  <meta name="module" content="/static/{name}">' for name in later),
    ]
    body, kind = found["index.html"]
    found["index.html"] = (
        body.replace(b"</head>", "\n".join([*modules, "</head>"]).encode()),
        kind,
    )
    return found


def _imported(files: Mapping[str, tuple[bytes, str]], *names: str) -> list[str]:
    """Return these modules, and those that they import."""
    found: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found.append(name)
            waiting += [each.decode() for each in _IMPORT.findall(files[name][0])]
    return found


def _json(content: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), content_type="application/json")


def _problem(status: int, text: str) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode({"error": text}), content_type="application/json"
    )
