"""An API server that sends too much, for ever, or what was not asked for: limits, and clear errors.

The limits are lowered, so that the tests are small; what is sent is more than the lowered ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from traincrew.engine.cache import Informer
from traincrew.engine.client import Client, bounds, transport
from traincrew.engine.config import ClientConfig
from traincrew.engine.election.leasewatch import follow_lease
from traincrew.engine.errors import ApiError, BadAnswerError, NotFoundError
from traincrew.engine.resources import CONFIG_MAPS, PODS
from traincrew.engine.testing import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

KIB = 1024


class Hostile:
    """Answers every request with the bytes that a function yields, as long as somebody reads."""

    def __init__(self, answer: Callable[[str], Iterator[bytes]]) -> None:
        self._answer = answer
        self.sent = 0
        self.requests: list[str] = []
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            self.requests.append(path)
            for part in self._answer(path):
                writer.write(part)
                self.sent += len(part)
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(
    answer: Callable[[str], Iterator[bytes]],
) -> AsyncIterator[tuple[Hostile, Client]]:
    hostile = Hostile(answer)
    server = await asyncio.start_server(hostile.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    hostile.url = f"http://127.0.0.1:{port}"
    async with Client(ClientConfig(hostile.url)) as client:
        yield hostile, client
    server.close()
    await server.wait_closed()


def head(status: int = 200, /, **headers: Any) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode()


def document(value: Any) -> bytes:
    body = json.dumps(value).encode()
    return head(**{"content-length": len(body)}) + body


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_BODY", 256 * KIB)
    monkeypatch.setattr(bounds, "MAX_LIST", 256 * KIB)
    monkeypatch.setattr(bounds, "MAX_LINE", 256 * KIB)
    monkeypatch.setattr(bounds, "MAX_OBJECTS", 1000)
    monkeypatch.setattr(bounds, "MAX_PAGES", 20)


pytestmark = pytest.mark.usefixtures("small")


async def test_an_answer_that_is_compressed_unasked_is_refused_unread() -> None:
    bomb = gzip.compress(b" " * 10_000_000)

    def answer(_: str) -> Iterator[bytes]:
        yield head(**{"content-encoding": "gzip", "content-length": len(bomb)}) + bomb

    async with serving(answer) as (_, client):
        with pytest.raises(BadAnswerError, match="compressed its answer"):
            await client.get(CONFIG_MAPS, "a")
        with pytest.raises(BadAnswerError, match="compressed its answer"):
            await anext(client.logs("a"))


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "endless"])
async def test_an_answer_that_is_too_long_is_not_read_to_its_end(announced: bool) -> None:
    def answer(_: str) -> Iterator[bytes]:
        headers = {"content-length": 10**12} if announced else {}
        yield head(**headers)
        while True:
            yield b" " * KIB

    async with serving(answer) as (hostile, client):
        with pytest.raises(BadAnswerError, match="longer than 0 MiB"):
            await client.get(CONFIG_MAPS, "a")
        assert hostile.sent < 16 * 2**20


async def test_an_endless_error_is_still_an_error() -> None:
    def answer(_: str) -> Iterator[bytes]:
        yield head(404)
        while True:
            yield b"x" * KIB

    async with serving(answer) as (_, client):
        with pytest.raises(NotFoundError):
            await anext(client.logs("a"))


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff\xfe", b"nonsense", b"[]", b'"text"'])
async def test_what_is_no_object_is_an_error_of_the_server(body: bytes) -> None:
    def answer(_: str) -> Iterator[bytes]:
        yield head(**{"content-length": len(body)}) + body

    async with serving(answer) as (_, client):
        with pytest.raises(BadAnswerError, match="the server answered with"):
            await client.get(CONFIG_MAPS, "a")
        with pytest.raises(BadAnswerError, match="the server answered with"):
            await client.list(CONFIG_MAPS)


def pages(token: Callable[[int], str], objects: int, size: int = 1) -> Callable[[str], Any]:
    numbers = itertools.count(1)

    def answer(_: str) -> Iterator[bytes]:
        items = [{"metadata": {"name": "x" * size}}] * objects
        yield document({"items": items, "metadata": {"continue": token(next(numbers))}})

    return answer


@pytest.mark.parametrize(
    ("answer", "reason", "most"),
    [
        (pages(lambda _: "same", 1), "continues with the same page", 2),
        (pages(str, 0), "more than 20 pages", 20),
        (pages(str, 300), "more than 1,000 objects", 4),
        (pages(str, 1, size=100_000), "longer than 0 MiB", 3),
    ],
    ids=["same", "pages", "objects", "bytes"],
)
async def test_a_list_without_end_ends(
    answer: Callable[[str], Iterator[bytes]], reason: str, most: int
) -> None:
    async with serving(answer) as (hostile, client):
        with pytest.raises(BadAnswerError, match=reason):
            await client.list(CONFIG_MAPS)
        assert len(hostile.requests) <= most


async def first_problem(client: Client) -> ApiError:
    """Return the first failure that an informer reports."""
    problems: list[Exception] = []

    def state(error: Exception | None) -> None:
        if error is not None:
            problems.append(error)

    informer = Informer(client, PODS, on_state=state)
    task = asyncio.create_task(informer.run())
    try:
        await until(lambda: problems, timeout=20)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert len(informer.store) == 0
    assert isinstance(problems[0], ApiError)
    return problems[0]


async def test_an_endless_line_of_a_watch_is_an_error() -> None:
    def answer(_: str) -> Iterator[bytes]:
        yield head() + b'{"type":"ADDED","object":{"metadata":{"name":"'
        while True:
            yield b"x" * 16 * KIB

    async with serving(answer) as (hostile, client):
        error = await first_problem(client)
        assert "a watch sent a line of more than" in error.message
        assert hostile.sent < 64 * 2**20

        with pytest.raises(BadAnswerError, match="a line of more than"):
            await follow_lease(
                client,
                "default",
                "lock",
                "1",
                silence=5.0,
                opened=lambda: None,
                changed=lambda _: None,
            )


async def test_a_streamed_list_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traincrew.engine.cache.reflector.MAX_OBJECTS", 1000)

    def answer(_: str) -> Iterator[bytes]:
        yield head()
        for number in itertools.count():
            metadata = {"name": f"p{number}", "namespace": "d", "uid": "u", "resourceVersion": "1"}
            event = {"type": "ADDED", "object": {"metadata": metadata}}
            yield json.dumps(event).encode() + b"\n"

    async with serving(answer) as (_, client):
        error = await first_problem(client)
        assert "streamed list has more than 1,000 events" in error.message


async def test_a_paged_list_of_a_cache_ends() -> None:
    listing = pages(lambda _: "same", 1)

    def answer(path: str) -> Iterator[bytes]:
        if "sendInitialEvents" in path:
            yield document({"reason": "BadRequest"}).replace(b"200", b"400", 1)
            return
        yield from listing(path)

    async with serving(answer) as (_, client):
        error = await first_problem(client)
        assert "continues with the same page" in error.message


async def test_no_more_of_a_log_is_read_than_was_asked_for() -> None:
    def answer(_: str) -> Iterator[bytes]:
        yield head()
        while True:
            yield b"x" * KIB

    async with serving(answer) as (_, client):
        chunks = [chunk async for chunk in client.logs("a", limit_bytes=3000)]
        assert len(b"".join(chunks)) == 3000


async def test_a_redirect_is_not_followed() -> None:
    """The token is for this server, and for no other."""

    def elsewhere(_: str) -> Iterator[bytes]:
        yield document({})

    async with serving(elsewhere) as (other, _):

        def answer(_: str) -> Iterator[bytes]:
            yield head(302, location=f"{other.url}/stolen", **{"content-length": 0})

        async with serving(answer) as (_, client):
            with pytest.raises(ApiError, match="status 302"):
                await client.get(CONFIG_MAPS, "a")
        assert other.requests == []
