"""Reading our own writes."""

import asyncio

from traincrew.engine.controller import Controller, Manager, Request, Result, WriteTracker
from traincrew.engine.observability import Metrics
from traincrew.engine.resources import CONFIG_MAPS, PODS
from traincrew.engine.testing import FakeServer, simulate, until

JOB = Request("team", "j")


def test_a_cache_without_our_own_write_is_stale_until_it_has_caught_up() -> None:
    async def main() -> None:
        server = FakeServer()
        client = server.client()
        manager = Manager(client, clock=server.clock)
        pods, maps = manager.informer(PODS), manager.informer(CONFIG_MAPS)
        task = asyncio.create_task(manager.run())
        await manager.wait_synced()
        metrics = Metrics()
        tracker = WriteTracker(clock=server.clock, metrics=metrics)
        assert not tracker.stale(pods, JOB)

        pod = await client.create(PODS, {"metadata": {"name": "p", "namespace": "team"}})
        tracker.note(PODS, pod, JOB)
        assert tracker.stale(pods, JOB)
        assert not tracker.stale(pods, Request("team", "other"))
        assert not tracker.stale(maps, JOB)
        assert metrics.stale_reconciles.value("pods") == 1

        await until(lambda: len(pods.store) == 1)
        assert not tracker.stale(pods, JOB)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(main())


def test_a_bookmark_counts_too() -> None:
    async def main() -> None:
        server = FakeServer()
        manager = Manager(server.client(), clock=server.clock)
        pods = manager.informer(PODS, label_selector="app=x")
        task = asyncio.create_task(manager.run())
        await manager.wait_synced()
        tracker = WriteTracker(patience=3600, clock=server.clock)
        outside = server.put(PODS, {"metadata": {"name": "p", "namespace": "team"}})
        tracker.note(PODS, outside, JOB)
        await asyncio.sleep(1)
        assert tracker.stale(pods, JOB)
        server.send_bookmark()
        await until(lambda: not tracker.stale(pods, JOB))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(main())


def test_a_write_that_never_reaches_the_cache_does_not_stall_for_ever() -> None:
    async def main() -> None:
        server = FakeServer()
        pods = Manager(server.client()).informer(PODS)
        pods.store.resource_version = "10"
        tracker = WriteTracker(patience=5, clock=server.clock)
        tracker.note(PODS, {"metadata": {"resourceVersion": "999"}}, JOB)
        await asyncio.sleep(4.9)
        assert tracker.stale(pods, JOB)
        await asyncio.sleep(0.2)
        assert not tracker.stale(pods, JOB)

    simulate(main())


def test_the_newest_of_several_writes_counts() -> None:
    async def main() -> None:
        server = FakeServer()
        pods = Manager(server.client()).informer(PODS)
        tracker = WriteTracker(clock=server.clock)
        for version in ("20", "12"):
            tracker.note(PODS, {"metadata": {"resourceVersion": version}}, JOB)
        pods.store.resource_version = "12"
        assert tracker.stale(pods, JOB)
        pods.store.resource_version = "20"
        assert not tracker.stale(pods, JOB)

        tracker.note(PODS, {"metadata": {"resourceVersion": "30"}}, JOB)
        tracker.forget(JOB)
        assert not tracker.stale(pods, JOB)

    simulate(main())


def test_writes_without_a_numeric_version_are_not_waited_for() -> None:
    pods = Manager(FakeServer().client()).informer(PODS)
    tracker = WriteTracker()
    tracker.note(PODS, {"kind": "Status", "status": "Success"}, JOB)
    tracker.note(PODS, {"metadata": {"resourceVersion": "abc"}}, JOB)
    assert not tracker.stale(pods, JOB)
    tracker.note(PODS, {"metadata": {"resourceVersion": "5"}}, JOB)
    pods.store.resource_version = "opaque"

    assert not tracker.stale(pods, JOB)


def test_inside_a_reconcile_a_write_belongs_to_its_request() -> None:
    async def main() -> None:
        server = FakeServer()
        pods = Manager(server.client()).informer(PODS)
        pods.store.resource_version = "1"
        tracker = WriteTracker(clock=server.clock)
        postponed: list[bool] = []

        async def reconcile(request: Request) -> Result:
            postponed.append(tracker.stale(pods, request))
            tracker.note(PODS, {"metadata": {"name": "child", "resourceVersion": "50"}})
            return Result(requeue_after=1)

        controller = Controller("jobs", reconcile, clock=server.clock)
        task = asyncio.create_task(controller.run())
        controller.enqueue(JOB)
        await until(lambda: len(postponed) == 2)
        assert postponed == [False, True]
        tracker.note(PODS, {"metadata": {"name": "x", "namespace": "y", "resourceVersion": "50"}})
        assert tracker.stale(pods, Request("y", "x"))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(main())
