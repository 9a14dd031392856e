"""Logs are split in linear time, and lines are not longer than a limit."""

import time

import pytest

from traincrew.cli.watching import loglines
from traincrew.cli.watching.loglines import LEFT_OUT, LONGEST_LINE, LogLines

STAMP = b"2026-01-01T00:00:01Z "


def split(text: bytes, size: int) -> list[bytes]:
    lines = LogLines()
    found = [
        line
        for start in range(0, len(text), size)
        for line in lines.feed(text[start : start + size])
    ]
    return [*found, lines.rest()]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_they_arrive(size: int) -> None:
    text = b"one\n\ntwo two\nthree\r\n\nlast"
    assert split(text, size) == text.split(b"\n")


def test_fifty_megabytes_without_an_end_take_a_moment() -> None:
    text = STAMP + b"x" * 50_000_000
    before = time.process_time()
    found = split(text, 65536)
    assert time.process_time() - before < 5.0, "it was 31 s when the time was quadratic"
    assert [len(line) for line in found] == [LONGEST_LINE + len(LEFT_OUT.encode()), 0]
    assert found[0].startswith(STAMP + b"xxx")
    assert found[0].decode().endswith("the rest of this line is left out]")


def test_what_follows_a_long_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loglines, "LONGEST_LINE", 10)
    text = b"short\n" + b"y" * 35 + b"\nnext\n"
    for size in (1, 4, 9, 100):
        cut = b"y" * 10 + LEFT_OUT.encode()
        assert split(text, size) == [b"short", cut, b"next", b""]


def test_only_the_last_state_of_a_redrawn_line_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress bar that is never ended is shown as it is, and not as it was."""
    monkeypatch.setattr(loglines, "LONGEST_LINE", 100)
    text = STAMP + b"".join(b"\r%3d%%" % number for number in range(101)) + b"\nnext\n"
    for size in (1, 5, 64):
        first, *others = split(text, size)
        assert first.startswith(STAMP)
        assert first.endswith(b"\r100%")
        assert len(first) <= 100 + size
        assert others == [b"next", b""]


def test_redrawn_lines_take_linear_time_too() -> None:
    text = STAMP + (b"\r" + b"z" * (LONGEST_LINE // 2 - 100)) * 40
    before = time.process_time()
    split(text, 4096)
    assert time.process_time() - before < 5.0
