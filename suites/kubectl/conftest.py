"""Real kubectl against the embedded API server, without controllers and nodes.

Every test runs with each available kubectl: the one installed beside this Python, and those named
in `KUBECTL_BINARIES` (paths separated like `PATH`), for instance the oldest supported one.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from traincrew.local.apiserver.http.kubeconfig import write_kubeconfig
from traincrew.local.apiserver.http.node_backend import (
    ExecStreams,
    LogOptions,
    StreamRefusedError,
    Usage,
)
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage
from traincrew.local.authority import make_certificate


def binaries() -> list[str]:
    """Return every kubectl to test, the installed one first."""
    beside = shutil.which("kubectl", path=str(Path(sys.executable).parent))
    found = [beside or shutil.which("kubectl") or "kubectl"]
    found += [each for each in os.environ.get("KUBECTL_BINARIES", "").split(os.pathsep) if each]
    return found


class Node:
    """A fake node: two lines of logs, a few commands, and the use that a test sets."""

    used = Usage(at=1_800_000_000.0, window=15.0)

    async def logs(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        if options.previous:
            name = pod["metadata"]["name"]
            raise StreamRefusedError(
                f'previous terminated container "{container}" in pod "{name}" not found'
            )
        lines = [b"first line\n", b"second line\n"]
        for line in lines if options.tail_lines is None else lines[-options.tail_lines :]:
            yield line

    async def exec(
        self, pod: dict[str, Any], container: str, command: list[str], streams: ExecStreams
    ) -> int:
        match command[0]:
            case "hostname":
                await streams.write_stdout(pod["metadata"]["name"].encode() + b"\n")
            case "cat":
                while data := await streams.read_stdin():
                    await streams.write_stdout(data)
            case "false":
                await streams.write_stderr(b"it went wrong\n")
                return 3
            case _:
                raise StreamRefusedError(f'"{command[0]}": executable file not found in $PATH')
        return 0

    async def attach(self, pod: dict[str, Any], container: str, streams: ExecStreams) -> None:
        raise StreamRefusedError("nobody attaches here")

    async def connect(
        self, pod: dict[str, Any], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise StreamRefusedError("nobody connects here")

    async def usage(self) -> Usage | None:
        return self.used


class Served:
    """An API server on a thread of its own, for tests that block in kubectl."""

    def __init__(self, directory: Path) -> None:
        self.server: ApiServer
        self.node = Node()
        self._directory = directory
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        storage = Storage()
        self.server = ApiServer(storage, secret="a-secret-for-tests-only", node=self.node)
        await self.server.start(certificate=make_certificate(self._directory))
        self._started.set()
        await self._stop.wait()
        await self.server.stop()
        storage.close()

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


class Result:
    """The result of a kubectl command."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.code = process.returncode
        self.out = process.stdout
        self.err = process.stderr

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"


class Kubectl:
    """One kubectl binary with a home of its own, against one server."""

    def __init__(self, binary: str, directory: Path, document: dict[str, Any]) -> None:
        self.binary = binary
        self.directory = directory
        kubeconfig = directory / "kubeconfig"
        write_kubeconfig(kubeconfig, document)
        self.environment = {
            "HOME": str(directory),
            "KUBECONFIG": str(kubeconfig),
            "PATH": os.environ["PATH"],
        }

    def __call__(
        self, *arguments: str, stdin: str | None = None, code: int | None = 0, **more: str
    ) -> Result:
        """Run a command; fail if it exits with another code."""
        process = subprocess.run(
            [self.binary, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=self.environment | more,
        )
        result = Result(process)
        assert code is None or result.code == code, f"kubectl {' '.join(arguments)}: {result!r}"
        return result

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that keeps running."""
        return subprocess.Popen(
            [self.binary, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )

    def file(self, name: str, text: str) -> str:
        """Write a manifest; return its path."""
        path = self.directory / name
        path.write_text(text)
        return str(path)


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("certificates")) as served:
        yield served


@pytest.fixture(params=binaries(), ids=lambda path: Path(path).name)
def kubectl(request: pytest.FixtureRequest, served: Served, tmp_path: Path) -> Kubectl:
    return Kubectl(request.param, tmp_path, served.server.kubeconfig())
