"""HTTP/1.1 over TLS as it is written on the wire: no library corrects what is sent."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

CLOSED = 0
"""Code of a connection that was closed without an answer."""
LATE = -1
"""Code of an answer that did not come."""
SECONDS = 60.0
"""For an answer, on a busy machine."""


@dataclass(frozen=True)
class Answer:
    """The answer to a request.

    Attributes:
        code: the status code, `CLOSED` or `LATE`.
        body: the body, without that of an answer that does not end.
    """

    code: int
    body: bytes = b""


class Connection:
    """A connection that is opened again whenever the server has closed it."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._port, self._tls = port, tls
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, data: bytes, *, head: bool = False) -> Answer:
        """Send a request and read its answer.

        Args:
            data: the request.
            head: whether the answer has no body whatever its headers say.
        """
        try:
            async with asyncio.timeout(SECONDS):
                return await self._send(data, head=head)
        except TimeoutError:
            self.close()
            return Answer(LATE)

    async def _send(self, data: bytes, *, head: bool) -> Answer:
        if self._writer is not None:
            answer = await self._exchange(data, head=head)
            # As all clients do: the server may have closed the connection after the last answer.
            if answer.code != CLOSED:
                return answer
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._tls, limit=2**22
        )
        return await self._exchange(data, head=head)

    async def _exchange(self, data: bytes, *, head: bool) -> Answer:
        assert self._reader is not None
        assert self._writer is not None
        # The answer may come while the request is being sent, and be followed by the end.
        sending = asyncio.ensure_future(self._write(self._writer, data))
        try:
            answer, goes_on = await _read(self._reader, head=head)
        except (asyncio.IncompleteReadError, ConnectionError):
            answer, goes_on = Answer(CLOSED), False
        if not goes_on:
            sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending
        if not goes_on:
            self.close()
        return answer

    @staticmethod
    async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await writer.drain()

    def close(self) -> None:
        """Close it at once."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


async def _read(reader: asyncio.StreamReader, *, head: bool) -> tuple[Answer, bool]:
    """Return the answer, and whether the connection can be used again."""
    while True:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        code = int(lines[0].split()[1])
        if code >= 200 or code == 101:
            break
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.lower(): value.strip().lower() for name, _, value in pairs}
    goes_on = "close" not in headers.get("connection", "") and code != 101
    if code == 101:
        return Answer(code), False
    if head or code in {204, 304}:
        return Answer(code), goes_on
    if "content-length" in headers:
        return Answer(code, await reader.readexactly(int(headers["content-length"]))), goes_on
    if headers.get("transfer-encoding") == "chunked":
        return Answer(code, await _chunks(reader)), goes_on
    return Answer(code, await reader.read()), False


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(parts)
