"""Memory of an idle operator that serves all kinds.

Reference in the same run: a Python process that has only imported the libraries the operator uses.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._operator import Operator
from benchmarks._usage import peak_mebibytes, resident_mebibytes
from traincrew.api.kinds import KINDS

GOAL_MEBIBYTES = 55
LIBRARIES = "aiohttp, msgspec, prometheus_client, structlog"


def _libraries_mebibytes() -> float:
    """Return the memory of a process with the libraries alone."""
    program = f"import {LIBRARIES}; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = resident_mebibytes(process.pid)
        process.kill()
    return found


def main() -> None:
    """Measure and print."""
    # On a signal, stop the server and the operator, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory() as scratch:
        kubeconfig = Path(scratch) / "kubeconfig"
        program = "import benchmarks.elastic_memory as it; it.serve()"
        server = subprocess.Popen(
            [sys.executable, "-c", program, str(kubeconfig)], stdout=subprocess.PIPE
        )
        try:
            assert server.stdout is not None
            server.stdout.readline()
            operator = Operator(kubeconfig)
            asyncio.run(operator.until_idle())
            found, peak = resident_mebibytes(operator.pid), peak_mebibytes(operator.pid)
            operator.stop()
        finally:
            server.terminate()
            server.wait()
    libraries = _libraries_mebibytes()
    kinds = ", ".join(dict.fromkeys(kind.kind for kind in KINDS))
    print(
        f"idle operator of {kinds}: {found:.0f} MiB (goal {GOAL_MEBIBYTES} MiB), peak {peak:.0f}"
        f" MiB; its libraries alone: {libraries:.0f} MiB; ratio {found / libraries:.2f}"
    )


if __name__ == "__main__":
    main()
