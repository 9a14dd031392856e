"""Merges the logs of several containers by time, with little memory.

Each log is read while it arrives; of each there is one piece in memory, however long it is.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.watching.loglines import LogLines, split_stamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from traincrew.cli.watching.follow import Position
    from traincrew.engine.client import Client
    from traincrew.engine.errors import ApiError

__all__ = ["Reading", "Source", "Stamped", "merged"]

READ_AT_ONCE = 100
"""Logs that are open at the same time. Those of further pods follow afterwards."""


class Source(NamedTuple):
    """The log of one container.

    Attributes:
        pod: Name of the pod.
        uid: Its UID.
        namespace: Its namespace.
        container: Name of the container.
        position: How far it has been read.
    """

    pod: str
    uid: str
    namespace: str
    container: str
    position: Position


class Reading(NamedTuple):
    """Which lines of logs to read.

    Attributes:
        tail: Only the last lines of each log; None for all.
        previous: The log of the previous run of each container.
        whole_lines: Leave out a last line without an end, which may continue.
    """

    tail: int | None = None
    previous: bool = False
    whole_lines: bool = False


class Stamped(NamedTuple):
    """One line of a log.

    Attributes:
        stamp: Its time in a comparable form.
        source: The log.
        line: The text as the API sends it, with its time.
    """

    stamp: tuple[str, str]
    source: Source
    line: bytes


async def merged(
    client: Client,
    sources: Sequence[Source],
    how: Reading,
    failed: Callable[[Source, ApiError], None],
) -> AsyncIterator[Stamped]:
    """Yield the lines that exist by now, in the order of their times.

    Args:
        client: The API server.
        sources: The logs; their positions are advanced.
        how: Which lines to read.
        failed: Called when a log cannot be read; the others are read nevertheless.
    """
    for start in range(0, len(sources), READ_AT_ONCE):
        some = sources[start : start + READ_AT_ONCE]
        async for line in _merged(client, some, how, failed):
            yield line


async def _merged(
    client: Client,
    sources: Sequence[Source],
    how: Reading,
    failed: Callable[[Source, ApiError], None],
) -> AsyncIterator[Stamped]:
    logs = [_lines(client, source, how, failed) for source in sources]
    first = await asyncio.gather(*(anext(log, None) for log in logs))
    heap = [(line.stamp, number, line) for number, line in enumerate(first) if line is not None]
    heapq.heapify(heap)
    while heap:
        _, number, line = heap[0]
        yield line
        following = await anext(logs[number], None)
        if following is None:
            heapq.heappop(heap)
        else:
            # A clock that was set back must not hold up the others.
            stamp = max(following.stamp, line.stamp)
            heapq.heapreplace(heap, (stamp, number, following))


async def _lines(
    client: Client,
    source: Source,
    how: Reading,
    failed: Callable[[Source, ApiError], None],
) -> AsyncIterator[Stamped]:
    from traincrew.engine.errors import ApiError

    position, lines = source.position, LogLines()
    position.resume()
    stamp = ("", "")
    try:
        async for chunk in client.logs(
            source.pod,
            source.namespace,
            container=source.container,
            since_time=position.since,
            timestamps=True,
            previous=how.previous,
            tail=how.tail,
        ):
            for line in lines.feed(chunk):
                found, _ = split_stamp(line)
                stamp = found or stamp
                if position.is_new(found):
                    yield Stamped(stamp, source, line)
    except ApiError as error:
        failed(source, error)
    rest = lines.rest()
    if rest and not how.whole_lines:
        found, _ = split_stamp(rest)
        if position.is_new(found):
            yield Stamped(found or stamp, source, rest)
