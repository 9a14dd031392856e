"""Running a program on a terminal of its own, so that none of its processes outlives the caller."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_TERM_SECONDS = 5.0
_CHUNK_BYTES = 1 << 16
# Wide enough that no message is wrapped; progress bars are padded to it.
_COLUMNS = 400
_ROWS = 50
# The umask of this process might let other users write what is installed. A session without a
# controlling terminal gets the first one that its leader opens.
_TAKE_TERMINAL = 'umask g-w,o-w; exec 3<"$0"; exec "$@" 3<&-'


async def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    on_text: Callable[[str], None],
    keep_open: Sequence[int] = (),
) -> int:
    """Run `command` to its end, passing its output to `on_text` as it arrives.

    It has a terminal, because programs report the progress of downloads on terminals only. On
    cancellation the program and its children are killed before this returns; if this process is
    killed, they get SIGHUP. `keep_open` are file descriptors that the program inherits (a lock that
    it must hold until it has ended).

    Returns:
        Its exit code, negative for a signal.

    Raises:
        OSError: It cannot be started.
    """
    reading, writing = pty.openpty()
    try:
        fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        os.set_blocking(reading, False)
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _TAKE_TERMINAL,
                os.ttyname(writing),
                *command,
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                pass_fds=tuple(keep_open),
                start_new_session=True,
                preexec_fn=_restore_hang_up if _ignores_hang_up() else None,
            )
        finally:
            os.close(writing)
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

        def read() -> bool:
            """Read available output; return whether there was any."""
            try:
                data = os.read(reading, _CHUNK_BYTES)
            except BlockingIOError:
                return False
            except OSError:  # EIO: every process that had the terminal has ended
                data = b""
            if not data:
                asyncio.get_running_loop().remove_reader(reading)
                return False
            on_text(decoder.decode(data))
            return True

        loop = asyncio.get_running_loop()
        loop.add_reader(reading, read)
        try:
            code = await process.wait()
            while read():
                pass
            return code
        finally:
            loop.remove_reader(reading)
            if process.returncode is None:
                await _end(process)
    finally:
        os.close(reading)


def _ignores_hang_up() -> bool:
    """Return whether SIGHUP is ignored (by nohup, for example), which programs would inherit."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def _restore_hang_up() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


async def _end(process: asyncio.subprocess.Process) -> None:
    for number, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await process.wait()
            break
    # Its remaining children, too.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
