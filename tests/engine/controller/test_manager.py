"""Managers: shared informers, leadership, and shutdown."""

import asyncio
from typing import Any

import pytest

from traincrew.engine.cache import Informer
from traincrew.engine.controller import Controller, Manager, Request, own_key
from traincrew.engine.election import LeaderElector
from traincrew.engine.objects import MetadataOnly
from traincrew.engine.resources import JOBS, LEASES, PODS
from traincrew.engine.testing import FakeServer, simulate, until


def job(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team"}}


class Process:
    """One operator process: a manager with one controller, and perhaps a Lease."""

    def __init__(self, server: FakeServer, identity: str = "", busy: float = 0.0) -> None:
        self.seen: list[str] = []
        elector = None
        if identity:
            elector = LeaderElector(server.client(), "system", "lock", identity, clock=server.clock)
        self.manager = Manager(server.client(), elector=elector, clock=server.clock)
        self.jobs = self.manager.informer(JOBS)
        self.stopped_at = 0.0

        async def reconcile(request: Request) -> None:
            self.seen.append(request.name)
            try:
                await asyncio.sleep(busy)
            finally:
                self.stopped_at = asyncio.get_running_loop().time()

        self.controller = Controller("jobs", reconcile, clock=server.clock)
        self.controller.watch(self.jobs, own_key)
        self.manager.add(self.controller)

    def start(self) -> None:
        self.task = asyncio.create_task(self.manager.run())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def test_it_is_known_whether_somebody_caches_a_resource() -> None:
    async def main() -> None:
        manager = Manager(FakeServer().client())
        index = {"x": lambda obj: [obj.metadata.name]}
        manager.informer(PODS, indexers=index)
        manager.informer(PODS, MetadataOnly, metadata_only=True)

        assert manager.has_informer(PODS, indexers=index)
        assert not manager.has_informer(PODS)
        assert not manager.has_informer(JOBS, indexers=index)

    simulate(main())


def test_the_same_arguments_give_the_same_informer() -> None:
    async def main() -> None:
        manager = Manager(FakeServer().client())
        plain = manager.informer(PODS)
        index = {"x": lambda obj: [obj.metadata.name]}

        assert manager.informer(PODS) is plain
        assert manager.informer(PODS, indexers=index) is manager.informer(PODS, indexers=index)
        others = [
            manager.informer(PODS, indexers=index),
            manager.informer(PODS, namespace="team"),
            manager.informer(PODS, label_selector="a=b"),
            manager.informer(PODS, MetadataOnly, metadata_only=True),
        ]
        assert len({id(informer) for informer in [plain, *others]}) == 5

    simulate(main())


def test_controllers_start_when_all_caches_are_synced() -> None:
    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, job("a"))
        process = Process(server)
        pods = process.manager.informer(PODS)
        server.fail("WATCH", "/pods", delay=20)
        process.start()
        await asyncio.sleep(10)
        assert process.jobs.synced
        assert not process.manager.synced
        assert process.seen == []
        await pods.wait_synced()
        await until(lambda: process.seen == ["a"])
        await process.stop()

    simulate(main())


def test_an_informer_added_while_running_is_started() -> None:
    async def main() -> None:
        server = FakeServer()
        process = Process(server)
        process.start()
        await process.manager.wait_synced()
        late = process.manager.informer(PODS)
        await asyncio.wait_for(late.wait_synced(), 10)
        await process.stop()

    simulate(main())


def test_an_informer_that_is_not_the_managers_raises_an_error() -> None:
    async def main() -> None:
        server = FakeServer()
        process = Process(server)
        process.controller.watch(Informer(server.client(), PODS), own_key)
        with pytest.raises(ValueError, match="watches an informer of pods that is not this man"):
            await process.manager.run()

    simulate(main())


def test_a_runnable_that_fails_ends_the_manager_with_its_error() -> None:
    async def main() -> None:
        manager = Manager(FakeServer().client())

        async def fail() -> None:
            raise OSError("port is taken")

        manager.add_runnable(fail, needs_leadership=False)
        with pytest.raises(OSError, match="port is taken"):
            await manager.run()

    simulate(main())


def test_a_standby_keeps_its_caches_warm_and_takes_over_when_the_leader_stops() -> None:
    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, job("a"))
        first, second = Process(server, "one"), Process(server, "two")
        first.start()
        await until(lambda: first.seen == ["a"])
        second.start()
        await asyncio.sleep(30)
        assert second.seen == []
        assert len(second.jobs.store) == 1
        assert second.manager.metrics.leader.value("lock") == 0

        lists = len([r for r in server.requests if "sendInitialEvents" in r])
        await first.stop()
        stopped = asyncio.get_running_loop().time()
        await until(lambda: second.seen == ["a"])
        assert asyncio.get_running_loop().time() - stopped < 3, "the Lease was released"
        assert len([r for r in server.requests if "sendInitialEvents" in r]) == lists
        assert second.manager.metrics.leader.value("lock") == 1
        await second.stop()

    simulate(main())


def test_leadership_is_released_only_after_all_work_has_stopped() -> None:
    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, job("a"))
        process = Process(server, "one", busy=1000)
        released_at = 0.0

        def note(request: Any) -> None:
            nonlocal released_at
            if b'"holderIdentity":""' in (request.body or b""):
                released_at = asyncio.get_running_loop().time()
                assert process.stopped_at > 0

        server.after_write = note
        process.start()
        await until(lambda: process.seen == ["a"])
        await process.stop()
        assert released_at > 0
        lease = server.stored(LEASES, "lock", "system")
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == ""

    simulate(main())


def cut_off(server: FakeServer) -> None:
    server.fail(path="/leases/", error=ConnectionResetError("gone"), times=10**6)


def test_losing_the_lease_cancels_the_work_and_makes_a_standby(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, job("a"))
        process = Process(server, "one", busy=1000)
        process.start()
        await until(lambda: process.seen == ["a"])
        cut_off(server)
        cut = asyncio.get_running_loop().time()
        await until(lambda: process.stopped_at)
        assert 8 <= process.stopped_at - cut <= 11
        await asyncio.sleep(60)
        assert process.seen == ["a"]
        assert not process.task.done()
        assert process.manager.synced, "its caches are warm again"
        assert process.manager.metrics.leader.value("lock") == 0
        assert process.manager.metrics.terms_lost.value() == 1
        await process.stop()

    simulate(main())
    said = capsys.readouterr()
    assert "leadership lost" in said.out + said.err
    assert "not renewed within 10 s" in said.out + said.err


def test_a_standby_that_led_begins_as_a_new_process_would() -> None:
    """It lists again before it joins the election, and reconciles everything when it leads."""

    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, job("a"))
        server.put(JOBS, job("b"))
        first = Process(server, "one")
        dropped: list[float] = []
        first.manager.on_end_of_term(lambda: dropped.append(asyncio.get_running_loop().time()))
        first.start()
        await until(lambda: sorted(first.seen) == ["a", "b"])
        first.controller.enqueue(Request("team", "gone"), after=40)
        first.seen.clear()
        server.fail("GET", "/jobs", delay=20, times=2)
        server.fail("WATCH", "/jobs", delay=20, times=2)
        lists = len([r for r in server.requests if "/jobs?" in r])
        server.fail(path="/leases/", error=ConnectionResetError("gone"), times=60)
        await until(lambda: dropped)
        assert not first.manager.synced
        server.remove(JOBS, "a", "team")
        server.put(JOBS, job("c"))
        leases = len([r for r in server.requests if "/leases" in r])
        await asyncio.sleep(15)
        assert len([r for r in server.requests if "/leases" in r]) == leases
        await until(lambda: first.seen, timeout=600)
        await asyncio.sleep(1)
        assert sorted(set(first.seen)) == ["a", "b", "c"], "also what was deleted meanwhile"
        assert len([r for r in server.requests if "/jobs?" in r]) > lists
        assert first.manager.metrics.leader.value("lock") == 1
        await first.stop()

    simulate(main())


def test_work_that_needs_leadership_is_called_for_each_term() -> None:
    async def main() -> None:
        server = FakeServer()
        process = Process(server, "one")
        log: list[str] = []

        def runnable(name: str) -> Any:
            async def run() -> None:
                log.append(f"{name} begins")
                try:
                    await asyncio.Event().wait()
                finally:
                    log.append(f"{name} ends")

            return run

        process.manager.add_runnable(runnable("leader"))
        process.manager.add_runnable(runnable("always"), needs_leadership=False)
        process.start()
        await until(lambda: "leader begins" in log)
        server.fail(path="/leases/", error=ConnectionResetError("gone"), times=60)
        await until(lambda: log.count("leader begins") == 2, timeout=600)
        assert log == ["always begins", "leader begins", "leader ends", "leader begins"]
        await process.stop()
        assert log[-1] != "leader begins"
        assert log.count("always begins") == 1

    simulate(main())


def test_a_failure_ends_the_manager_also_when_the_lease_is_lost_with_it() -> None:
    async def main() -> None:
        server = FakeServer()
        process = Process(server, "one")

        async def fail() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                raise OSError("port is taken")

        process.manager.add_runnable(fail)
        process.start()
        await until(lambda: process.manager.metrics.leader.value("lock"))
        cut_off(server)
        with pytest.raises(OSError, match="port is taken"):
            await process.task

    simulate(main())


def test_a_process_that_is_stopped_in_the_moment_of_the_loss_ends() -> None:
    async def main() -> None:
        server = FakeServer()
        process = Process(server, "one")
        process.manager.on_end_of_term(lambda: None)
        cancelled = False

        async def work() -> None:
            nonlocal cancelled
            try:
                await asyncio.Event().wait()
            finally:
                cancelled = True
                process.task.cancel()
                await asyncio.sleep(0.1)

        process.manager.add_runnable(work)
        process.start()
        await until(lambda: process.manager.metrics.leader.value("lock"))
        cut_off(server)
        await until(lambda: cancelled)
        await until(process.task.done, timeout=5)

    simulate(main())
