"""A process that is no longer the leader writes nothing, even in the middle of a reconcile."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest

from traincrew.engine.client import Client
from traincrew.engine.config import ClientConfig
from traincrew.engine.controller import Controller, Manager, Request, own_key
from traincrew.engine.election import LeaderElector, LeadershipLost
from traincrew.engine.errors import UnreachableError
from traincrew.engine.resources import CONFIG_MAPS, JOBS, LEASES
from traincrew.engine.testing import FakeServer, simulate, until


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team"}, "data": {}}


def sleep_through(seconds: float) -> None:
    """Let time pass between two instructions, as if the process was stopped and continued."""
    asyncio.get_running_loop().now += seconds  # type: ignore[attr-defined]


class Leader:
    """A manager whose writes are guarded by its elector, as in the operator."""

    def __init__(self, server: FakeServer, work: Callable[[Client, Request], Any]) -> None:
        config = ClientConfig("http://127.0.0.1:6443/secret", namespace="default")
        self.elector = LeaderElector(server.client(), "system", "lock", "one", clock=server.clock)
        self.client = Client(
            config, transport=server, clock=server.clock, guard=self.elector.ensure_leader
        )
        self.manager = Manager(self.client, elector=self.elector, clock=server.clock)
        self.controller = Controller("jobs", self._reconcile, clock=server.clock)
        self.controller.watch(self.manager.informer(JOBS), own_key)
        self.manager.add(self.controller)
        self._work = work
        self.task = asyncio.create_task(self.manager.run())

    async def _reconcile(self, request: Request) -> None:
        await self._work(self.client, request)

    @property
    def lost(self) -> float:
        """How often it has lost the Lease."""
        return self.manager.metrics.terms_lost.value()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def writes(server: FakeServer) -> list[str]:
    return [
        request
        for request in server.requests
        if not request.startswith("GET") and "/leases" not in request
    ]


@pytest.mark.parametrize(
    "write",
    [
        lambda client: client.create(CONFIG_MAPS, config_map("b")),
        lambda client: client.apply(CONFIG_MAPS, config_map("a"), field_manager="x"),
        lambda client: client.patch(CONFIG_MAPS, "a", "team", patch={"data": {"a": "b"}}),
        lambda client: client.replace(CONFIG_MAPS, config_map("a")),
        lambda client: client.delete(CONFIG_MAPS, "a", "team"),
    ],
    ids=["create", "apply", "patch", "replace", "delete"],
)
def test_a_process_stopped_for_longer_than_the_lease_does_not_write(
    write: Callable[[Client], Any],
) -> None:
    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, {"metadata": {"name": "j", "namespace": "team"}})
        server.put(CONFIG_MAPS, config_map("a"))
        stages: list[str] = []

        async def work(client: Client, request: Request) -> None:
            if stages:
                return  # it leads again, and has nothing to do
            await client.create(CONFIG_MAPS, config_map("first"))
            stages.append("first")
            sleep_through(10.001)
            await client.get(CONFIG_MAPS, "a", "team")  # reading is harmless
            try:
                await write(client)
            finally:
                stages.append("end")

        leader = Leader(server, work)
        await until(lambda: leader.lost)
        assert stages == ["first", "end"]
        assert len(writes(server)) == 1
        assert leader.manager.metrics.reconcile_errors.value("jobs") == 0
        await leader.stop()

    simulate(main())


def test_a_process_stopped_for_less_than_the_lease_continues() -> None:
    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, {"metadata": {"name": "j", "namespace": "team"}})

        async def work(client: Client, request: Request) -> None:
            sleep_through(9)
            await client.create(CONFIG_MAPS, config_map("a"))

        leader = Leader(server, work)
        await until(lambda: server.stored(CONFIG_MAPS, "a", "team"))
        await asyncio.sleep(20)
        assert leader.elector.is_leader()
        await leader.stop()

    simulate(main())


def test_a_retry_after_the_lease_was_lost_is_not_sent() -> None:
    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, {"metadata": {"name": "j", "namespace": "team"}})
        server.fail("POST", "/configmaps", status=429, retry_after=30, times=10**6)
        server.fail(path="/leases/", error=ConnectionResetError("gone"), after=2, times=10**6)

        async def work(client: Client, request: Request) -> None:
            await client.create(CONFIG_MAPS, config_map("a"))

        leader = Leader(server, work)
        await until(lambda: leader.lost)
        await asyncio.sleep(120)
        assert len(writes(server)) == 1
        await leader.stop()

    simulate(main())


def test_a_process_joins_the_election_only_with_synced_caches() -> None:
    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, {"metadata": {"name": "j", "namespace": "team"}})
        server.fail("WATCH", "/jobs", delay=9)
        reconciled_at: list[float] = []

        async def work(client: Client, request: Request) -> None:
            reconciled_at.append(asyncio.get_running_loop().time())

        leader = Leader(server, work)
        await asyncio.sleep(8)
        assert server.stored(LEASES, "lock", "system") is None
        await until(leader.elector.is_leader, interval=0.0001)
        led_at = asyncio.get_running_loop().time()
        await until(lambda: reconciled_at)
        assert reconciled_at[0] - led_at < 0.01
        await leader.stop()

    simulate(main())


def test_reconciles_in_progress_finish_before_a_planned_stop() -> None:
    async def main() -> None:
        server = FakeServer()
        for number in range(10):
            server.put(JOBS, {"metadata": {"name": f"j{number}", "namespace": "team"}})
        began: list[str] = []

        async def work(client: Client, request: Request) -> None:
            began.append(request.name)
            await asyncio.sleep(1)
            await client.create(CONFIG_MAPS, config_map(request.name))

        leader = Leader(server, work)
        await until(lambda: began)
        before = asyncio.get_running_loop().time()
        await leader.manager.drain(3)
        assert asyncio.get_running_loop().time() - before < 1.1
        await leader.stop()
        assert len(began) == 4, "one for each worker, and no more were started"
        assert len(server.all(CONFIG_MAPS)) == 4
        lease = server.stored(LEASES, "lock", "system")
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == ""

    simulate(main())


def test_a_planned_stop_does_not_wait_for_ever() -> None:
    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, {"metadata": {"name": "j", "namespace": "team"}})
        began = asyncio.Event()

        async def work(client: Client, request: Request) -> None:
            began.set()
            await asyncio.sleep(1000)

        leader = Leader(server, work)
        await began.wait()
        before = asyncio.get_running_loop().time()
        await leader.manager.drain(3)
        assert 3 <= asyncio.get_running_loop().time() - before < 3.1
        await leader.stop()

    simulate(main())


def test_nothing_of_a_term_writes_in_the_next_one() -> None:
    """The reconcile that was stopped saw a world that another leader has changed since."""

    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, {"metadata": {"name": "j", "namespace": "team"}})
        terms: list[int] = []

        async def work(client: Client, request: Request) -> None:
            terms.append(len(terms))
            number = terms[-1]
            for step in range(1000):
                await client.create(CONFIG_MAPS, config_map(f"term-{number}-{step}"))
                await asyncio.sleep(0.5)

        def names_of(term: int) -> list[str]:
            names = [each["metadata"]["name"] for each in server.all(CONFIG_MAPS)]
            return [name for name in names if name.startswith(f"term-{term}-")]

        leader = Leader(server, work)
        await until(leader.elector.is_leader)
        server.fail(path="/leases/", error=ConnectionResetError("gone"), times=60)
        await until(lambda: leader.lost, timeout=120)
        ended = names_of(0)
        await until(lambda: len(names_of(1)) > 10, timeout=600)
        assert terms == [0, 1]
        assert names_of(0) == ended
        await leader.stop()

    simulate(main())


def test_a_frozen_process_leads_again_without_its_old_work() -> None:
    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, {"metadata": {"name": "j", "namespace": "team"}})
        began: list[float] = []

        async def work(client: Client, request: Request) -> None:
            began.append(asyncio.get_running_loop().time())
            if len(began) == 1:
                sleep_through(60)
                await asyncio.sleep(0)
                await client.create(CONFIG_MAPS, config_map("old"))
            await client.create(CONFIG_MAPS, config_map(f"new-{len(began)}"))

        leader = Leader(server, work)
        await until(lambda: server.stored(CONFIG_MAPS, "new-2", "team"), timeout=600)
        assert server.stored(CONFIG_MAPS, "old", "team") is None
        assert leader.lost == 1
        await leader.stop()

    simulate(main())


# -- over real sockets ----------------------------------------------------------------------------


async def test_a_write_that_waited_for_a_connection_checks_leadership_again() -> None:
    """The Lease expired while the connection was being opened: nothing is sent over it."""
    leads = True
    asked = 0
    received = b""

    def guard() -> None:
        nonlocal asked
        asked += 1
        if not leads:
            raise LeadershipLost("gone")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        received = await reader.read()
        writer.close()

    # The server does not accept at first: the kernel completes handshakes while its queue has room.
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    address = listener.getsockname()
    fillers = [socket.socket() for _ in range(3)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(address)
    client = Client(ClientConfig(f"http://127.0.0.1:{address[1]}"), guard=guard)
    writing = asyncio.create_task(client.create(CONFIG_MAPS, config_map("a")))
    await until(lambda: asked == 1)
    leads = False
    listener.setblocking(False)
    for filler in fillers:
        filler.close()
    server = await asyncio.start_server(serve, sock=listener)
    try:
        with pytest.raises(LeadershipLost):
            await writing
    finally:
        await client.close()
        server.close()
        await server.wait_closed()
    assert received == b""


async def test_what_a_cut_connection_has_not_sent_is_never_sent() -> None:
    """The server reads on after the cut: it gets what the kernel had delivered, and an error."""
    received = 0
    ended = asyncio.Event()
    connected, reading = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        connected.set()
        await reading.wait()
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(65536):
                received += len(chunk)
        writer.close()
        ended.set()

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    port = listener.getsockname()[1]
    server = await asyncio.start_server(serve, sock=listener, limit=1024)
    client = Client(ClientConfig(f"http://127.0.0.1:{port}"))
    size = 1_000_000  # most of it is in the sender's kernel
    big = {**config_map("a"), "data": {"x": "x" * size}}
    writing = asyncio.create_task(client.create(CONFIG_MAPS, big))
    await until(connected.is_set)
    client.cut()
    try:
        with pytest.raises(UnreachableError):
            await writing
        reading.set()
        async with asyncio.timeout(10):
            await ended.wait()
    finally:
        await client.close()
        server.close()
    assert received < size / 2
    await server.wait_closed()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    again = await asyncio.start_server(answer, "127.0.0.1", port)
    assert await client.get(CONFIG_MAPS, "a") == {}, "it connects again"
    await client.close()
    again.close()
    await again.wait_closed()
