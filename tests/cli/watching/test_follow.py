"""Log lines arrive once each, whatever happens to connections and containers."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from cli.builders import ended, pod, running, waiting
from traincrew.cli.display.objects import Pod
from traincrew.cli.watching.follow import LogFollower, Position
from traincrew.cli.watching.loglines import split_stamp
from traincrew.engine.errors import NotFoundError, UnreachableError

NAME = "digits-master-x"
DEADLINE = 60.0


class FakeNode:
    """A container that writes lines, restarts, and whose log streams break at will."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.runs: list[list[tuple[int, str]]] = []
        self.alive = False
        self.over = False
        self.gone = False
        self.tick = 0
        self.written: list[str] = []
        self.moved = asyncio.Event()
        self.breaking = 0.0

    def start(self) -> None:
        self.runs.append([])
        self.alive = True
        self._move()

    def write(self, text: str) -> None:
        # Several lines may carry the same time.
        self.tick += self.random.choice((0, 0, 1))
        self.runs[-1].append((self.tick, text))
        self.written.append(text)
        self._move()

    def end(self, *, over: bool = False) -> None:
        self.alive = False
        self.over = over
        self._move()

    def _move(self) -> None:
        self.tick += 1 if not self.runs[-1] else 0
        self.moved.set()
        self.moved = asyncio.Event()

    def as_pod(self) -> Pod:
        restarts = len(self.runs) - 1
        if self.over:
            return pod(NAME, "Succeeded", ended(0, restarts=restarts))
        if not self.runs:
            return pod(NAME, "Pending", waiting("ContainerCreating"))
        if self.alive:
            return pod(NAME, "Running", running(restarts=restarts))
        last = {"terminated": {"exitCode": 1}}
        return pod(
            NAME, "Running", waiting("CrashLoopBackOff", restartCount=restarts, lastState=last)
        )

    # -- the client -----------------------------------------------------------------------------

    async def get(self, _resource: object, _name: str, _namespace: str) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self.as_pod()))

    async def logs(self, _name: str, _namespace: str, **options: Any) -> AsyncIterator[bytes]:
        assert options["timestamps"]
        if self.gone:
            raise NotFoundError("pods not found")
        index = len(self.runs) - (2 if options["previous"] else 1)
        if index < 0:
            raise NotFoundError("no previous run")
        run, position = self.runs[index], 0
        since = options["since_time"]
        while True:
            while position < len(run):
                tick, text = run[position]
                position += 1
                stamp = f"2026-01-01T00:00:00.{tick:09}".rstrip("0")
                if since is not None and f"2026-01-01T00:00:00.{tick:09}Z" < since:
                    continue
                line = f"{stamp}Z {text}\n".encode()
                cut = self.random.randrange(len(line))
                yield line[:cut]
                await asyncio.sleep(0)
                if self.random.random() < self.breaking:
                    if options["follow"] and self.random.random() < 0.5:
                        return  # an idle time-out of something in between
                    raise UnreachableError("connection reset")
                yield line[cut:]
            if not options["follow"] or run is not self.runs[-1] or not self.alive:
                return
            await self.moved.wait()


@pytest.mark.parametrize("seed", range(25))
async def test_every_line_arrives_once_through_breaks_and_restarts(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traincrew.cli.watching.follow.RETRY_SECONDS", 0.001)
    monkeypatch.setattr("traincrew.cli.watching.follow.LONGEST_RETRY_SECONDS", 0.002)
    node = FakeNode(seed)
    node.breaking = 0.2
    received: list[str] = []
    follower = LogFollower(node, node.as_pod(), "chainer", received.append)  # type: ignore[arg-type]
    task = asyncio.create_task(follower.run())
    async with asyncio.timeout(DEADLINE):
        for run in range(3):
            node.start()
            if node.random.random() < 0.7:
                follower.update(node.as_pod())
            for number in range(node.random.randrange(12)):
                node.write(f"run {run} line {number}")
                for _ in range(node.random.randrange(4)):
                    await asyncio.sleep(0)
            node.end(over=run == 2)
            follower.update(node.as_pod())
            if run == 2:
                break
            # A kubelet keeps the log of one previous run, so this much must have been read.
            while received != node.written:
                await asyncio.sleep(0.001)
        await task
    assert received == node.written
    assert follower.settled.is_set()


async def test_a_run_that_ended_unread_is_read_from_the_previous_log() -> None:
    node = FakeNode(1)
    node.start()
    node.write("first run")
    node.end()
    node.start()
    node.write("second run")
    received: list[str] = []
    follower = LogFollower(node, node.as_pod(), "chainer", received.append)  # type: ignore[arg-type]
    task = asyncio.create_task(follower.run())
    async with asyncio.timeout(DEADLINE):
        while len(received) < 2:
            await asyncio.sleep(0.001)
        node.end(over=True)
        follower.update(node.as_pod())
        await task
    assert received == ["first run", "second run"]


async def test_a_pod_that_is_deleted_ends_the_follower() -> None:
    node = FakeNode(1)
    node.start()
    node.write("hello")
    received: list[str] = []
    follower = LogFollower(node, node.as_pod(), "chainer", received.append)  # type: ignore[arg-type]
    task = asyncio.create_task(follower.run())
    async with asyncio.timeout(DEADLINE):
        while not received:
            await asyncio.sleep(0.001)
        node.gone = True
        follower.update(node.as_pod(), gone=True)
        node.end()
        await task
    assert received == ["hello"]


async def test_a_pod_that_never_ran_ends_the_follower() -> None:
    node = FakeNode(1)
    follower = LogFollower(node, node.as_pod(), "chainer", print)  # type: ignore[arg-type]
    task = asyncio.create_task(follower.run())
    follower.update(node.as_pod(), gone=True)
    async with asyncio.timeout(DEADLINE):
        await task


async def test_a_last_line_without_an_end_is_delivered() -> None:
    class Node(FakeNode):
        async def logs(self, _name: str, _namespace: str, **_options: Any) -> AsyncIterator[bytes]:
            yield b"2026-01-01T00:00:00Z whole\n2026-01-01T00:00:01Z no end"

    node = Node(1)
    node.start()
    received: list[str] = []
    node.end(over=True)
    follower = LogFollower(node, node.as_pod(), "chainer", received.append)  # type: ignore[arg-type]
    async with asyncio.timeout(DEADLINE):
        await follower.run()
    assert received == ["whole", "no end"]


def test_timestamps_are_comparable() -> None:
    early, rest = split_stamp(b"2026-01-01T00:00:00.45Z a b")
    late, _ = split_stamp(b"2026-01-01T00:00:00.5Z")
    assert rest == b"a b"
    assert early is not None
    assert late is not None
    assert early < late
    assert split_stamp(b"no stamp") == (None, b"no stamp")


def test_lines_with_equal_timestamps_are_distinguished_by_number() -> None:
    position = Position()
    stamp = ("2026-01-01T00:00:00", "0" * 9)
    position.resume()
    assert [position.is_new(stamp) for _ in range(2)] == [True, True]
    position.resume()
    assert [position.is_new(stamp) for _ in range(3)] == [False, False, True]
    position.resume()
    assert [position.is_new(stamp) for _ in range(4)] == [False, False, False, True]


async def test_following_that_is_stopped_closes_its_stream() -> None:
    """Also between two parts of a log, when nothing is read from the stream."""
    streams: list[AsyncIterator[bytes]] = []
    waits, closed = asyncio.Event(), asyncio.Event()

    async def lines() -> AsyncIterator[bytes]:
        try:
            yield b"2026-01-01T00:00:00Z hello\n"
        finally:
            closed.set()

    class Client:
        def logs(self, *_: Any, **_options: Any) -> AsyncIterator[bytes]:
            streams.append(lines())
            return streams[-1]

    async def room() -> None:
        waits.set()
        await asyncio.Event().wait()

    client: Any = Client()
    follower = LogFollower(client, pod(NAME, "Running", running()), "chainer", lambda _: None, room)
    following = asyncio.create_task(follower.run())
    await asyncio.wait_for(waits.wait(), DEADLINE)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert closed.is_set()
