"""What is urgent goes first, and events give way to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from traincrew.engine.events import EventRecorder
from traincrew.engine.gate import Gate
from traincrew.engine.observability import Metrics
from traincrew.engine.resources import EVENTS
from traincrew.engine.testing import FakeServer, simulate, until

if TYPE_CHECKING:
    from collections.abc import Callable


def job(name: str) -> dict[str, Any]:
    return {"kind": "Job", "metadata": {"name": name, "namespace": "team", "uid": name}}


class Recording:
    """A recorder that gives way to a gate."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.gate = Gate()
        self.metrics = Metrics()
        self.recorder = EventRecorder(
            self.server.client(),
            "traincrew",
            gate=self.gate,
            clock=self.server.clock,
            metrics=self.metrics,
        )

    async def __aenter__(self) -> EventRecorder:
        self.task = asyncio.create_task(self.recorder.run())
        return self.recorder

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def written(self) -> list[str]:
        """Messages of the written events, in the order in which kubectl shows them."""
        found = sorted(self.server.all(EVENTS), key=lambda event: event["metadata"]["name"])
        return [event["message"] for event in found]


def in_burst(gate: Gate) -> bool:
    return gate.in_burst


def seconds() -> float:
    return asyncio.get_running_loop().time()


def test_events_wait_until_nothing_is_urgent() -> None:
    async def main() -> None:
        recording = Recording()
        async with recording as recorder:
            with recording.gate.urgent():
                for number in range(50):
                    recorder.event(job(f"j{number}"), "Normal", "X", "y")
                await asyncio.sleep(5)
                assert recording.written == []
            began = seconds()
            await until(lambda: len(recording.written) == 50)
            assert seconds() - began < 1

    simulate(main())


def test_a_moment_between_two_urgent_requests_is_no_end() -> None:
    async def main() -> None:
        recording = Recording()
        async with recording as recorder:
            recorder.event(job("j"), "Normal", "X", "first")
            await until(lambda: recording.written == ["first"])
            for _ in range(20):
                with recording.gate.urgent():
                    recorder.event(job("j"), "Normal", "X", "second")
                    await asyncio.sleep(0.2)
                await asyncio.sleep(0.02)
            assert recording.written == ["first"]

    simulate(main())


def test_an_overdue_event_is_written_one_at_a_time() -> None:
    """Whatever is urgent, and for however long: no event waits for ever."""

    async def main() -> None:
        recording = Recording()
        recording.server.fail("POST", "/events", delay=1, times=1000)
        most = 0
        async with recording as recorder:
            with recording.gate.urgent():
                for number in range(30):
                    recorder.event(job(f"j{number}"), "Normal", "X", "y")
                await asyncio.sleep(9.5)
                assert recording.server.requests == []
                await asyncio.sleep(10)
                most = len(recording.server.requests)
            assert 9 <= most <= 11
            await until(lambda: len(recording.written) == 30)

    simulate(main())


@pytest.mark.parametrize("name", ["j", "another"])
def test_a_warning_does_not_wait_and_keeps_its_place(name: str) -> None:
    async def main() -> None:
        recording = Recording()
        async with recording as recorder:
            with recording.gate.urgent():
                recorder.event(job("j"), "Normal", "Created", "created")
                recorder.event(job(name), "Warning", "Failed", "failed")
                recorder.event(job(name), "Normal", "Deleted", "deleted")
                await until(lambda: "failed" in recording.written, 1)
                if name == "j":
                    assert recording.written == ["created", "failed"]
            await until(lambda: len(recording.written) == 3)
        of_job = [event for event in recording.written if name == "j" or event != "created"]
        assert of_job[-2:] == ["failed", "deleted"]

    simulate(main())


def test_few_events_are_held_back() -> None:
    """So that a process that ends can write all of them."""

    async def main() -> None:
        recording = Recording()
        async with recording as recorder:
            with recording.gate.urgent():
                for number in range(3000):
                    recorder.event(job(f"j{number}"), "Normal", "X", "y")
                await asyncio.sleep(9)
                assert 2000 <= len(recording.written) <= 3000

    simulate(main())


def test_stopping_writes_what_was_held_back() -> None:
    async def main() -> None:
        recording = Recording()
        recording.server.fail("POST", "/events", delay=0.01, times=10000)
        async with recording as recorder:
            with recording.gate.urgent():
                for number in range(500):
                    recorder.event(job(f"j{number}"), "Normal", "X", "first")
                    recorder.event(job(f"j{number}"), "Normal", "X", "second")
                await asyncio.sleep(1)
                assert recording.written == []
                began = seconds()
                await recording.__aexit__()
                assert seconds() - began <= 3
        assert len(recording.written) == 1000
        assert recording.metrics.events_dropped.value("stopped") == 0

    simulate(main())


def test_stopping_while_an_overdue_event_is_written() -> None:
    async def main() -> None:
        recording = Recording()
        recording.server.fail("POST", "/events", delay=0.1, times=10000)
        async with recording as recorder:
            with recording.gate.urgent():
                for number in range(20):
                    recorder.event(job(f"j{number}"), "Normal", "X", f"{number}")
                await asyncio.sleep(10.55)
                await recording.__aexit__()
        assert sorted(recording.written, key=int) == [str(number) for number in range(20)]

    simulate(main())


def test_more_urgent_requests_than_a_few_are_a_burst() -> None:
    async def main() -> None:
        gate = Gate(burst=2)
        ended: list[float] = []
        gate.on_end_of_burst(lambda: ended.append(seconds()))

        async def send(duration: float) -> None:
            with gate.urgent():
                await asyncio.sleep(duration)

        await asyncio.gather(send(1), send(1))
        assert not in_burst(gate)
        assert ended == []
        began = seconds()
        sending = asyncio.gather(send(1), send(2), send(5))
        await asyncio.sleep(0.1)
        assert in_burst(gate)
        await asyncio.sleep(4)
        assert in_burst(gate), "until the last one of them has ended"
        await sending
        assert not in_burst(gate)
        assert [round(at - began) for at in ended] == [5]

    simulate(main())


def test_a_request_that_fails_is_over() -> None:
    async def main() -> None:
        gate = Gate(burst=0)
        calls: list[Callable[[], None]] = []
        gate.on_end_of_burst(lambda: calls.append(lambda: None))
        with pytest.raises(RuntimeError), gate.urgent():
            raise RuntimeError
        assert not in_burst(gate)
        assert len(calls) == 1

    simulate(main())
