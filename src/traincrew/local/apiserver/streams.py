"""The seam between the API server and the node: logs and commands of running containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["ExecStreams", "LogOptions", "NodeBackend", "StreamRefusedError"]


class StreamRefusedError(Exception):
    """The node cannot serve logs or a command; answered as 400 with this message.

    Use upstream's words, for instance ``container "main" in pod "x" is waiting to start:
    ContainerCreating`` or ``previous terminated container "main" in pod "x" not found``.
    """


class LogOptions(Struct, frozen=True):
    """What of a log is wanted (upstream: ``PodLogOptions``).

    Attributes:
        follow: keep the stream open and send what is written later.
        tail_lines: only so many lines from the end.
        since_seconds: only lines younger than this, in seconds.
        since_time: only lines from this time on, RFC 3339.
        timestamps: start every line with its RFC 3339 time.
        limit_bytes: stop after so many bytes.
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
    """The client's end of a command."""

    tty: bool
    """Whether the client wants a terminal."""

    async def read_stdin(self) -> bytes:
        """What the client typed; ``b""`` at the end, and at once when it sends no input."""

    async def write_stdout(self, data: bytes) -> None:
        """Send output; ignored when the client did not ask for it."""

    async def write_stderr(self, data: bytes) -> None:
        """Send error output; ignored when the client did not ask for it."""

    async def resized(self) -> tuple[int, int] | None:
        """Wait for the next terminal size (columns, rows); None when there will be no more."""


class NodeBackend(Protocol):
    """The only thing the API server asks of the node."""

    def logs(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        """The log of a container, in chunks.

        Raises:
            StreamRefusedError: there is no log yet, or the wanted one is gone.
        """

    async def exec(
        self, pod: dict[str, Any], container: str, command: list[str], streams: ExecStreams
    ) -> int:
        """Run a command in a container until it ends; it is cancelled when the client goes away.

        Returns:
            The exit code, 128 + signal number for a command that was killed.

        Raises:
            StreamRefusedError: the container does not run, or the command cannot be started.
        """
