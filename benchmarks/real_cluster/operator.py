"""The operator in a process of its own, with all its requests recorded.

The operator is unchanged except for its HTTP transport, which is observed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.real_cluster.recording import Exchange, Recorder
from traincrew.engine.client import AiohttpTransport
from traincrew.engine.config import load_config
from traincrew.engine.observability import configure_logging
from traincrew.operator.app import run_operator
from traincrew.operator.manifests import NAMESPACE
from traincrew.operator.options import OperatorOptions

if TYPE_CHECKING:
    from traincrew.engine.client import HttpRequest, HttpResponse


def _record(recorder: Recorder) -> None:
    """Record every request from now on, and when its response had arrived."""
    send = AiohttpTransport.request

    async def recorded(self: AiohttpTransport, request: HttpRequest) -> HttpResponse:
        started = time.monotonic()
        status = 0
        try:
            response = await send(self, request)
            status = response.status
            return response
        finally:
            recorder.record(
                Exchange(
                    started,
                    time.monotonic(),
                    request.method,
                    request.url[request.url.index("/", len("https://")) :],
                    request.headers.get("Content-Type", ""),
                    status,
                    request.body or b"",
                )
            )

    AiohttpTransport.request = recorded  # type: ignore[method-assign]


async def _run(kubeconfig: str, kinds: tuple[str, ...]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    options = OperatorOptions(lease_namespace=NAMESPACE, kinds=kinds)
    await run_operator(
        load_config(kubeconfig), options, stop, on_ready=lambda: print("ready", flush=True)
    )


def main(kubeconfig: str, recording: str, *kinds: str) -> None:
    """Run until SIGTERM.

    Args:
        kubeconfig: Kubeconfig of the operator's ServiceAccount.
        recording: File to which the exchanges are written.
        kinds: Of other projects, to be served, too.
    """
    configure_logging("text", "info")  # to stderr, as in production
    recorder = Recorder(Path(recording))
    _record(recorder)
    try:
        asyncio.run(_run(kubeconfig, kinds))
    finally:
        recorder.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
