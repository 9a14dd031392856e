"""The console: order, the block at the bottom, readers that pause or leave."""

import io
import os
import threading

import pytest

from cli.programs import until
from cli.screen import left_on
from traincrew.cli.display.console import Console, ConsoleStream, wants_colour
from traincrew.cli.display.lines import Line
from traincrew.cli.display.rows import Row


class Terminal(io.StringIO):
    """A terminal, and what is left on it."""

    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        return left_on(self.getvalue(), 40)


@pytest.fixture(autouse=True)
def size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((40, 10)))


def test_the_status_line_stays_below_and_is_erased_at_the_end() -> None:
    terminal = Terminal()
    console = Console(terminal, live=True)
    console.set_status("working")
    console.show([Line("one"), Line("two")])
    console.set_status("still working")
    console.show([])
    console.show([Line("three")])
    console.close()
    assert terminal.screen() == ["one", "two", "three", ""]


class Buffered(io.StringIO):
    """A stream whose text arrives when it is flushed; writing to it can be made to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = threading.Event()
        self.arrived = ""

    def write(self, text: str) -> int:
        assert self.may_write.wait(20)
        return super().write(text)

    def flush(self) -> None:
        self.arrived = self.getvalue()


def test_lines_have_arrived_when_the_console_is_closed() -> None:
    """Also if it is closed while an earlier line is being written."""
    stream = Buffered()
    console = Console(stream)
    console.show([Line("one")])
    closing = threading.Thread(target=console.close)
    closing.start()
    until(lambda: console._queue.qsize() >= 2, 20)
    stream.may_write.set()
    closing.join(20)
    assert stream.arrived == "one\n"


def test_a_block_of_rows_stays_below_and_changes_its_height() -> None:
    terminal = Terminal()
    console = Console(terminal, live=True)
    console.set_block([Row("digits", ("Running",)), Row(words=("50%",), done=0.5)])
    console.show([Line("one")])
    console.set_block([Row("digits", ("Running",)), Row(words=("60%",), done=0.6), Row("more")])
    console.show([Line("two")])
    console.set_block([Row("digits", ("Succeeded",))])
    console.show([Line("three")])
    shown = terminal.getvalue
    console.set_block([Row("digits", ("Running",)), Row(words=("75%",), done=0.75)])
    until(lambda: "75%" in shown(), 20)
    bar = "█" * 6 + "░" * 3
    assert terminal.screen() == ["one", "two", "three", "digits  Running", f"{bar}  75%"]
    console.close()
    assert terminal.screen() == ["one", "two", "three", ""]


def test_a_low_window_is_not_filled_by_the_block() -> None:
    terminal = Terminal()
    console = Console(terminal, live=True)
    console.set_block([Row(str(number)) for number in range(9)])
    until(lambda: "4" in terminal.getvalue(), 20)
    assert terminal.screen() == ["0", "1", "2", "3", "4"]
    console.close()
    assert terminal.screen() == [""]


def test_an_encoding_without_blocks_gets_a_bar_of_ascii() -> None:
    written = io.BytesIO()
    terminal = io.TextIOWrapper(written, encoding="latin-1", write_through=True)
    console = Console(terminal, live=True)
    console.set_block([Row(words=("50%",), done=0.5)])
    console.close()
    assert written.getvalue().startswith(b"#" * 4 + b"-" * 5 + b"  50%")


def test_colours_of_the_block() -> None:
    terminal = Terminal()
    console = Console(terminal, live=True, colour=True)
    console.set_block([Row("digits"), Row(words=("50%",), done=0.5)])
    console.close()
    bar = "█" * 4 + "░" * 5
    assert terminal.getvalue().startswith(f"\x1b[7mdigits\x1b[0m\n\x1b[32m{bar}\x1b[0m  50%")


def test_the_status_line_fits_and_leaves_room_for_ctrl_c() -> None:
    terminal = Terminal()
    console = Console(terminal, live=True)
    console.set_status("x" * 100)
    console.close()
    drawn = terminal.getvalue().partition("\r")[0]
    assert len(drawn) == 36
    assert drawn.endswith("…")


def test_without_a_terminal_there_is_no_status_line() -> None:
    file = io.StringIO()
    console = Console(file)
    console.set_status("working")
    console.show([Line("one", "bad"), Line("log", source="pod")])
    console.close()
    assert file.getvalue() == "one\npod | log\n"


def test_a_closed_output_is_reported_once() -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    noticed = threading.Event()
    console = Console(Gone(), on_broken=noticed.set)
    console.show([Line("one")])
    assert noticed.wait(10)
    console.show([Line("two")])
    console.close()
    assert console.broken


async def test_a_reader_that_pauses_blocks_only_the_producers() -> None:
    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            resume.wait(20)
            return super().write(text)

    resume = threading.Event()
    slow = Slow()
    console = Console(slow)
    for number in range(3000):
        console.show([Line(str(number))])  # returns at once
    threading.Timer(0.05, resume.set).start()
    await console.room()
    assert resume.is_set()
    console.close()
    assert slow.getvalue().splitlines() == [str(number) for number in range(3000)]


def test_the_output_of_libraries_does_not_break_the_display() -> None:
    terminal = Terminal()
    console = Console(terminal, live=True)
    console.set_status("working")
    stream = ConsoleStream(console)
    stream.write("a war")
    stream.write("ning\nanother")
    stream.write("\n")
    console.close()
    assert terminal.screen() == ["a warning", "another", ""]


@pytest.fixture
def terminal_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("terminal_environment")
def test_when_colours_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wants_colour(Terminal(), forbidden=False)
    assert not wants_colour(Terminal(), forbidden=True)
    assert not wants_colour(io.StringIO(), forbidden=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal(), forbidden=False)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(Terminal(), forbidden=False)
