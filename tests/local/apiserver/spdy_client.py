"""A small client of SPDY/3.1, for tests: over an upgraded connection, or through a websocket."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import TYPE_CHECKING

import aiohttp

from local.apiserver.support import DEADLINE, SECRET
from traincrew.local.apiserver.http.spdy.connection import DICTIONARY

if TYPE_CHECKING:
    from local.apiserver.support import Api


class SpdyClient:
    """The client's side of SPDY, over an upgraded connection or through a websocket."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.deflate = zlib.compressobj(zdict=DICTIONARY)
        self.inflate = zlib.decompressobj(zdict=DICTIONARY)
        self.buffer = b""
        self.number = -1
        self.data: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.replied: set[int] = set()
        self.reset: set[int] = set()
        self.pings: list[bytes] = []
        self.gone_away = False

    async def upgrade(
        self, path: str, *protocols: str, method: str = "POST", token: str = SECRET
    ) -> bytes:
        """Upgrade to SPDY; return the head of the response."""
        server = self.api.server
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Authorization: Bearer {token}",
            "Host: 127.0.0.1",
            "Connection: Upgrade",
            "Upgrade: SPDY/3.1",
            *(f"X-Stream-Protocol-Version: {protocol}" for protocol in protocols),
            "Content-Length: 0",
        ]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        return await self.reader.readuntil(b"\r\n\r\n")

    async def tunnel(self, path: str, protocol: str) -> None:
        """Open a websocket that tunnels SPDY."""
        self.socket = await self.api.session.ws_connect(
            self.api.server.url + path, protocols=[protocol]
        )
        assert self.socket.protocol == protocol

    async def send(self, data: bytes) -> None:
        if hasattr(self, "socket"):
            await self.socket.send_bytes(data)
        else:
            self.writer.write(data)
            await self.writer.drain()

    async def _more(self) -> bytes:
        if not hasattr(self, "socket"):
            return await self.reader.read(65536)
        message = await self.socket.receive()
        return message.data if message.type is aiohttp.WSMsgType.BINARY else b""

    async def open(self, **headers: str) -> int:
        """Open a stream."""
        self.number += 2
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        block = struct.pack("!I", len(pairs))
        for pair in pairs:
            for text in pair:
                block += struct.pack("!I", len(text)) + text
        block = self.deflate.compress(block) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack("!IIH", self.number, 0, 0) + block
        await self.send(struct.pack("!II", 0x80030001, len(body)) + body)
        return self.number

    async def pair(self, port: int, request: str) -> tuple[int, int]:
        """The streams of a connection, as kubectl opens them: (error, data)."""
        error = await self.open(streamType="error", port=str(port), requestID=request)
        await self.write(error, b"", end=True)
        return error, await self.open(streamType="data", port=str(port), requestID=request)

    async def write(self, stream: int, data: bytes, *, end: bool = False) -> None:
        await self.send(struct.pack("!II", stream, end << 24 | len(data)) + data)

    async def frame(self) -> bool:
        """Read one frame; False at the end."""
        while len(self.buffer) < 8 or len(self.buffer) < 8 + self._length():
            more = await asyncio.wait_for(self._more(), DEADLINE)
            if not more:
                return False
            self.buffer += more
        first, rest = struct.unpack_from("!II", self.buffer)
        body = self.buffer[8 : 8 + self._length()]
        self.buffer = self.buffer[8 + self._length() :]
        if first == 0x80030002:
            self.replied.add(struct.unpack_from("!I", body)[0])
            assert self.inflate.decompress(body[4:]) == bytes(4)
        elif first == 0x80030003:
            self.reset.add(struct.unpack_from("!I", body)[0])
        elif first == 0x80030007:
            self.gone_away = True
        elif first == 0x80030006:
            self.pings.append(body)
        else:
            self.data[first] = self.data.get(first, b"") + body
            if rest >> 24:
                self.ended.add(first)
        return True

    def _length(self) -> int:
        return int(struct.unpack_from("!I", self.buffer, 4)[0] & 0xFFFFFF)

    async def until_ended(self, *streams: int) -> None:
        while not self.ended.issuperset(streams):
            assert await self.frame(), "the server has ended the connection"

    async def until_replied(self, *streams: int) -> None:
        while not self.replied.issuperset(streams):
            assert await self.frame(), "the server has ended the connection"

    async def until_reset(self, *streams: int) -> None:
        while not self.reset.issuperset(streams):
            assert await self.frame(), "the server has ended the connection"

    async def until_data(self, stream: int, data: bytes) -> None:
        while self.data.get(stream) != data:
            assert await self.frame(), "the server has ended the connection"

    async def close(self) -> None:
        if hasattr(self, "socket"):
            await self.socket.close()
        else:
            self.writer.close()
