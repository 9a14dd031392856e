"""Logs of several pods are merged by time, each line once."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from traincrew.cli.watching import merge
from traincrew.cli.watching.follow import Position
from traincrew.cli.watching.loglines import split_stamp
from traincrew.cli.watching.merge import Reading, Source, merged
from traincrew.engine.errors import ApiError, NotFoundError


class Node:
    """Serves logs in pieces of seven bytes."""

    def __init__(self, **logs: str) -> None:
        self.logs_of = logs
        self.open = 0
        self.most = 0

    async def logs(self, name: str, _namespace: str, **options: Any) -> AsyncIterator[bytes]:
        assert options["timestamps"]
        text = self.logs_of[name]
        if not text:
            raise NotFoundError("it is gone")
        self.open += 1
        self.most = max(self.most, self.open)
        for start in range(0, len(text), 7):
            yield text[start : start + 7].encode()
        self.open -= 1


def at(second: int, text: str, end: str = "\n") -> str:
    return f"2026-01-01T00:00:{second:02}Z {text}{end}"


async def read(node: Node, *, whole_lines: bool = False, since: str = "") -> list[str]:
    stamp = split_stamp(f"{since} ".encode())[0] if since else None
    sources = [Source(name, name, "default", "c", Position(stamp)) for name in node.logs_of]
    failures: list[str] = []

    def failed(source: Source, error: ApiError) -> None:
        failures.append(f"{source.pod}: {error.message}")

    how = Reading(whole_lines=whole_lines)
    lines = merged(node, sources, how, failed)  # type: ignore[arg-type]
    found = [f"{each.source.pod} {split_stamp(each.line)[1].decode()}" async for each in lines]
    return found + failures


async def test_lines_are_in_the_order_of_their_times() -> None:
    node = Node(a=at(1, "one") + at(4, "four"), b=at(2, "two") + at(3, "three"), c="")
    assert await read(node) == ["a one", "b two", "b three", "a four", "c: it is gone"]


async def test_a_clock_that_was_set_back_loses_no_line() -> None:
    node = Node(a=at(5, "five") + at(6, "six"), b=at(7, "seven") + at(8, "eight"))
    assert await read(node, since="2026-01-01T00:00:06Z") == ["a six", "b seven", "b eight"]
    node = Node(a=at(9, "nine") + at(2, "set back") + at(3, "three"), b=at(10, "ten"))
    assert await read(node) == ["a nine", "a set back", "a three", "b ten"]


async def test_a_last_line_without_an_end() -> None:
    node = Node(a=at(1, "one") + at(2, "no end", ""))
    assert await read(node) == ["a one", "a no end"]
    assert await read(node, whole_lines=True) == ["a one"]


async def test_a_limited_number_of_logs_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "READ_AT_ONCE", 3)
    node = Node(**{f"p{number}": at(number, "x") for number in range(8)})
    assert await read(node) == [f"p{number} x" for number in range(8)]
    assert node.most == 3
