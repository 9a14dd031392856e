"""What ends a run before its jobs do."""

import asyncio
import os
import signal

import pytest

from traincrew.cli.watching.interrupt import Interrupt


@pytest.mark.parametrize(
    ("number", "name", "code"),
    [
        (signal.SIGINT, "Ctrl-C", 130),
        (signal.SIGTERM, "SIGTERM", 143),
        (signal.SIGHUP, "SIGHUP", 129),
    ],
)
async def test_a_signal_ends_the_run_with_the_code_of_shells(
    number: signal.Signals, name: str, code: int
) -> None:
    interrupt = Interrupt()
    interrupt.listen()
    os.kill(os.getpid(), number)
    await interrupt.wait()
    assert (interrupt.name, interrupt.exit_code) == (name, code)


async def test_the_first_signal_counts() -> None:
    interrupt = Interrupt()
    interrupt.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    await interrupt.wait()
    await asyncio.to_thread(interrupt.reader_left)
    await asyncio.sleep(0)
    assert interrupt.exit_code == 128 + signal.SIGTERM


async def test_a_closed_output_is_reported_from_any_thread() -> None:
    interrupt = Interrupt()
    interrupt.reader_left()  # before the start: nothing to end
    interrupt.listen()
    await asyncio.to_thread(interrupt.reader_left)
    await interrupt.wait()
    assert interrupt.name == "nobody reads the output"
    assert interrupt.exit_code == 141
