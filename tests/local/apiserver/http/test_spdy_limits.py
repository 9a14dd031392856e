"""What a hostile client of SPDY/3.1 may occupy: bounded bytes, streams, headers and pairs."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from local.apiserver.support import DEADLINE
from traincrew.local.apiserver.http.portforward.forwarding import Forwarder, PairedStreams
from traincrew.local.apiserver.http.spdy import Connection, SpdyError
from traincrew.local.apiserver.http.spdy.connection import DICTIONARY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.http.spdy import Stream

MEBIBYTE = 1 << 20


class Frames:
    """A transport with the frames of a client, one by one; counts what was read of them."""

    def __init__(self, frames: Iterator[bytes]) -> None:
        self.frames = frames
        self.taken = 0
        self.sent = bytearray()
        self.idle = asyncio.Event()

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        frame = next(self.frames, b"")
        self.taken += len(frame)
        if not frame:
            self.idle.set()
            await asyncio.Event().wait()
        return frame

    async def write(self, data: bytes) -> None:
        self.sent += data


class Client:
    """Makes the frames of a client."""

    def __init__(self) -> None:
        self.deflate = zlib.compressobj(zdict=DICTIONARY)

    def opened(self, number: int, **headers: str) -> bytes:
        block = struct.pack("!I", len(headers))
        for pair in headers.items():
            for text in pair:
                block += struct.pack("!I", len(text)) + text.encode()
        block = self.deflate.compress(block) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        return struct.pack("!IIIIH", 0x80030001, 10 + len(block), number, 0, 0) + block


def data(number: int, size: int) -> bytes:
    return struct.pack("!II", number, size) + bytes(size)


def reset(number: int) -> bytes:
    return struct.pack("!IIII", 0x80030003, 8, number, 5)


async def settled(transport: Frames) -> None:
    """Wait until the server has taken all frames, or takes no more."""
    async with asyncio.timeout(DEADLINE):
        while not transport.idle.is_set():
            taken = transport.taken
            for _ in range(20):
                await asyncio.sleep(0)
            if transport.taken == taken:
                return


@pytest.mark.parametrize(("streams", "most"), [(1, 2), (100, 9)])
async def test_what_nobody_reads_blocks_the_connection(streams: int, most: int) -> None:
    client = Client()

    def frames() -> Iterator[bytes]:
        for index in range(streams):
            yield client.opened(2 * index + 1)
        for index in range(120):
            yield data(2 * (index % streams) + 1, 256 * 1024)

    accepted: list[Stream] = []
    transport = Frames(frames())
    connection = Connection(transport)

    async def accept(stream: Stream) -> None:
        accepted.append(stream)

    serving = asyncio.create_task(connection.serve(accept))
    await settled(transport)
    assert transport.taken < most * MEBIBYTE
    before = transport.taken
    await accepted[0].read()
    await settled(transport)
    assert transport.taken > before
    for stream in accepted:
        await stream.close()  # nobody wants the rest: it is read, and kept by nobody
    async with asyncio.timeout(DEADLINE):
        await transport.idle.wait()
    assert transport.taken > 25 * MEBIBYTE
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_headers_of_eight_kibibytes_are_the_most() -> None:
    client = Client()
    transport = Frames(iter([client.opened(1, x="x" * 8000), client.opened(3, x="x" * 9000)]))
    accepted: list[Stream] = []

    async def accept(stream: Stream) -> None:
        accepted.append(stream)

    with pytest.raises(SpdyError, match="more than 8192 bytes"):
        await Connection(transport).serve(accept)
    assert len(accepted) == 1


async def test_streams_that_were_reset_do_not_wait_for_their_pair() -> None:
    client = Client()

    def frames() -> Iterator[bytes]:
        for index in range(2000):
            number = 2 * index + 1
            yield client.opened(number, streamType="data", port="1", requestID=str(index))
            yield data(number, 1024) + reset(number)
        yield client.opened(4001, streamType="error", port="1", requestID="last")
        yield client.opened(4003, streamType="data", port="1", requestID="last")

    started: list[int] = []
    forwarder = _Recorder(started)
    pairs = PairedStreams(forwarder)
    transport = Frames(frames())
    serving = asyncio.create_task(Connection(transport).serve(pairs.accept))
    async with asyncio.timeout(DEADLINE):
        await transport.idle.wait()
    assert started == [1]
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    pairs.close()


class _Recorder(Forwarder):
    """Records the ports; connects nothing."""

    def __init__(self, started: list[int]) -> None:
        super().__init__(None, {})  # type: ignore[arg-type]
        self.started = started

    def start(self, port: int, *_: Any) -> Any:
        self.started.append(port)


async def test_streams_without_their_pair_are_bounded() -> None:
    client = Client()
    frames = (
        client.opened(2 * index + 1, streamType="data", port="1", requestID=str(index))
        for index in range(2000)
    )
    transport = Frames(frames)
    pairs = PairedStreams(_Recorder([]))
    serving = asyncio.create_task(Connection(transport).serve(pairs.accept))
    async with asyncio.timeout(DEADLINE):
        await transport.idle.wait()
    closed = 0
    while transport.sent:
        first, rest = struct.unpack_from("!II", transport.sent)
        closed += first < 1 << 31 and rest == 1 << 24
        del transport.sent[: 8 + (rest & 0xFFFFFF)]
    assert closed == 2000 - 1024
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    pairs.close()
