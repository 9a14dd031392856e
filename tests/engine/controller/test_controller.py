"""Controllers: outcomes of a reconcile, and what triggers one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from traincrew.engine.backoff import Backoff
from traincrew.engine.controller import (
    FOLLOWING,
    Controller,
    ExpectedError,
    Manager,
    Request,
    Result,
    TerminalError,
    own_key,
    owner_key,
)
from traincrew.engine.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from traincrew.engine.observability import configure_logging
from traincrew.engine.observability.logs import current_reconcile
from traincrew.engine.resources import JOBS, PODS
from traincrew.engine.testing import FakeServer, SimulatedClock, simulate, until

JOB = Request("team", "j")


def pod(name: str, owner: str = "j", **extra: Any) -> dict[str, Any]:
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"uid-{owner}"}
    metadata = {"name": name, "namespace": "team", "ownerReferences": [reference | extra]}
    return {"metadata": metadata}


class Running:
    """A running controller, without any watch."""

    def __init__(
        self, reconcile: Callable[[Request], Awaitable[Result | None]], **arguments: Any
    ) -> None:
        backoff = Backoff(1.0, 60.0, jitter=0.0)
        self.controller = Controller(
            "jobs", reconcile, clock=SimulatedClock(), backoff=backoff, **arguments
        )

    async def __aenter__(self) -> Controller:
        self.task = asyncio.create_task(self.controller.run())
        return self.controller

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def outcomes(controller: Controller) -> dict[str, float]:
    results = ("success", "requeue_after", "error", "terminal_error")
    values = {r: controller.metrics.reconciles.value("jobs", r) for r in results}
    return {result: value for result, value in values.items() if value}


class Script:
    """A reconcile function that returns or raises a list of outcomes, then succeeds."""

    def __init__(self, *steps: Exception | Result | None) -> None:
        self.steps = list(steps)
        self.times: list[float] = []

    async def __call__(self, request: Request) -> Result | None:
        self.times.append(asyncio.get_running_loop().time() - 1000)
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, Exception):
            raise step
        return step


def test_success_is_not_repeated() -> None:
    async def main() -> None:
        script = Script()
        async with Running(script) as controller:
            controller.enqueue(JOB)
            await asyncio.sleep(3600)

            assert len(script.times) == 1
            assert outcomes(controller) == {"success": 1}
            assert controller.metrics.reconcile_time.count("jobs") == 1

    simulate(main())


def test_a_result_requeues_the_request() -> None:
    async def main() -> None:
        script = Script(Result(requeue_after=30), Result())
        async with Running(script) as controller:
            controller.enqueue(JOB)
            await asyncio.sleep(3600)

            assert script.times == pytest.approx([0, 30], abs=0.01)
            assert outcomes(controller) == {"requeue_after": 1, "success": 1}

    simulate(main())


def test_errors_are_retried_with_growing_delays() -> None:
    async def main() -> None:
        script = Script(*[ValueError("boom")] * 4)
        async with Running(script) as controller:
            controller.enqueue(JOB)
            await asyncio.sleep(3600)

            assert script.times == pytest.approx([0, 1, 3, 7, 15], abs=0.1)
            assert outcomes(controller) == {"error": 4, "success": 1}
            assert controller.metrics.reconcile_errors.value("jobs") == 4

    simulate(main())


def test_a_success_resets_the_back_off() -> None:
    async def main() -> None:
        script = Script(
            ValueError("1"), ValueError("2"), Result(requeue_after=100), ValueError("3")
        )
        async with Running(script) as controller:
            controller.enqueue(JOB)
            await asyncio.sleep(3600)

            assert script.times == pytest.approx([0, 1, 3, 103, 104], abs=0.1)

    simulate(main())


def test_a_terminal_error_is_counted_and_not_retried(capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        script = Script(TerminalError("spec.replicas: cannot ever work"))
        async with Running(script) as controller:
            controller.enqueue(JOB)
            await asyncio.sleep(3600)

            assert len(script.times) == 1
            assert outcomes(controller) == {"terminal_error": 1}
            assert controller.metrics.terminal_errors.value("jobs") == 1

    simulate(main())
    assert "cannot ever work" in capfd.readouterr().err


def test_failures_of_the_server_are_logged_in_one_line_each(
    capfd: pytest.CaptureFixture[str],
) -> None:
    configure_logging(level="info")

    async def main() -> None:
        errors = ServerError("etcd: EOF"), TooManyRequestsError("later"), UnreachableError("away")
        async with Running(Script(*errors)) as controller:
            controller.enqueue(JOB)
            await asyncio.sleep(3600)
            assert outcomes(controller) == {"error": 3, "success": 1}

    simulate(main())
    text = capfd.readouterr().err
    for part in ("ServerError: etcd: EOF", "TooManyRequestsError: later", "away"):
        assert part in text
    assert "Traceback" not in text


def test_lost_races_are_retried_quietly_and_failures_show_their_traceback_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    configure_logging(level="info")
    failures = [ValueError("broken")] * 3

    async def main() -> None:
        script = Script(ConflictError("newer"), AlreadyExistsError("there"), *failures)
        async with Running(script) as controller:
            controller.enqueue(JOB)
            await asyncio.sleep(3600)
            assert outcomes(controller) == {"error": 5, "success": 1}

    simulate(main())
    text = capfd.readouterr().err
    assert text.count("reconcile lost a race") == 2
    assert text.count("reconcile failed") == 3
    assert text.count("Traceback") == 1
    assert "reconcileID=" in text
    assert "namespace=team" in text


def test_what_is_no_fault_of_the_program_shows_no_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    configure_logging(level="info")

    async def main() -> None:
        script = Script(ForbiddenError("no such account"), ExpectedError("refused for now"))
        async with Running(script) as controller:
            controller.enqueue(JOB)
            await asyncio.sleep(3600)
            assert outcomes(controller) == {"error": 2, "success": 1}

    simulate(main())
    text = capfd.readouterr().err
    for part in ("ForbiddenError: no such account", "ExpectedError: refused for now"):
        assert part in text
    assert "Traceback" not in text


def test_retry_after_of_the_server_delays_the_retry() -> None:
    async def main() -> None:
        script = Script(TooManyRequestsError("slow down", retry_after=25))
        async with Running(script) as controller:
            controller.enqueue(JOB)
            await asyncio.sleep(3600)

            assert script.times == pytest.approx([0, 25], abs=0.1)

    simulate(main())


def test_one_request_is_never_reconciled_concurrently() -> None:
    async def main() -> None:
        active = peak = runs = 0

        async def reconcile(_: Request) -> None:
            nonlocal active, peak, runs
            active += 1
            peak = max(peak, active)
            await asyncio.sleep(10)
            active -= 1
            runs += 1

        async with Running(reconcile, workers=4) as controller:
            for _ in range(100):
                controller.enqueue(JOB)
                await asyncio.sleep(1)
            await until(lambda: active == 0 and len(controller.queue) == 0)

            assert peak == 1
            assert runs == 11
            assert controller.metrics.active_workers.value("jobs") == 0

    simulate(main())


def test_requests_are_reconciled_concurrently_by_all_workers() -> None:
    async def main() -> None:
        peak = 0

        async def reconcile(_: Request) -> None:
            nonlocal peak
            peak = max(peak, int(controller.metrics.active_workers.value("jobs")))
            await asyncio.sleep(1)

        async with Running(reconcile, workers=3) as controller:
            for number in range(9):
                controller.enqueue(Request("team", str(number)))
            await asyncio.sleep(10)

            assert peak == 3

    with pytest.raises(ValueError, match="workers must be at least 1"):
        Controller("jobs", Script(), workers=0)
    simulate(main())


def test_every_reconcile_has_an_id_that_its_tasks_inherit() -> None:
    async def main() -> None:
        seen = []

        async def reconcile(_: Request) -> None:
            seen.append(await asyncio.create_task(read()))

        async def read() -> Any:
            return current_reconcile.get()

        async with Running(reconcile) as controller:
            controller.enqueue(JOB)
            controller.enqueue(Request("team", "k"))
            await asyncio.sleep(1)

            assert [(c.controller, c.namespace, c.name) for c in seen] == [
                ("jobs", "team", "j"),
                ("jobs", "team", "k"),
            ]
            assert seen[0].reconcile_id != seen[1].reconcile_id
            assert current_reconcile.get() is None

    simulate(main())


def test_children_trigger_only_their_controller_owner() -> None:
    async def main() -> None:
        server = FakeServer()
        seen: list[Request] = []

        async def reconcile(request: Request) -> None:
            seen.append(request)

        manager = Manager(server.client(), clock=server.clock)
        controller = Controller("jobs", reconcile, clock=server.clock)
        controller.watch(manager.informer(JOBS), own_key)
        controller.watch(manager.informer(PODS), owner_key("Job", "batch"))
        manager.add(controller)
        task = asyncio.create_task(manager.run())
        await manager.wait_synced()

        server.put(PODS, pod("p1", "j", controller=True))
        server.put(PODS, pod("p2", "other"))
        server.put(PODS, pod("p3", "cron", controller=True, kind="CronJob"))
        server.put(PODS, pod("p4", "foreign", controller=True, apiVersion="x.io/v1"))
        await asyncio.sleep(1)
        assert seen == [JOB]

        server.put(PODS, pod("p1", "k", controller=True))
        await asyncio.sleep(1)
        assert seen[1:] == [Request("team", "k"), JOB], "both the new and the old owner"

        server.remove(PODS, "p1", "team")
        server.put(JOBS, {"metadata": {"name": "own", "namespace": "team"}})
        await asyncio.sleep(1)
        assert seen[3:] == [Request("team", "k"), Request("team", "own")]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(main())


def test_the_initial_list_has_lower_priority_than_live_changes() -> None:
    async def main() -> None:
        server = FakeServer()
        for number in range(20):
            server.put(JOBS, {"metadata": {"name": f"old-{number}", "namespace": "team"}})
        seen: list[str] = []

        async def reconcile(request: Request) -> None:
            seen.append(request.name)
            await asyncio.sleep(1)

        manager = Manager(server.client(), clock=server.clock)
        controller = Controller("jobs", reconcile, workers=1, clock=server.clock)
        controller.watch(manager.informer(JOBS), own_key)
        manager.add(controller)
        task = asyncio.create_task(manager.run())
        await until(lambda: len(seen) == 3)
        server.put(JOBS, {"metadata": {"name": "new", "namespace": "team"}})
        await until(lambda: len(seen) == 21)

        assert seen.index("new") <= 4
        assert len(set(seen)) == 21
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(main())


def test_what_has_begun_is_followed_before_more_is_begun() -> None:
    async def main() -> None:
        server = FakeServer()
        seen: list[str] = []

        async def reconcile(request: Request) -> None:
            seen.append(request.name)
            await asyncio.sleep(1)

        manager = Manager(server.client(), clock=server.clock)
        controller = Controller("jobs", reconcile, workers=1, clock=server.clock)
        controller.watch(manager.informer(JOBS), own_key)
        controller.watch(manager.informer(PODS), owner_key("Job", "batch"), priority=FOLLOWING)
        manager.add(controller)
        task = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        for number in range(20):
            server.put(JOBS, {"metadata": {"name": f"new-{number}", "namespace": "team"}})
        await until(lambda: len(seen) == 3)
        server.put(PODS, pod("p", owner="new-0", controller=True))
        await until(lambda: len(seen) == 21)

        assert "new-0" in seen[3:5]
        assert set(seen) == {f"new-{number}" for number in range(20)}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(main())


def test_nothing_is_reconciled_while_another_process_may_lead() -> None:
    async def main() -> None:
        script = Script()
        async with Running(script) as controller:
            leading = False
            controller.allowed = lambda: leading
            controller.enqueue(JOB)
            await asyncio.sleep(30)
            assert script.times == []
            leading = True
            await asyncio.sleep(2)
            assert len(script.times) == 1

    simulate(main())


def test_reconciles_that_never_suspend_yield_to_other_tasks() -> None:
    async def main() -> None:
        seconds = 0

        async def reconcile(_: Request) -> None:
            asyncio.get_running_loop().now += 0.001  # type: ignore[attr-defined]

        async def count() -> None:
            nonlocal seconds
            while True:
                await asyncio.sleep(0.01)
                seconds += 1

        counter = asyncio.create_task(count())
        async with Running(reconcile, workers=1) as controller:
            for number in range(1000):
                controller.enqueue(Request("team", str(number)))
            await until(lambda: not len(controller.queue))
            assert seconds > 50
        counter.cancel()

    simulate(main())
