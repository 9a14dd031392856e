"""Two operator processes: the leader is killed, and the standby writes within 6 s."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from harness import OPERATOR_AGENT, Cluster
from plan.chainerjob.world import distributed
from traincrew.engine.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from traincrew.local.apiserver.http.faults import AuditRecord

LIMIT = 6.0
"""Seconds from the end of the leader to the first write of the standby."""
NAMES = ("first", "second")


@contextlib.asynccontextmanager
async def operator(kubeconfig: Path, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "traincrew.cli",
            "operator",
            f"--kubeconfig={kubeconfig}",
            "--helper-image=traincrew/helper:test",
            stderr=output,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def says(log: Path, words: str, cluster: Cluster) -> None:
    async def said() -> bool:
        return words in log.read_text()

    await cluster.until(said)


@pytest.mark.parametrize("offset", [0.0, 0.3, 0.6])
async def test_the_standby_writes_within_six_seconds(tmp_path: Path, offset: float) -> None:
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster())
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_bytes(msgspec.json.encode(cluster.server.kubeconfig()))
        processes = []
        for name in NAMES:
            log = tmp_path / f"{name}.log"
            process = await stack.enter_async_context(operator(kubeconfig, log))
            await says(log, "operator is ready", cluster)
            processes.append(process)
            if name == NAMES[0]:
                await says(log, "leading", cluster)
        writes: list[float] = []

        def heard(record: AuditRecord) -> None:
            if (
                record.method not in {"GET", "HEAD"}
                and record.user_agent.startswith(OPERATOR_AGENT)
                and "/leases" not in record.path
                and "/events" not in record.path
            ):
                writes.append(time.monotonic())

        await renewed(cluster)
        await asyncio.sleep(offset)
        processes[0].kill()
        killed = time.monotonic()
        await processes[0].wait()
        cluster.server.audit = heard
        await cluster.create(distributed())

        async def written() -> bool:
            return bool(writes)

        await cluster.until(written)
        seconds = writes[0] - killed
        sys.stdout.write(f"first write {seconds:.2f} s after the leader was killed\n")
        assert seconds <= LIMIT


async def renewed(cluster: Cluster) -> None:
    """Wait until the Lease is renewed."""
    seen: set[str] = set()

    async def again() -> bool:
        lease = await cluster.client.get(LEASES, "chainer-operator", "default")
        seen.add(lease["spec"]["renewTime"])
        return len(seen) > 1

    await cluster.until(again)
