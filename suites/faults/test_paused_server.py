"""An API server that is stopped again and again: two operators, and somebody leads soon after."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING

import aiohttp
import pytest

from cli.programs import Machine, kubeconfig_of, machine
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["machine"]

PAUSES = 10
SECONDS = 6.0
"""Longer than the Lease."""
LIMIT = 5.0
"""Seconds after the end of a pause within which somebody leads."""
_LEADS = re.compile(r'(?m)^leader_election_master_status\{name="chainer-operator"\} (\S+)$')
_LOST = re.compile(r"(?m)^traincrew_leadership_lost_total (\S+)$")


class Operator:
    """An operator with an address for its health and metrics."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self.process = process
        self.log = log
        self._url = f"http://127.0.0.1:{port}"

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and text; 0 if nothing listens."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(self._url + path, timeout=aiohttp.ClientTimeout(total=2)) as answer,
            ):
                return answer.status, await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return 0, ""

    async def number(self, pattern: re.Pattern[str]) -> float:
        _, text = await self.get("/metrics")
        found = pattern.search(text)
        return float(found[1]) if found else 0.0

    async def is_ready(self) -> bool:
        return (await self.get("/readyz"))[0] == 200


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def operator(kubeconfig: Path, log: Path) -> AsyncIterator[Operator]:
    port = free_port()
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "traincrew.cli", "operator"),
            f"--kubeconfig={kubeconfig}",
            f"--metrics-address=127.0.0.1:{port}",
            stderr=output,
        )
    try:
        yield Operator(process, port, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def leaders(operators: list[Operator]) -> int:
    return sum([await each.number(_LEADS) == 1.0 for each in operators])


async def until_led(operators: list[Operator], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not await leaders(operators):
            await asyncio.sleep(0.05)


async def until_ready(operators: list[Operator], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not all([await each.is_ready() for each in operators]):
            await asyncio.sleep(0.05)


@pytest.mark.timeout(400)
async def test_somebody_leads_within_five_seconds_after_each_of_ten_pauses(
    machine: Machine,
    tmp_path: Path,
) -> None:
    kubeconfig = kubeconfig_of(machine("up", "--no-operator"))
    server = machine.status()["process"]
    async with contextlib.AsyncExitStack() as stack:
        operators = [
            await stack.enter_async_context(operator(kubeconfig, tmp_path / f"{number}.log"))
            for number in range(2)
        ]
        await until_led(operators, 60)
        await until_ready(operators, 60)
        waits = []
        for _ in range(PAUSES):
            os.kill(server, signal.SIGSTOP)
            try:
                ends = time.monotonic() + SECONDS
                while time.monotonic() < ends:
                    assert await leaders(operators) <= 1
                    await asyncio.sleep(0.2)
            finally:
                os.kill(server, signal.SIGCONT)
            resumed = time.monotonic()
            await until_led(operators, 30)
            waits.append(time.monotonic() - resumed)
        sys.stdout.write("leading again after " + ", ".join(f"{wait:.2f}" for wait in waits) + "\n")
        assert max(waits) <= LIMIT
        assert sum([await each.number(_LOST) for each in operators]) == PAUSES
        assert [each.process.returncode for each in operators] == [None, None]
        await until_ready(operators, 30)
        assert [(await each.get("/healthz"))[0] for each in operators] == [200, 200]
        assert await leaders(operators) == 1
        async with Client(load_config(str(kubeconfig))) as client:
            lease = await client.get(LEASES, "chainer-operator", "default")
        assert lease["spec"]["holderIdentity"]
        for each in operators:
            each.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                assert await each.process.wait() == 0
