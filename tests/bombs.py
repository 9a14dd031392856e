"""Compressed request bodies, sent over a plain socket as no HTTP library would send them."""

import asyncio
import contextlib
import gzip
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT = 3 * 1024 * 1024


def bomb(encoding: str, size: int = 1024 * 1024 * 1024) -> bytes:
    """Return `size` zero bytes, compressed about a thousandfold, with a wrong checksum."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    block = bytes(4 * 1024 * 1024)
    first = compressor.compress(block) + compressor.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing refers to earlier data, so the block may be repeated.
    again = compressor.compress(block) + compressor.flush(zlib.Z_FULL_FLUSH)
    return first + again * (size // len(block) - 1) + compressor.flush()


def compressed(encoding: str, body: bytes) -> bytes:
    return gzip.compress(body) if encoding == "gzip" else zlib.compress(body)


async def send(
    port: int, path: str, body: bytes, encoding: str, *, method: str = "POST", headers: str = ""
) -> tuple[int, bytes]:
    """Send one request with such a body, and wait until the server is done with it.

    Returns:
        Status code and body of the response.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode()
        )
        writer.write(body)
        async with asyncio.timeout(60):
            answer = await reader.readuntil(b"\r\n\r\n")
            lines = answer.lower().split(b"\r\n")
            length = next(line for line in lines if line.startswith(b"content-length:"))
            code, content = int(answer.split()[1]), await reader.readexactly(int(length[15:]))
            # Answered only after the rest of the first body has been processed.
            with contextlib.suppress(ConnectionError):
                writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                await reader.read()
            return code, content
    finally:
        writer.close()


@contextmanager
def frugal(seconds: float = 3.0, size: int = 64 * 1024 * 1024) -> Iterator[None]:
    """Fail if the block takes more processor time or peak memory than this."""
    tracemalloc.start()
    start = time.process_time()
    try:
        yield
        spent, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert spent < seconds
    assert peak < size
