"""A whole embedded cluster in a process of its own, for tests that block in kubectl."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CLUSTER = """
import asyncio, signal, sys
from pathlib import Path
from traincrew.local.cluster import ClusterOptions, LocalCluster

async def main():
    async with LocalCluster(ClusterOptions(directory=Path(sys.argv[1]))) as cluster:
        running = asyncio.create_task(cluster.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        print("up", flush=True)
        await asyncio.gather(running, return_exceptions=True)

asyncio.run(main())
"""


@contextmanager
def running_cluster(directory: Path) -> Iterator[dict[str, Any]]:
    """Run a cluster and yield its kubeconfig; stop it with all its pods at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", _CLUSTER, str(directory)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield yaml.safe_load((directory / "kubeconfig").read_text())
    finally:
        process.terminate()
        process.communicate(timeout=60)
