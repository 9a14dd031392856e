"""The background process of a cluster.

It is started with `python -m traincrew.cli.cluster.server NAME [DESCRIPTOR]`.

It reports to its starter through the given file descriptor, one JSON object per line:
``{"progress": …}``, then ``{"ready": true}`` or ``{"failed": …}``.

SIGTERM and SIGINT stop the cluster and its pods; SIGUSR1 stops only this process, so that the next
one adopts the pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING

import click

from traincrew.cli.cluster.daemonlog import keep_small
from traincrew.cli.cluster.embedded import Embedded
from traincrew.cli.cluster.files import ClusterFiles, own_record, write_file
from traincrew.cli.cluster.options import Options
from traincrew.cli.errors import BadInput, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable


class Stop:
    """A request to stop by a signal, and whether to keep the pods."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.keep_pods = False

    def listen(self) -> None:
        """Handle signals from now on."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._request, False)
        loop.add_signal_handler(signal.SIGUSR1, self._request, True)

    def _request(self, keep_pods: bool) -> None:
        self.keep_pods = keep_pods
        self.requested.set()


async def serve(
    files: ClusterFiles,
    options: Options,
    *,
    on_ready: Callable[[], None],
    on_pull: Callable[[str, str], None] | None = None,
) -> None:
    """Serve a cluster until a signal stops it.

    Raises:
        CommandFailed: The cluster was removed, or another process serves it.
        Exception: A part of the cluster failed; its pods are left running.
    """
    if not files.directory.exists():
        raise CommandFailed(f"cluster {files.name!r} was removed while it was starting")
    stop = Stop()
    stop.listen()
    embedded = Embedded(options, files.directory, on_pull, on_removed=_say_in_log)
    bounding = asyncio.create_task(keep_small(files.log))
    try:
        starting = asyncio.create_task(embedded.start())
        asked = asyncio.create_task(stop.requested.wait())
        await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            return
        await starting
        write_file(files.record, own_record(embedded.cluster.server.url))
        on_ready()
        serving = asyncio.create_task(embedded.run())
        await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
        failed = serving.done()
        serving.cancel()
        await embedded.stop(keep_pods=failed or stop.keep_pods)
        if failed:
            serving.result()
    finally:
        bounding.cancel()
        files.forget_own_record()


def _say_in_log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(name: str, descriptor: int) -> int:
    """Serve a cluster; return the exit code."""
    from traincrew.engine.observability import configure_logging

    # Pods must not inherit it: the starter waits until it is closed.
    os.set_inheritable(descriptor, False)
    files = ClusterFiles(name)
    options = files.read_options() or Options()
    configure_logging("text", "debug" if options.verbose else "info")

    def report(**fields: object) -> None:
        with contextlib.suppress(OSError):  # the starter may have ended
            os.write(descriptor, json.dumps(fields).encode() + b"\n")

    def ready() -> None:
        report(ready=True)
        os.close(descriptor)

    def pull(image: str, message: str) -> None:
        print(f"image {image}: {message}", file=sys.stderr, flush=True)

    try:
        asyncio.run(serve(files, options, on_ready=ready, on_pull=pull))
    except click.ClickException as error:
        print(error.message, file=sys.stderr, flush=True)
        report(**{"refused" if isinstance(error, BadInput) else "failed": error.message})
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - report any error to the starter and the log
        traceback.print_exc()
        report(failed=f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
