"""Operators as processes of this machine: started, killed, frozen, and restarted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import TracebackType

READY = "operator is ready"
LEADING = "leading"
LOST = "leadership lost"


class Operator:
    """`traincrew operator`, one process at a time; stopped at the end of the ``with`` block.

    Args:
        kubeconfig: The API server, or a proxy to it.
        log: File for the output of all its processes.
        arguments: Command line arguments.
    """

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str) -> None:
        self._kubeconfig = kubeconfig
        self._log = log
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._began = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.kill()

    async def start(self) -> None:
        """Start a process."""
        assert self._process is None or self._process.returncode is not None
        self._began = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "traincrew.cli", "operator"),
                f"--kubeconfig={self._kubeconfig}",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; do nothing if it has ended."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def kill(self) -> None:
        """Kill it, and wait for its end."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    async def ended(self, seconds: float | None) -> int:
        """Wait until it ends by itself; return its exit code."""
        assert self._process is not None
        async with asyncio.timeout(seconds):
            return await self._process.wait()

    async def says(self, text: str, seconds: float = 60.0) -> float:
        """Wait for a line in this process' log; return when it was seen.

        Raises:
            AssertionError: It ended, or did not log the line in time.
        """
        deadline = time.monotonic() + seconds
        while text not in (said := self.said()):
            assert self._process is not None
            assert self._process.returncode is None, f"the operator has ended:\n{said[-3000:]}"
            assert time.monotonic() < deadline, f"not said in time: {text!r}\n{said[-3000:]}"
            await asyncio.sleep(0.01)
        return time.monotonic()

    def said(self, *, ever: bool = False) -> str:
        """Return the log of this process, or of all of them."""
        return self._log.read_bytes()[0 if ever else self._began :].decode(errors="replace")


@contextlib.asynccontextmanager
async def kept_running(operator: Operator) -> AsyncIterator[None]:
    """Restart the operator whenever it ends, as the kubelet does with its container."""

    async def keep() -> None:
        while True:
            await operator.ended(None)
            await operator.start()

    await operator.start()
    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await operator.kill()
