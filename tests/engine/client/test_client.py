"""The client: paths and bodies of the verbs, retries, and messages of errors."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from traincrew.engine.client import Client, HttpRequest, HttpResponse
from traincrew.engine.config import ClientConfig
from traincrew.engine.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from traincrew.engine.observability import Metrics
from traincrew.engine.resources import JOBS, NODES, PODS
from traincrew.engine.testing import FakeServer, simulate


class Recorder:
    """A transport that answers from a list and records the requests."""

    def __init__(self, *answers: HttpResponse | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[HttpRequest] = []

    async def request(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else ok({})
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, _: HttpRequest) -> AsyncIterator[Any]:
        yield None

    def cut(self) -> None:
        pass

    async def close(self) -> None:
        pass


def ok(obj: Any, status: int = 200, **headers: str) -> HttpResponse:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(status, names, json.dumps(obj).encode())


def client_of(recorder: Recorder, server: str = "https://example:6443/") -> Client:
    return Client(ClientConfig(server, namespace="mine"), transport=recorder)


POD = {"metadata": {"name": "p", "namespace": "team"}}
CALLS: list[tuple[Callable[[Client], Any], str, str]] = [
    (lambda c: c.get(PODS, "p"), "GET", "/api/v1/namespaces/mine/pods/p"),
    (lambda c: c.get(JOBS, "j", "team"), "GET", "/apis/batch/v1/namespaces/team/jobs/j"),
    (
        lambda c: c.get(JOBS, "j", "team", subresource="status"),
        "GET",
        "/apis/batch/v1/namespaces/team/jobs/j/status",
    ),
    (lambda c: c.get(NODES, "n"), "GET", "/api/v1/nodes/n"),
    (lambda c: c.list(PODS), "GET", "/api/v1/pods?limit=500"),
    (
        lambda c: c.list(PODS, "team", label_selector="a in (b,c)", field_selector="x=y", limit=7),
        "GET",
        "/api/v1/namespaces/team/pods?labelSelector=a+in+%28b%2Cc%29&fieldSelector=x%3Dy&limit=7",
    ),
    (lambda c: c.create(PODS, dict(POD)), "POST", "/api/v1/namespaces/team/pods"),
    (lambda c: c.create(PODS, {"metadata": {}}), "POST", "/api/v1/namespaces/mine/pods"),
    (
        lambda c: c.create(PODS, {}, "team", name="p", subresource="binding", field_manager="s"),
        "POST",
        "/api/v1/namespaces/team/pods/p/binding?fieldManager=s",
    ),
    (
        lambda c: c.create(PODS, dict(POD), dry_run=True),
        "POST",
        "/api/v1/namespaces/team/pods?dryRun=All",
    ),
    (
        lambda c: c.apply(PODS, dict(POD), field_manager="m"),
        "PATCH",
        "/api/v1/namespaces/team/pods/p?fieldManager=m&force=true",
    ),
    (
        lambda c: c.apply(PODS, dict(POD), field_manager="m", force=False, subresource="status"),
        "PATCH",
        "/api/v1/namespaces/team/pods/p/status?fieldManager=m&force=false",
    ),
    (
        lambda c: c.patch(PODS, "p", "team", patch={}, kind="json"),
        "PATCH",
        "/api/v1/namespaces/team/pods/p",
    ),
    (
        lambda c: c.replace(PODS, dict(POD), subresource="status"),
        "PUT",
        "/api/v1/namespaces/team/pods/p/status",
    ),
    (lambda c: c.delete(PODS, "a/b", "team"), "DELETE", "/api/v1/namespaces/team/pods/a%2Fb"),
    (lambda c: c.server_version(), "GET", "/version"),
]


@pytest.mark.parametrize(("call", "method", "path"), CALLS)
@pytest.mark.parametrize("prefix", ["", "/SECRET"])
async def test_verbs_use_the_right_method_and_path(
    call: Callable[[Client], Any], method: str, path: str, prefix: str
) -> None:
    recorder = Recorder()
    await call(client_of(recorder, f"https://example:6443{prefix}/"))

    (request,) = recorder.requests
    assert (request.method, request.url) == (method, f"https://example:6443{prefix}{path}")
    assert request.headers["Accept-Encoding"] == "identity"
    assert request.headers["User-Agent"] == "traincrew"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("merge", "application/merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
    ],
)
async def test_patches_have_the_content_type_of_their_kind(kind: Any, expected: str) -> None:
    recorder = Recorder()
    await client_of(recorder).patch(PODS, "p", patch={"a": 1}, kind=kind)

    assert recorder.requests[0].headers["Content-Type"] == expected
    assert recorder.requests[0].body == b'{"a":1}'


async def test_apply_is_sent_as_an_apply_patch() -> None:
    recorder = Recorder()
    await client_of(recorder).apply(PODS, dict(POD), field_manager="m")

    assert recorder.requests[0].headers["Content-Type"] == "application/apply-patch+yaml"


async def test_delete_options() -> None:
    recorder = Recorder()
    await client_of(recorder).delete(
        PODS, "p", propagation="Foreground", grace_period=0, uid="u", resource_version="7"
    )

    assert json.loads(recorder.requests[0].body or b"") == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u", "resourceVersion": "7"},
    }


async def test_an_object_without_a_name_raises_an_error() -> None:
    with pytest.raises(ValueError, match=r"metadata\.name is missing in Pod"):
        await client_of(Recorder()).apply(PODS, {"kind": "Pod"}, field_manager="m")
    with pytest.raises(ValueError, match="subresource 'log' of pods needs an object name"):
        PODS.path("team", None, "log")


async def test_lists_follow_pages_and_restart_when_the_token_expires() -> None:
    recorder = Recorder(
        ok({"metadata": {"continue": "t1"}, "items": [1]}),
        ok({"metadata": {"continue": "t2"}, "items": [2]}),
        ok({"reason": "Expired"}, 410),
        ok({"metadata": {"resourceVersion": "9"}, "items": [1, 2, 3]}),
    )
    whole = await client_of(recorder).list(PODS)

    assert whole == {"metadata": {"resourceVersion": "9"}, "items": [1, 2, 3]}
    assert "continue=t2" in recorder.requests[2].url
    assert "limit" not in recorder.requests[3].url


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequestError),
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (409, "Conflict", ConflictError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "", ConflictError),
        (410, "Expired", GoneError),
        (410, "Gone", GoneError),
        (415, "UnsupportedMediaType", ApiError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", TooManyRequestsError),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerError),
    ],
)
async def test_errors_contain_the_servers_message(
    code: int, reason: str, kind: type[ApiError]
) -> None:
    status = {"kind": "Status", "message": "because", "reason": reason, "details": {"name": "p"}}
    with pytest.raises(ApiError) as caught:
        await client_of(Recorder(ok(status, code))).get(PODS, "p")

    assert type(caught.value) is kind
    assert caught.value.code == code
    assert caught.value.message == "because"
    assert caught.value.details == {"name": "p"}
    assert str(caught.value).startswith("because (")


async def test_an_error_without_a_status_shows_the_body() -> None:
    html = HttpResponse(502, {}, b"<html>Bad gateway</html>")
    with pytest.raises(ServerError, match="Bad gateway"):
        await client_of(Recorder(html)).get(PODS, "p")
    with pytest.raises(ServerError, match="status 500"):
        await client_of(Recorder(HttpResponse(500, {}, b""))).get(PODS, "p")
    with pytest.raises(ApiError, match="list instead of an object"):
        await client_of(Recorder(ok([]))).get(PODS, "p")


@pytest.mark.parametrize("code", [429, 500, 503])
def test_retry_after_is_honoured(code: int) -> None:
    async def main() -> None:
        recorder = Recorder(*[ok({}, code, retry_after="5")] * 3, ok({"kind": "Pod"}))
        started = asyncio.get_running_loop().time()
        assert await client_of(recorder).get(PODS, "p") == {"kind": "Pod"}
        assert asyncio.get_running_loop().time() - started == pytest.approx(15, abs=0.1)

    simulate(main())


def test_retries_are_bounded_in_number_and_length() -> None:
    async def main() -> None:
        recorder = Recorder(*[ok({}, 429, retry_after="1")] * 50)
        with pytest.raises(TooManyRequestsError) as caught:
            await client_of(recorder).get(PODS, "p")
        assert len(recorder.requests) == 11
        assert caught.value.retry_after == 1

        recorder = Recorder(ok({}, 503, retry_after="600"))
        with pytest.raises(ServerError) as refused:
            await client_of(recorder).get(PODS, "p")
        assert refused.value.retry_after == 600
        assert len(recorder.requests) == 1

        recorder = Recorder(ok({"reason": "TooManyRequests", "message": "disruption budget"}, 429))
        with pytest.raises(TooManyRequestsError, match="disruption budget"):
            await client_of(recorder).create(PODS, {}, name="p", subresource="eviction")
        assert len(recorder.requests) == 1, "no Retry-After: waiting is the caller's decision"

    simulate(main())


def test_retry_after_may_be_a_date() -> None:
    async def main() -> None:
        server = FakeServer()
        recorder = Recorder(
            ok({}, 503, retry_after="Thu, 01 Jan 2026 00:00:20 GMT"),
            ok({}, 503, retry_after="Thu, 01 Jan 2026 00:00:00 GMT"),
            ok({}),
        )
        client = Client(ClientConfig("http://example"), transport=recorder, clock=server.clock)
        started = asyncio.get_running_loop().time()
        await client.get(PODS, "p")
        assert asyncio.get_running_loop().time() - started == pytest.approx(20, abs=0.1)
        recorder.answers = [ok({}, 503, retry_after="soon")]
        with pytest.raises(ServerError):
            await client.get(PODS, "p")

    simulate(main())


class Tokens:
    """Credentials that are renewed when refused."""

    def __init__(self) -> None:
        self.number = 1

    async def authorization(self) -> str:
        return f"Bearer {self.number}"

    async def refresh(self, rejected: str | None) -> bool:
        assert rejected == f"Bearer {self.number}"
        self.number += 1
        return True


async def test_401_renews_the_credentials_once() -> None:
    recorder = Recorder(ok({}, 401), ok({"kind": "Pod"}))
    client = Client(ClientConfig("http://x", credentials=Tokens()), transport=recorder)
    assert await client.get(PODS, "p") == {"kind": "Pod"}
    assert [r.headers["Authorization"] for r in recorder.requests] == ["Bearer 1", "Bearer 2"]

    recorder.answers = [ok({}, 401), ok({"message": "really not"}, 401)]
    with pytest.raises(UnauthorizedError, match="really not"):
        await client.get(PODS, "p")


async def test_requests_are_counted() -> None:
    metrics = Metrics()
    recorder = Recorder(ok({}), ok({}, 404), UnreachableError("gone"))
    client = Client(ClientConfig("https://x:1/S"), transport=recorder, metrics=metrics)
    await client.get(PODS, "p")
    for kind in (NotFoundError, UnreachableError):
        with pytest.raises(kind):
            await client.get(PODS, "p")

    for code in ("200", "404", "<error>"):
        assert metrics.rest_requests.value(code, "x:1", "GET") == 1


# Against a real server over aiohttp


@asynccontextmanager
async def serving(handler: Callable[[web.Request], Any]) -> AsyncIterator[Client]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    try:
        async with Client(ClientConfig(f"http://127.0.0.1:{port}/SECRET")) as client:
            yield client
    finally:
        await runner.cleanup()


async def test_a_path_prefix_and_encoded_names_survive_the_wire() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response({"raw": request.raw_path, "body": await request.text()})

    async with serving(handler) as client:
        answer = await client.delete(PODS, "a%2 b", "team")
        assert answer["raw"] == "/SECRET/api/v1/namespaces/team/pods/a%252%20b"
        assert "DeleteOptions" in answer["body"]


async def test_logs_arrive_as_they_are_written() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.path == "/SECRET/api/v1/namespaces/team/pods/p/log"
        assert dict(request.query) == {
            "container": "c",
            "follow": "true",
            "tailLines": "0",
            "sinceTime": "2026-01-01T00:00:00Z",
            "timestamps": "true",
            "previous": "true",
        }
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\ntw")
        await asyncio.sleep(0.01)
        await response.write(b"o\n")
        return response

    async with serving(handler) as client:
        chunks = [
            chunk
            async for chunk in client.logs(
                "p",
                "team",
                container="c",
                follow=True,
                tail=0,
                since_time=datetime(2026, 1, 1, tzinfo=UTC),
                timestamps=True,
                previous=True,
            )
        ]
        assert b"".join(chunks) == b"one\ntwo\n"


async def test_logs_of_a_missing_pod_are_not_found() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"reason": "NotFound", "message": "no such pod"}, status=404)

    async with serving(handler) as client:
        with pytest.raises(NotFoundError, match="no such pod"):
            async for _ in client.logs("p"):
                pass


async def drain(client: Client, end: str) -> None:
    async with client.stream("/w", {"end": end}, read_timeout=0.2) as chunks:
        async for _ in chunks:
            pass


async def test_a_stream_that_falls_silent_or_breaks_is_reported() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 100
        await response.prepare(request)
        await response.write(b"x")
        if request.query["end"] == "break":
            assert request.transport is not None
            request.transport.abort()
        await asyncio.sleep(5)
        return response

    async with serving(handler) as client:
        for end in ("break", "silence"):
            with pytest.raises(UnreachableError, match=r"127\.0\.0\.1") as caught:
                await drain(client, end)
            assert "SECRET" not in str(caught.value)


async def test_exceptions_of_the_caller_pass_unchanged() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text="line\n")

    async def read(client: Client) -> None:
        async with client.stream("/log") as chunks:
            async for _ in chunks:
                raise BrokenPipeError("nobody looks at our output")

    async with serving(handler) as client:
        with pytest.raises(BrokenPipeError, match="nobody looks"):
            await read(client)


async def test_many_watches_do_not_block_other_requests() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"\n")
        await asyncio.sleep(60)
        return response

    async with serving(handler) as client:
        ready = 0

        async def watch() -> None:
            nonlocal ready
            async with client.stream("/w", {"watch": "true"}) as chunks:
                async for _ in chunks:
                    ready += 1

        tasks = [asyncio.create_task(watch()) for _ in range(120)]
        async with asyncio.timeout(20):
            while ready < 120:
                await asyncio.sleep(0.01)
            await client.get(PODS, "p")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_unreachable_server_is_named_without_its_secret_path(
    unused_tcp_port: int,
) -> None:
    async with Client(ClientConfig(f"http://127.0.0.1:{unused_tcp_port}/SECRET")) as client:
        with pytest.raises(UnreachableError) as caught:
            await client.get(PODS, "p")

    said = f"cannot reach http://127.0.0.1:{unused_tcp_port}: connection refused"
    assert said in str(caught.value)
    assert "SECRET" not in str(caught.value)
    assert caught.value.code == 0


async def test_a_server_that_does_not_answer_in_time_is_reported() -> None:
    async def handler(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with serving(handler) as client:
        with pytest.raises(
            UnreachableError, match=r"no answer from http://127\.0\.0\.1:\d+ in time"
        ):
            await client.request("GET", "/x", timeout=0.1)
