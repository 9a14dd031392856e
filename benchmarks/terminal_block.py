"""The block at the bottom of a terminal while 1,000 pods of one job start within two seconds.

References, in the same run: the same changes without a terminal, and a job of four pods. There is
no cluster: the view is given what its watches would report.
"""

from __future__ import annotations

import asyncio
import io
import os
import time
from typing import Any
from unittest import mock

from traincrew.cli.display.objects import Job, Pod, decode
from traincrew.cli.terminal.block import block
from traincrew.cli.watching.interrupt import Interrupt
from traincrew.cli.watching.live import Live
from traincrew.plan.elasticjob.children import labels
from traincrew.plan.shared.replicas.places import Place

FEW, MANY = 4, 1000
SECONDS = 2.0
TICKS = 100
"""How often in this time watches report something."""


class _Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def _job(workers: int) -> Job:
    template: dict[str, Any] = {}
    document = {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "wide", "namespace": "default", "uid": "uid-wide"},
        "spec": {"replicaSpecs": {"Worker": {"replicas": workers, "template": template}}},
        "status": {"conditions": [{"type": "Running", "status": "True"}]},
    }
    return decode(document, Job)


def _pod(rank: int, *, running: bool) -> Pod:
    name = f"wide-worker-{rank}"
    state = {"running": {"startedAt": "2026-01-01T00:00:01Z"}}
    owner = {"kind": "ElasticJob", "name": "wide", "uid": "uid-wide", "controller": True}
    document = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": labels("wide", Place("Worker", rank)),
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": "node", "containers": [{"name": "main"}]},
        "status": {
            "phase": "Running" if running else "Pending",
            "containerStatuses": [{"name": "main", "state": state}] if running else [],
        },
    }
    return decode(document, Pod)


async def _start(pods: int, *, terminal: bool) -> tuple[float, int]:
    """Let pods start; return the seconds of CPU, and how often the block was derived."""
    changes = [_pod(rank, running=running) for running in (False, True) for rank in range(pods)]
    live = Live(Interrupt(), no_colour=True, stream=_Stream(terminal=terminal))
    with mock.patch("traincrew.cli.watching.live.block", wraps=block) as derived:
        live.follow("ElasticJob", "default", "wide")
        live.show(live.view.job(_job(pods), live.now()))
        waiting = asyncio.create_task(live.until_finished())
        began = time.process_time()
        for tick in range(TICKS):
            # As many as a watch reports in this time.
            first, last = (len(changes) * number // TICKS for number in (tick, tick + 1))
            for change in changes[first:last]:
                live.show(live.view.pod(change, live.now()))
                await asyncio.sleep(0)
            await asyncio.sleep(SECONDS / TICKS)
        used = time.process_time() - began
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await live.stop()
        live.console.close()
    return used, derived.call_count


def main() -> None:
    """Measure and print."""
    os.environ["TERM"] = "xterm"
    for pods in (FEW, MANY):
        used, derived = asyncio.run(_start(pods, terminal=True))
        bare, _ = asyncio.run(_start(pods, terminal=False))
        print(
            f"{pods} pods, {2 * pods} changes in {SECONDS:.0f} s: {used * 1000:.0f} ms of CPU,"
            f" the block derived {derived} times; without a terminal {bare * 1000:.0f} ms;"
            f" ratio {used / bare:.1f}"
        )


if __name__ == "__main__":
    main()
