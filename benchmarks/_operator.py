"""An operator in a process of its own."""

from __future__ import annotations

import asyncio
import collections
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from benchmarks._usage import cpu_seconds

if TYPE_CHECKING:
    from pathlib import Path

SETTLE_SECONDS = 5.0
"""Seconds without work of the operator after which it is idle."""


class Operator:
    """A running operator, of all kinds.

    Args:
        kubeconfig: Its cluster.
    """

    def __init__(self, kubeconfig: Path) -> None:
        command = ["operator", f"--kubeconfig={kubeconfig}", "--no-leader-elect"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "traincrew.cli", *command], stderr=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "operator is ready" in line:
                break
        else:
            raise SystemExit("the operator has not started")
        # Its further output is not needed, but its pipe must not fill up.
        rest = self._process.stderr
        threading.Thread(target=lambda: collections.deque(rest, 0), daemon=True).start()

    async def until_idle(self) -> None:
        """Wait until it is idle."""
        used, since = cpu_seconds(self.pid), time.monotonic()
        while time.monotonic() - since < SETTLE_SECONDS:
            await asyncio.sleep(0.5)
            if (now := cpu_seconds(self.pid)) > used + 0.05:
                used, since = now, time.monotonic()

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
