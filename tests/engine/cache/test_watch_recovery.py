"""How soon a reflector recovers: lists that break, and what resets a back-off."""

import asyncio

import pytest

from engine.cache.test_watch_faults import StreamScript, Watcher, event, pod
from traincrew.engine.resources import PODS
from traincrew.engine.testing import FakeServer, simulate, until


@pytest.mark.parametrize(
    "broken",
    [
        event("ERROR", code=410, reason="Expired", message="too old"),
        event("ERROR", code=500, reason="InternalError", message="broken"),
        event("ERROR", code=429, reason="TooManyRequests", message="busy"),
        event("ADDED", **pod("ghost", uid="g", resourceVersion="9"))
        + event("ERROR", code=504, reason="Timeout", message="slow"),
    ],
    ids=["410", "500", "429", "after objects"],
)
def test_a_streamed_list_that_ends_in_an_error_is_followed_by_a_paged_list(broken: bytes) -> None:
    server = StreamScript([broken, None])
    server.put(PODS, pod("p1"))

    async def main() -> None:
        began = asyncio.get_running_loop().time()
        async with Watcher(server) as watcher:
            assert watcher.names == ["p1"]
            assert watcher.seen == [("added", "p1")]
            assert asyncio.get_running_loop().time() - began < 0.2
            assert ["limit=500" in request for request in server.requests] == [False, True, False]

    simulate(main())


def test_only_the_list_that_broke_is_paged() -> None:
    server = StreamScript([event("ERROR", code=500, reason="InternalError"), None])
    server.put(PODS, pod("p1"))

    async def main() -> None:
        async with Watcher(server) as watcher:
            server.drop_watches()
            server.put(PODS, pod("p2"))
            server.compact()
            await until(lambda: watcher.names == ["p1", "p2"])

            assert sum("limit=500" in request for request in server.requests) == 1
            assert sum("sendInitialEvents" in request for request in server.requests) == 2

    simulate(main())


def test_a_server_whose_streamed_lists_always_break_gets_paged_lists_at_once() -> None:
    error: list[bytes | Exception | None] = [event("ERROR", code=500, reason="Oops"), None]
    server = StreamScript(*[list(error) for _ in range(100)])

    async def main() -> None:
        async with Watcher(server) as watcher:
            for number in range(5):
                server.drop_watches()
                server.put(PODS, pod(f"p{number}"))
                server.compact()
                await until(lambda: len(watcher.names) == number + 1)  # noqa: B023
                await until(lambda: server.open_watches == 1)
            assert sum("sendInitialEvents" in request for request in server.requests) == 3

    simulate(main())


@pytest.fixture(params=[True, False], ids=["streamed-list", "paged-list"])
def server(request: pytest.FixtureRequest) -> FakeServer:
    server = FakeServer(watch_list=request.param)
    server.put(PODS, pod("p1"))
    return server


async def away(server: FakeServer, times: int = 30) -> None:
    """Make the server unreachable until the back-off is at its longest."""
    server.fail("WATCH", error=ConnectionRefusedError("refused"), times=times)
    server.drop_watches()
    await until(lambda: server.open_watches == 0)
    await until(lambda: server.open_watches == 1, timeout=3600, interval=0.1)


@pytest.mark.parametrize("quiet", [0.0, 1.5, 5.0], ids=["at once", "soon", "later"])
def test_an_accepted_watch_without_events_resets_the_back_off(
    server: FakeServer, quiet: float
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with Watcher(server) as watcher:
            await away(server)
            await asyncio.sleep(quiet)
            server.drop_watches()
            before = loop.time()
            await until(lambda: server.open_watches == 0)
            server.put(PODS, pod("p2"))
            await until(lambda: watcher.names == ["p1", "p2"])

            assert loop.time() - before < 1

    simulate(main())


def test_an_answered_list_resets_the_back_off() -> None:
    server = FakeServer(watch_list=False)
    server.put(PODS, pod("p1"))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server.fail("GET", path="limit=500", status=503, times=12)
        async with Watcher(server) as watcher:  # after minutes
            server.fail("WATCH", error=ConnectionRefusedError("refused"))
            server.drop_watches()
            before = loop.time()
            await until(lambda: server.open_watches == 0)
            server.put(PODS, pod("p2"))
            await until(lambda: watcher.names == ["p1", "p2"])

            assert loop.time() - before < 1.5

    simulate(main())


class Closing(FakeServer):
    """Accepts every watch, and ends it at once."""

    def _start_watch(self, watch: object, query: dict[str, str]) -> None:
        super()._start_watch(watch, query)  # type: ignore[arg-type]
        self.drop_watches(clean=True)


@pytest.mark.parametrize("watch_list", [True, False])
def test_a_server_that_accepts_and_ends_every_watch_is_not_flooded(watch_list: bool) -> None:
    server = Closing(watch_list=watch_list)
    server.put(PODS, pod("p1"))

    async def main() -> None:
        watcher = Watcher(server)
        task = asyncio.create_task(watcher.informer.run())
        await watcher.informer.wait_synced()
        before = len(server.requests)
        await asyncio.sleep(120)
        assert len(server.requests) - before < 20
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(main())


def test_a_server_that_refuses_watches_but_answers_lists_is_not_flooded() -> None:
    server = FakeServer(watch_list=False)

    async def main() -> None:
        async with Watcher(server):
            server.fail("WATCH", status=403, reason="Forbidden", times=10**9)
            server.compact()
            server.drop_watches()
            before = len(server.requests)
            await asyncio.sleep(120)
            assert len(server.requests) - before < 20

    simulate(main())
