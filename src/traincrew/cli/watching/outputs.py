"""Reads when the pods of a job wrote their newest lines, once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from traincrew.cli.display.programs import program
from traincrew.cli.display.quiet import Output
from traincrew.cli.watching.loglines import LogLines, as_time, split_stamp
from traincrew.engine.errors import ApiError, ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.cli.display.objects import Pod
    from traincrew.engine.client import Client

__all__ = ["outputs_of"]

MOST_PODS = 32
"""With more running pods nothing is read: what some of them write says nothing of the others."""
AT_ONCE = 8
LINES = 60
MOST_BYTES = 1024 * 1024
"""Of one log."""


async def outputs_of(client: Client, pods: Sequence[Pod]) -> dict[str, Output]:
    """Return the newest lines of each running pod's program, by its name.

    Returns:
        Nothing if one of them cannot be read.

    Raises:
        ForbiddenError: Logs may not be read.
    """
    running = [pod for pod in pods if pod.status.phase == "Running"]
    if len(running) > MOST_PODS:
        return {}
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(pod: Pod) -> Output | None:
        async with slots:
            return await _output(client, pod)

    found = await asyncio.gather(*map(one, running))
    known = [each for each in found if each is not None]
    if len(known) < len(running):
        return {}
    return {pod.metadata.name: each for pod, each in zip(running, known, strict=True)}


async def _output(client: Client, pod: Pod) -> Output | None:
    status = program(pod)
    output, lines, size = Output(), LogLines(), 0
    try:
        async for chunk in client.logs(
            pod.metadata.name,
            pod.metadata.namespace,
            container=status.name if status is not None else None,
            tail=LINES,
            timestamps=True,
        ):
            size += len(chunk)
            if size > MOST_BYTES:
                return None
            for line in lines.feed(chunk):
                _note(output, line)
    except ForbiddenError:
        raise
    except ApiError:
        return None
    if rest := lines.rest():
        _note(output, rest)
    return output


def _note(output: Output, line: bytes) -> None:
    stamp, _ = split_stamp(line)
    if stamp is not None:
        output.note(as_time(stamp), time.time())
