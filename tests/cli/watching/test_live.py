"""What is on the screen while watches report changes, and how often it is derived."""

import asyncio
import io
import time
from collections.abc import Callable
from unittest import mock

import pytest

from cli.builders import condition, job, pod, running
from cli.screen import left_on
from traincrew.cli.terminal.block import block
from traincrew.cli.watching import live as live_module
from traincrew.cli.watching.interrupt import Interrupt
from traincrew.cli.watching.live import Live
from traincrew.plan.elasticjob.children import labels
from traincrew.plan.shared.replicas.places import Place

NEVER = 3600.0
SPEC = {"replicaSpecs": {"Worker": {"replicas": 200, "template": {}}}}


class TerminalStream(io.StringIO):
    def isatty(self) -> bool:
        return True


class Shown:
    """A view of a job on a terminal of 80 columns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("LINES", "24")
        self._block = mock.Mock(wraps=block)
        monkeypatch.setattr(live_module, "block", self._block)
        self.stream = TerminalStream()
        self.live = Live(Interrupt(), no_colour=True, stream=self.stream)
        self.live.follow("ElasticJob", "default", "wide")
        self.job("Running")

    @property
    def derived(self) -> int:
        """How often the block was derived."""
        return self._block.call_count

    def job(self, phase: str) -> None:
        changed = job(phase, kind="ElasticJob", name="wide", spec=SPEC,
                      version="elastic.pytorch.org/v1alpha1",
                      conditions=[condition(phase)])  # fmt: skip
        self.live.show(self.live.view.job(changed, self.live.now()))

    def pods(self, count: int) -> None:
        for rank in range(count):
            changed = pod(f"wide-worker-{rank}", "Running", running(),
                          owned_by=("ElasticJob", "wide"),
                          labels=labels("wide", Place("Worker", rank)))  # fmt: skip
            self.live.show(self.live.view.pod(changed, self.live.now()))

    def lines(self) -> list[str]:
        return left_on(self.stream.getvalue())

    async def until(self, condition: Callable[[list[str]], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition(self.lines()):
            assert time.monotonic() < deadline, self.lines()
            await asyncio.sleep(0.005)

    async def end(self) -> list[str]:
        await self.live.stop()
        self.live.console.close()
        return self.lines()


async def test_quick_changes_derive_the_block_once_and_the_last_one_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_module, "BLOCK_SECONDS", NEVER)
    monkeypatch.setattr(live_module, "STATUS_EVERY_SECONDS", NEVER)
    shown = Shown(monkeypatch)
    finished = asyncio.create_task(shown.live.until_finished())
    await shown.until(lambda lines: lines[-1].startswith("wide  ▶ Running"))
    shown.pods(100)
    # The lines are written at once, and the block stays below them.
    await shown.until(lambda lines: lines[-2].endswith("wide-worker-99: running"))
    assert shown.lines()[-1].startswith("wide  ▶ Running")
    assert shown.derived == 1

    shown.job("Succeeded")
    await finished
    assert shown.derived == 2
    await shown.until(lambda lines: lines[-1].startswith("wide  ✓ Succeeded"))
    assert shown.lines()[-1].endswith("Worker 100/200")
    assert shown.lines()[-2].endswith("wide: Succeeded")
    end = await shown.end()
    assert not [line for line in end if line.startswith("wide  ")]


async def test_the_newest_state_is_shown_without_another_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_module, "STATUS_EVERY_SECONDS", NEVER)
    shown = Shown(monkeypatch)
    finished = asyncio.create_task(shown.live.until_finished())
    shown.pods(3)
    await shown.until(lambda lines: lines[-1].endswith("Worker 3/200"))
    shown.pods(7)
    await shown.until(lambda lines: lines[-1].endswith("Worker 7/200"))
    finished.cancel()
    await asyncio.gather(finished, return_exceptions=True)
    await shown.end()


async def test_the_time_goes_on_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "STATUS_EVERY_SECONDS", 0.05)
    shown = Shown(monkeypatch)
    finished = asyncio.create_task(shown.live.until_finished())
    await shown.until(lambda lines: "  0:00  " in lines[-1])
    await shown.until(lambda lines: "  0:01  " in lines[-1])
    finished.cancel()
    await asyncio.gather(finished, return_exceptions=True)
    await shown.end()


async def test_the_block_is_up_to_date_below_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "BLOCK_SECONDS", NEVER)
    shown = Shown(monkeypatch)
    shown.pods(5)
    shown.live.show_summary()
    await shown.until(lambda lines: lines[-1].endswith("Worker 5/200"))
    assert any("not finished (Running)" in line for line in shown.lines())
    await shown.end()


async def test_what_the_command_does_at_its_end_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Shown(monkeypatch)
    shown.pods(5)
    shown.live.end_block("stopping")
    # Later than what was requested before, as the event loop keeps the order of times.
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(live_module.BLOCK_SECONDS, later.set)
    await later.wait()
    shown.live.say("the last line")
    await shown.until(lambda lines: lines[-2].endswith("the last line"))
    assert shown.lines()[-1] == "stopping"
    assert await shown.end() == [*shown.lines()[:-1], ""]
