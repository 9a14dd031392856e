"""How much of an API server's answers is read: a hostile or broken one must not fill the memory.

The limits are far above what Kubernetes sends: it stores objects of 1.5 MB at most and accepts
requests of 3 MB; a page of 500 such objects would be 750 MB, but objects have a few kB.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traincrew.engine.errors import BadAnswerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

__all__ = ["MAX_BODY", "MAX_ERROR", "MAX_LINE", "MAX_OBJECTS", "Pages", "line_batches"]

MAX_BODY = 256 * 2**20
"""Bytes of one answer that is read whole."""
MAX_LIST = 2**30
"""Bytes of all pages of a list that is kept as it was sent."""
MAX_ERROR = 2**20
"""Bytes of an error; the rest is not read."""
MAX_LINE = 32 * 2**20
"""Bytes of one line of a watch."""
MAX_OBJECTS = 1_000_000
"""Objects of one list; Kubernetes is tested with 150,000 pods."""
MAX_PAGES = 10_000
"""Pages of one list; some may be short."""


def refuse_encoding(headers: Mapping[str, str]) -> None:
    """Refuse an answer that is compressed, because that was not asked for.

    A few bytes may inflate to more than there is memory for.

    Args:
        headers: With names in lower case.

    Raises:
        BadAnswerError: It is.
    """
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise BadAnswerError(
            f"the server compressed its answer ({encoding[:20]!r}) although it was asked not to; "
            "is there a proxy in between?"
        )


async def read_whole(chunks: AsyncIterator[bytes], limit: int, length: str | None) -> bytes:
    """Return the whole body of an answer.

    Args:
        chunks: The body.
        limit: Largest number of bytes.
        length: ``Content-Length``, if there is one.

    Raises:
        BadAnswerError: It is longer.
    """
    parts: list[bytes] = []
    left = limit - (int(length) if length is not None and length.isdecimal() else 0)
    if left >= 0:
        left = limit
        async for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                break
            parts.append(chunk)
        else:
            return b"".join(parts)
    raise BadAnswerError(f"the server's answer is longer than {limit // 2**20} MiB")


class Pages:
    """Checks that a list that arrives in pages comes to an end."""

    def __init__(self) -> None:
        self._pages = 0
        self._objects = 0
        self._size = 0
        self._token = ""

    def add(self, count: int, token: str | None, *, size: int = 0) -> None:
        """Count one page.

        Args:
            count: Number of its objects.
            token: How the list continues, if it does.
            size: Its bytes, if it is kept as it was sent.

        Raises:
            BadAnswerError: The list does not seem to end.
        """
        self._pages += 1
        self._objects += count
        if self._objects > MAX_OBJECTS:
            raise BadAnswerError(f"the server's list has more than {MAX_OBJECTS:,} objects")
        self._size += size
        if self._size > MAX_LIST:
            raise BadAnswerError(f"the server's list is longer than {MAX_LIST // 2**20} MiB")
        if not token:
            return
        if token == self._token:
            raise BadAnswerError(
                "the server's list does not go on: it continues with the same page"
            )
        if self._pages >= MAX_PAGES:
            raise BadAnswerError(f"the server's list has more than {MAX_PAGES:,} pages")
        self._token = token


async def line_batches(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield whole lines of a watch as they arrive, split on newlines only.

    Raises:
        BadAnswerError: A line is longer than `MAX_LINE`.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        lines = chunk.split(b"\n")
        parts.append(lines[0])
        size += len(lines[0])
        if size > MAX_LINE:
            raise BadAnswerError(f"a watch sent a line of more than {MAX_LINE // 2**20} MiB")
        if len(lines) == 1:
            await asyncio.sleep(0)
            continue
        lines[0] = b"".join(parts)
        parts = [lines.pop()]
        size = len(parts[0])
        yield lines
