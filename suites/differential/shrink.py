"""Minimization of a history that shows a difference."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from .histories import HistoryRunner, Mismatch
from .requests import Request

MAX_TRIALS = 400
"""Maximum number of histories run per mismatch; one of five requests takes about 20 ms."""

_Check = Callable[[list[Request]], Awaitable[Mismatch | None]]


async def shrink(runner: HistoryRunner, found: Mismatch) -> Mismatch:
    """Remove requests and parts of bodies as long as the same kind of difference occurs."""
    trials = 0
    wanted = found.signature

    async def reproduces(requests: list[Request]) -> Mismatch | None:
        nonlocal trials
        trials += 1
        if trials > MAX_TRIALS:
            return None
        again = await runner.replay(found.resource, requests)
        return again if again is not None and again.signature == wanted else None

    best = await reproduces(found.requests)
    if best is None:
        return found  # not reproducible: report it as it was
    best = await _fewer_requests(best, reproduces)
    best = await _smaller_bodies(best, reproduces)
    best = await _fewer_requests(best, reproduces)
    return Mismatch(best.resource, best.requests, best.lines, found.seed)


async def _fewer_requests(best: Mismatch, reproduces: _Check) -> Mismatch:
    size = max(1, len(best.requests) // 2)
    while True:
        start = 0
        while start < len(best.requests) - 1:
            fewer = best.requests[:start] + best.requests[start + size :]
            smaller = await reproduces(fewer) if fewer else None
            if smaller is None:
                start += size
            else:
                best = smaller
        if size == 1:
            return best
        size //= 2


async def _smaller_bodies(best: Mismatch, reproduces: _Check) -> Mismatch:
    for index in reversed(range(len(best.requests))):
        position = 0
        while index < len(best.requests):
            request = best.requests[index]
            body = next(_without(request.body, position), None)
            if body is None:
                break
            requests = list(best.requests)
            requests[index] = request.with_body(body[0])
            smaller = await reproduces(requests)
            if smaller is None:
                position += 1
            else:
                best = smaller
    return best


def _without(body: Any, skip: int) -> Iterator[tuple[Any]]:
    """Yield the body without the entry at a position, counted breadth-first."""
    level: list[tuple[Any, ...]] = [()] if isinstance(body, (dict, list)) else []
    while level:
        deeper = []
        for path in level:
            value = _at(body, path)
            keys = value if isinstance(value, dict) else range(len(value))
            for key in keys:
                if skip == 0:
                    smaller = copy.deepcopy(body)
                    del _at(smaller, path)[key]
                    yield (smaller,)
                    return
                skip -= 1
                if isinstance(value[key], (dict, list)):
                    deeper.append((*path, key))
        level = deeper


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value
