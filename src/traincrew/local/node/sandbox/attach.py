"""Clients attached to the output and input of a running container: `kubectl attach`, `run -i`.

The shim listens on a socket in the instance's directory. Both directions use frames: one byte for
the channel, four for the length, the data. Clients send `HELLO` first.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import termios
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME = struct.Struct("!BI")
INPUT, OUTPUT, ERRORS, HELLO, RESIZE = 0, 1, 2, 3, 4
"""Channels. An empty frame of `INPUT` is the end of the input; `HELLO` has one byte: whether the
client sends input; `RESIZE` has columns and rows as two 16-bit numbers."""

_NAME = "attach"
_MAX_CLIENTS = 32
_MAX_FRAME_BYTES = 1 << 20
# Output buffered for a slow client, in bytes, and how long the program waits for the client to read
# when the buffer is full, in seconds: then the client is dropped.
_MAX_BUFFERED = 8 << 20
_DRAIN_SECONDS = 10.0
# Input that the program has not read, in bytes; beyond this no more is read from clients.
_MAX_PENDING_INPUT = 64 * 1024
_STUCK_SECONDS = 1.0


@contextmanager
def address(directory: str) -> Iterator[str]:
    """Yield a path of the socket within the length limit, however long the directory's is."""
    if not os.path.isdir("/proc/self/fd"):
        yield f"{directory}/{_NAME}"
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{_NAME}"
    finally:
        os.close(descriptor)


def frame(channel: int, data: bytes) -> bytes:
    """Encode a frame."""
    return FRAME.pack(channel, len(data)) + data


class _Client:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.out = bytearray()
        self.received = bytearray()
        self.sends_input = False

    def fileno(self) -> int:
        return self.connection.fileno()


class Attachments:
    """The clients attached to one container.

    Args:
        directory: of the instance.
        once: whether the program's input ends with that of the first client that sends input.
    """

    def __init__(self, directory: str, *, once: bool) -> None:
        self._once = once
        self._clients: list[_Client] = []
        self._input = -1
        self._terminal = False
        self._pending = bytearray()
        self._ending = False
        self._listener: socket.socket | None = None
        listener = socket.socket(socket.AF_UNIX)
        # Without the socket no client can attach, but the container runs.
        try:
            with address(directory) as path:
                listener.bind(path)
            listener.listen(8)
            listener.setblocking(False)
        except OSError:
            listener.close()
        else:
            self._listener = listener

    def feed(self, descriptor: int, *, terminal: bool) -> None:
        """Set the descriptor for input, and for terminal sizes if it is a terminal's master."""
        os.set_blocking(descriptor, False)
        self._input, self._terminal = descriptor, terminal

    def to_read(self) -> list[Any]:
        """Return the descriptors to watch for reading."""
        if self._listener is None:
            return []
        full = len(self._pending) > _MAX_PENDING_INPUT
        senders = (each for each in self._clients if not (full and each.sends_input))
        return [self._listener, *senders]

    def to_write(self) -> list[Any]:
        """Return the descriptors to watch for writing."""
        waiting: list[Any] = [client for client in self._clients if client.out]
        return [*waiting, self._input] if self._pending and self._input >= 0 else waiting

    def handle(self, readable: list[Any], writable: list[Any]) -> None:
        """Handle ready descriptors."""
        if self._listener in readable:
            self._accept()
        for client in list(self._clients):
            if client in writable:
                self._flush(client)
            if client in readable and client in self._clients:
                self._receive(client)
        if self._input in writable:
            self._write_input()

    def output(self, channel: int, data: bytes) -> None:
        """Send output of the program to all clients."""
        if not self._clients:
            return
        whole = frame(channel, data)
        for client in list(self._clients):
            client.out += whole
            self._flush(client)
            if len(client.out) > _MAX_BUFFERED and client in self._clients:
                self._drain(client, _MAX_BUFFERED // 2)

    def close(self) -> None:
        """Send the buffered output and disconnect all clients; the program has ended."""
        for client in list(self._clients):
            self._drain(client, 0)
            if client in self._clients:
                self._drop(client)
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        assert self._listener is not None
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            if len(self._clients) < _MAX_CLIENTS:
                self._clients.append(_Client(connection))
            else:
                connection.close()

    def _drop(self, client: _Client) -> None:
        self._clients.remove(client)
        client.connection.close()
        if client.sends_input and self._once and not self._terminal:
            self._end_input()

    def _flush(self, client: _Client) -> None:
        try:
            while client.out:
                sent = client.connection.send(client.out[: 1 << 18])
                del client.out[:sent]
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)

    def _drain(self, client: _Client, most: int) -> None:
        """Wait until at most `most` bytes are buffered for a client; drop a stuck one."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        while len(client.out) > most and client in self._clients:
            writable = select.select([], [client.connection], [], _STUCK_SECONDS)[1]
            if not writable or time.monotonic() > deadline:
                self._drop(client)
                return
            self._flush(client)

    def _receive(self, client: _Client) -> None:
        try:
            data = client.connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.received += data
        while len(client.received) >= FRAME.size:
            channel, length = FRAME.unpack_from(client.received)
            if length > _MAX_FRAME_BYTES:
                data = b""
                break
            end = FRAME.size + length
            if len(client.received) < end:
                break
            self._handle_frame(client, channel, bytes(client.received[FRAME.size : end]))
            del client.received[:end]
        if not data:
            self._drop(client)

    def _handle_frame(self, client: _Client, channel: int, data: bytes) -> None:
        if channel == HELLO:
            client.sends_input = data == b"\1"
        elif channel == INPUT and data:
            if self._input >= 0 and not self._ending:
                self._pending += data
        elif channel == INPUT:
            if self._once and not self._terminal:
                self._end_input()
        elif channel == RESIZE and self._terminal and len(data) == 4:
            columns, rows = struct.unpack("!HH", data)
            with suppress(OSError):
                size = struct.pack("HHHH", rows, columns, 0, 0)
                fcntl.ioctl(self._input, termios.TIOCSWINSZ, size)

    def _end_input(self) -> None:
        """Close the program's input once pending input is written."""
        self._ending = True
        if not self._pending:
            self._close_input()

    def _write_input(self) -> None:
        try:
            written = os.write(self._input, self._pending[:4096])
        except BlockingIOError:
            return
        except OSError:  # the program has closed its input
            self._pending.clear()
            self._close_input()
            return
        del self._pending[:written]
        if self._ending and not self._pending:
            self._close_input()

    def _close_input(self) -> None:
        if self._input >= 0 and not self._terminal:
            os.close(self._input)
            self._input = -1
