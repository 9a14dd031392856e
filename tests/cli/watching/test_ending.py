"""What counts as a job that has ended in time."""

import asyncio
import io

import pytest

from cli.builders import job
from traincrew.cli.watching.ending import Interrupted, until_end
from traincrew.cli.watching.interrupt import Interrupt
from traincrew.cli.watching.live import Live
from traincrew.cli.watching.outcome import TIMED_OUT


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
async def test_the_last_lines_may_take_longer_than_the_time_limit(phase: str) -> None:
    interrupt = Interrupt()
    live = Live(interrupt, no_colour=True, stream=io.StringIO())
    live.follow("ChainerJob", "default", "digits")
    written = asyncio.Event()

    async def work() -> int:
        live.view.job(job(phase), live.now())
        if phase == "Succeeded":
            asyncio.get_running_loop().call_later(0.2, written.set)
        await written.wait()
        return 0

    end = await until_end(work(), live, interrupt, 0.01)
    if phase == "Succeeded":
        assert end == 0
    else:
        assert end == Interrupted("--timeout after 0.0 s", TIMED_OUT)
    await live.stop()
    live.console.close()
