"""Running a program line by line, so that nothing of it outlives its caller."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_TERM_SECONDS = 5.0
_LONGEST_LINE = 1 << 20


async def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    on_line: Callable[[str], None],
    keep_open: Sequence[int] = (),
) -> int:
    """Run `command` to its end, handing each line of its output to `on_line`.

    On cancellation the program and its children are ended before this returns. `keep_open` are
    file descriptors the program inherits (a lock it must go on holding if this process dies).

    Returns:
        Its exit code, negative for a signal.

    Raises:
        OSError: It cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=_LONGEST_LINE,
        pass_fds=tuple(keep_open),
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            on_line(line.decode(errors="replace").rstrip())
        return await process.wait()
    finally:
        if process.returncode is None:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    for number, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # `communicate` rather than `wait`: a full pipe must not keep it from ending.
                await process.communicate()
            return
