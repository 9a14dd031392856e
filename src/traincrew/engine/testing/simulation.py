"""Simulated time."""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

R = TypeVar("R")

_START = datetime(2026, 1, 1, tzinfo=UTC)
_EPOCH = 1000.0
_TICK = 1e-6
# Real seconds to wait for real input before a simulation that has no timers counts as stuck.
_PATIENCE = 5.0


class _SkippingSelector(selectors.BaseSelector):
    """Never waits for time to pass: advances the loop's time instead."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._inner = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._inner.select(_PATIENCE if timeout is None else 0)
        if not ready:
            if timeout is None:
                raise RuntimeError("simulation is stuck: no timer is set and nothing can happen")
            # An iteration of the loop takes time, or a busy task would keep timers from firing.
            self._loop.now += max(timeout, _TICK)
        return ready

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer when nothing else is left to do."""

    def __init__(self) -> None:
        self.now = _EPOCH
        super().__init__(_SkippingSelector(self))

    def time(self) -> float:
        """Simulated seconds."""
        return self.now


class SimulatedClock:
    """Reads the time of the running simulated loop; the wall clock can be shifted.

    Attributes:
        wall_offset: Seconds the wall clock is ahead of the simulated time.
    """

    def __init__(self) -> None:
        self.wall_offset = 0.0

    def monotonic(self) -> float:
        """Return the running loop's time; without a loop, the time at which simulations begin."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return _EPOCH

    def now(self) -> datetime:
        """Return 2026-01-01 plus the simulated seconds plus ``wall_offset``."""
        return _START + timedelta(seconds=self.monotonic() - _EPOCH + self.wall_offset)


class ManualClock:
    """A clock that stands still until it is advanced; for code that never waits."""

    def __init__(self) -> None:
        self._seconds = _EPOCH

    def monotonic(self) -> float:
        """Return the current reading, in seconds."""
        return self._seconds

    def now(self) -> datetime:
        """Return 2026-01-01 plus the seconds by which it was advanced."""
        return _START + timedelta(seconds=self._seconds - _EPOCH)

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._seconds += seconds


def simulate(main: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in simulated time.

    Raises:
        RuntimeError: Every task waits, and no timer is set.
    """
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(main)


async def until(
    condition: Callable[[], object],
    timeout: float = 60.0,  # noqa: ASYNC109 - the message says what did not happen
    *,
    interval: float = 0.01,
) -> None:
    """Wait until a condition holds; works in real and in simulated time.

    Args:
        condition: Called repeatedly.
        timeout: Seconds.
        interval: Seconds between two calls.

    Raises:
        TimeoutError: It did not hold in time.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while not condition():
        if loop.time() >= deadline:
            raise TimeoutError(f"condition did not hold within {timeout:g} s")
        await asyncio.sleep(interval)
