"""Asking a program: starting it, and reading what it prints, within limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Answer", "OutputTooLongError", "ask_program"]

MAX_INPUT = 4096
"""Bytes that a pipe always takes (``PIPE_BUF`` of Linux)."""
_CHUNK_BYTES = 1 << 16


class OutputTooLongError(ValueError):
    """A program printed more than it may."""


class Answer(NamedTuple):
    """What a program printed on standard output, and its exit code: negative for a signal."""

    output: bytes
    code: int


async def ask_program(
    command: Sequence[str],
    *,
    seconds: float,
    max_output: int,
    data: bytes | None = b"",
    quiet: bool = True,
    environment: Mapping[str, str] | None = None,
) -> Answer:
    """Run a program to its end and return what it printed.

    It has ended when this returns or raises. If it did not end by itself, its process group is
    killed; what left the group may live on, but nothing waits for it.

    Args:
        command: A path or a name on ``PATH``, and the arguments.
        seconds: How long it may take.
        max_output: Bytes that it may print.
        data: What it reads from standard input, at most `MAX_INPUT` bytes; None leaves it this
            process' standard input and terminal, to ask a person.
        quiet: Discard what it prints on standard error.
        environment: Its environment variables; this process' own by default.

    Raises:
        OSError: It cannot be started.
        TimeoutError: It did not end in time.
        OutputTooLongError: It printed more than `max_output` bytes.
        ValueError: `data` is too long.
    """
    if data is not None and len(data) > MAX_INPUT:
        raise ValueError(f"a program can be given {MAX_INPUT} bytes, not {len(data)}")
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        source = DEVNULL if not data else _filled(data)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=None if data is None else source,
                stdout=writing,
                stderr=DEVNULL if quiet else None,
                env=environment,
                # A program in a session of its own cannot take the terminal.
                start_new_session=data is not None,
            )
        finally:
            os.close(writing)
            if source != DEVNULL:
                os.close(source)
        try:
            async with asyncio.timeout(seconds):
                output = await _read(reading, max_output)
                return Answer(output, await process.wait())
        finally:
            if process.returncode is None:
                await _end(process, whole_group=data is not None)
    finally:
        os.close(reading)


def _filled(data: bytes) -> int:
    """Return the reading end of a pipe that has these bytes, and whose other end is closed."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return reading


async def _read(descriptor: int, most: int) -> bytes:
    """Return what arrives until every process has closed the other end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    output = bytearray()

    def read() -> None:
        try:
            data = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            return
        output.extend(data)
        if not data or len(output) > most:
            loop.remove_reader(descriptor)
            if not ended.done():
                ended.set_result(None)

    loop.add_reader(descriptor, read)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
    if len(output) > most:
        raise OutputTooLongError
    return bytes(output)


async def _end(process: asyncio.subprocess.Process, *, whole_group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if whole_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    await process.wait()
