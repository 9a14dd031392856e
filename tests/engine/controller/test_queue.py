"""The work queue: one behaviour per test, then a model."""

import asyncio
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from traincrew.engine.backoff import Backoff
from traincrew.engine.controller import WorkQueue
from traincrew.engine.controller.queue import FOLLOWING, LIVE, STARTUP
from traincrew.engine.observability import Metrics
from traincrew.engine.testing import ManualClock, SimulatedClock, simulate, until


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> WorkQueue[str]:
    return WorkQueue("q", clock=clock, backoff=Backoff(1.0, 60.0, jitter=0.0))


def test_keys_are_returned_in_order_of_arrival(queue: WorkQueue[str]) -> None:
    for key in "abc":
        queue.add(key)

    assert [queue.get_nowait() for _ in range(4)] == ["a", "b", "c", None]


def test_a_key_added_twice_is_returned_once(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("a")

    assert len(queue) == 1
    assert [queue.get_nowait(), queue.get_nowait()] == ["a", None]


def test_a_key_with_a_worker_is_not_returned_again_until_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add("a")
    queue.add("b")

    assert [queue.get_nowait(), queue.get_nowait()] == ["b", None]
    queue.done("a")
    assert queue.get_nowait() == "a"


def test_a_delay_that_ends_while_the_key_is_with_a_worker_waits_for_it(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add("a", after=5)
    clock.advance(10)

    assert queue.get_nowait() is None
    queue.done("a")
    assert queue.get_nowait() == "a"


def test_the_earlier_of_two_deadlines_counts(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add("a", after=10)
    queue.add("a", after=5)
    queue.add("a", after=20)
    clock.advance(4.9)
    assert queue.get_nowait() is None
    clock.advance(0.1)
    assert queue.get_nowait() == "a"
    queue.done("a")
    clock.advance(100)

    assert queue.get_nowait() is None, "the later deadlines are gone"


def test_adding_without_delay_overrides_a_delay(queue: WorkQueue[str], clock: ManualClock) -> None:
    queue.add("a", after=10)
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.done("a")
    clock.advance(100)

    assert queue.get_nowait() is None


def test_live_work_comes_before_start_up_work(queue: WorkQueue[str]) -> None:
    queue.add("old", priority=STARTUP)
    queue.add("older", priority=STARTUP)
    queue.add("new", priority=LIVE)

    assert [queue.get_nowait() for _ in range(3)] == ["new", "old", "older"]


def test_the_higher_of_two_priorities_counts(queue: WorkQueue[str]) -> None:
    queue.add("a", priority=STARTUP)
    queue.add("b", priority=STARTUP)
    queue.add("b", priority=LIVE)
    queue.add("b", priority=STARTUP)

    assert len(queue) == 2
    assert [queue.get_nowait() for _ in range(3)] == ["b", "a", None]


def test_a_worker_adds_its_key_again_with_the_same_priority_or_live(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    queue.add("begun", priority=FOLLOWING)
    queue.add("failing", priority=FOLLOWING)
    queue.add("listed", priority=STARTUP)
    keys = [queue.get_nowait() for _ in range(3)]
    queue.add("listed", after=1)
    queue.add("failing", after=1)
    queue.add("begun", after=1)
    for key in keys:
        assert key is not None
        queue.done(key)
    clock.advance(1)
    queue.add("new")
    queue.add("last", priority=STARTUP)

    taken = [queue.get_nowait() for _ in range(5)]
    assert taken == ["failing", "begun", "new", "listed", "last"]


def test_priority_raised_while_delayed_or_with_a_worker_is_kept(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add("a", priority=STARTUP)
    queue.add("a", priority=LIVE)
    queue.add("b", priority=STARTUP, after=1)
    queue.add("b", priority=LIVE, after=1)
    queue.add("c", priority=STARTUP)
    clock.advance(1)
    queue.done("a")

    assert sorted([str(queue.get_nowait()), str(queue.get_nowait())]) == ["a", "b"]
    assert queue.get_nowait() == "c"


def test_retries_back_off_per_key_until_it_is_forgotten(queue: WorkQueue[str]) -> None:
    assert [queue.retry("a") for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert queue.retry("b") == 1
    assert queue.failures("a") == 8
    queue.forget("a")

    assert queue.retry("a") == 1


def test_a_retry_waits_at_least_as_long_as_the_server_requested(queue: WorkQueue[str]) -> None:
    assert queue.retry("a", at_least=7.5) == 7.5


def test_jitter_spreads_delays() -> None:
    backoff = Backoff(1.0, 60.0, jitter=0.5, rng=random.Random(1))
    delays = {backoff.delay(3) for _ in range(100)}

    assert len(delays) > 90
    assert min(delays) >= 8
    assert max(delays) <= 12


def test_a_waiting_worker_gets_a_key_that_becomes_due() -> None:
    async def main() -> None:
        queue = WorkQueue[str](clock=SimulatedClock())
        loop = asyncio.get_running_loop()
        queue.add("late", after=30)
        queue.add("soon", after=3)
        started = loop.time()
        assert await queue.get() == "soon"
        assert loop.time() - started == pytest.approx(3, abs=0.01)
        assert await queue.get() == "late"
        assert loop.time() - started == pytest.approx(30, abs=0.01)

    simulate(main())


def test_a_deadline_moved_up_wakes_a_waiting_worker_earlier() -> None:
    async def main() -> None:
        queue = WorkQueue[str](clock=SimulatedClock())
        loop = asyncio.get_running_loop()
        queue.add("a", after=30)
        getter = asyncio.create_task(queue.get())
        await asyncio.sleep(1)
        queue.add("a", after=1)
        started = loop.time()
        assert await getter == "a"
        assert loop.time() - started == pytest.approx(1, abs=0.01)

    simulate(main())


def test_no_key_is_lost_when_a_waiting_worker_is_cancelled() -> None:
    async def main() -> None:
        queue = WorkQueue[str](clock=SimulatedClock())
        first, second = (asyncio.create_task(queue.get()) for _ in range(2))
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, 5) == "a"
        assert first.cancelled()

    simulate(main())


def test_many_workers_never_share_a_key() -> None:
    async def main() -> None:
        queue = WorkQueue[int](clock=SimulatedClock())
        rng = random.Random(7)
        active: set[int] = set()
        done = dict.fromkeys(range(5), 0)

        async def work() -> None:
            while True:
                key = await queue.get()
                assert key not in active
                active.add(key)
                await asyncio.sleep(rng.random())
                active.remove(key)
                done[key] += 1
                queue.done(key)

        workers = [asyncio.create_task(work()) for _ in range(8)]
        for _ in range(300):
            queue.add(rng.randrange(5), after=rng.choice([0, 0, 0.3]))
            await asyncio.sleep(rng.random() / 10)
        await until(lambda: queue.pending == 0 and not active)
        assert min(done.values()) > 10
        for worker in workers:
            assert not worker.done()
            worker.cancel()

    simulate(main())


def test_metrics_are_those_of_client_go(clock: ManualClock) -> None:
    metrics = Metrics()
    queue = WorkQueue[str]("jobs", clock=clock, metrics=metrics)
    queue.add("a")
    queue.add("b")
    queue.add("b")
    assert metrics.queue_depth.value("jobs") == 2
    assert metrics.queue_adds.value("jobs") == 3
    clock.advance(2)
    assert queue.get_nowait() == "a"
    clock.advance(3)

    assert metrics.queue_unfinished.value("jobs") == 3
    assert metrics.queue_longest.value("jobs") == 3
    assert metrics.queue_wait.labels("jobs").total == 2
    queue.done("a")
    queue.retry("a")
    assert metrics.queue_work.labels("jobs").total == 3
    assert metrics.queue_retries.value("jobs") == 1
    assert metrics.queue_longest.value("jobs") == 0


class QueueModel(RuleBasedStateMachine):
    """The queue against the simplest implementation of its rules."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.queue: WorkQueue[int] = WorkQueue("m", clock=self.clock)
        self.waiting: dict[int, tuple[int, float]] = {}  # key -> priority, ready at
        self.working: set[int] = set()

    @rule(
        key=st.integers(0, 4),
        priority=st.sampled_from([LIVE, STARTUP]),
        after=st.sampled_from([0.0, 0.0, 1.0, 2.5, 7.0]),
    )
    def add(self, key: int, priority: int, after: float) -> None:
        self.queue.add(key, priority=priority, after=after)
        due = self.clock.monotonic() + after
        if key in self.waiting:
            earlier_priority, earlier_due = self.waiting[key]
            priority, due = max(priority, earlier_priority), min(due, earlier_due)
        self.waiting[key] = (priority, due)

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def get(self) -> None:
        now = self.clock.monotonic()
        allowed = {
            key: priority
            for key, (priority, due) in self.waiting.items()
            if due <= now and key not in self.working
        }
        key = self.queue.get_nowait()
        if key is None:
            assert not allowed
            return
        assert key in allowed, "only what is due and with no worker"
        assert allowed[key] == max(allowed.values()), "highest priority first"
        del self.waiting[key]
        self.working.add(key)

    @rule(choose=st.randoms(use_true_random=False))
    def done(self, choose: random.Random) -> None:
        if self.working:
            key = choose.choice(sorted(self.working))
            self.working.remove(key)
            self.queue.done(key)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.queue.pending == len(self.waiting)


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
