"""The interface between API server and node: logs, commands, ports, use of running containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from traincrew.local.apiserver.values.usage import ContainerUsage, NodeUsage, PodUsage, Usage

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator

__all__ = [
    "ContainerUsage",
    "ExecStreams",
    "LogOptions",
    "NodeBackend",
    "NodeUsage",
    "PodUsage",
    "StreamRefusedError",
    "Usage",
]


class StreamRefusedError(Exception):
    """The node cannot serve a log, command or port; sent to the client as 400 with this message.

    Use upstream's words, for instance ``container "main" in pod "x" is waiting to start:
    ContainerCreating`` or ``previous terminated container "main" in pod "x" not found``.
    """


class LogOptions(Struct, frozen=True):
    """The options of a log request (upstream: ``PodLogOptions``).

    Attributes:
        follow: keep the stream open and send new output.
        tail_lines: only this many lines from the end.
        since_seconds: only lines newer than this many seconds.
        since_time: only lines from this time on, RFC 3339.
        timestamps: prefix every line with its RFC 3339 timestamp.
        limit_bytes: stop after this many bytes.
        previous: the log of the container's previous instance.
    """

    follow: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: str | None = None
    timestamps: bool = False
    limit_bytes: int | None = None
    previous: bool = False


class ExecStreams(Protocol):
    """The client's streams of a command."""

    tty: bool
    """Whether the client wants a terminal."""

    stdin: bool
    """Whether the client sends input."""

    async def read_stdin(self) -> bytes:
        """Return the next input; ``b""`` at the end, or at once when the client sends no input."""

    async def write_stdout(self, data: bytes) -> None:
        """Send output; discarded when the client did not request it."""

    async def write_stderr(self, data: bytes) -> None:
        """Send error output; discarded when the client did not request it."""

    async def resized(self) -> tuple[int, int] | None:
        """Wait for the next terminal size (columns, rows); return None after the last one."""


class NodeBackend(Protocol):
    """The part of the node that the API server uses."""

    def logs(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        """Yield the log of a container, in chunks.

        Raises:
            StreamRefusedError: there is no log yet, or the requested one no longer exists.
        """

    async def exec(
        self, pod: dict[str, Any], container: str, command: list[str], streams: ExecStreams
    ) -> int:
        """Run a command in a container until it exits; cancelled when the client disconnects.

        Returns:
            The exit code; 128 + signal number for a command that was killed.

        Raises:
            StreamRefusedError: the container is not running, or the command cannot be started.
        """

    async def attach(self, pod: dict[str, Any], container: str, streams: ExecStreams) -> None:
        """Send what a container writes from now on, and pass the client's input to it.

        Ends with the container, or when the client's input ends but the container's does not;
        cancelled when the client disconnects.

        Raises:
            StreamRefusedError: the container is not running.
        """

    async def connect(self, pod: dict[str, Any], port: int) -> tuple[StreamReader, StreamWriter]:
        """Connect to a port on which a container of a pod listens.

        Raises:
            StreamRefusedError: the pod is not running, or nothing listens there.
        """

    async def usage(self) -> Usage | None:
        """Return what running containers use; None if this machine cannot measure it.

        Nothing is measured between the calls, so a call may take a second.
        """
