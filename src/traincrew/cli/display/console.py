"""Writes lines to a terminal or a file.

On a terminal, a block of a few rows stays at the bottom: it is erased, lines are written, and it is
redrawn in one write, so that nothing flickers. It is never higher than half of the window, and as
wide as the window is when it is drawn. A separate thread writes: a reader that pauses (Ctrl-S, a
pager) must not stop the cluster that runs in this process.
"""

from __future__ import annotations

import asyncio
import io
import os
import queue
import shutil
import sys
import threading
from typing import TYPE_CHECKING, TextIO

from traincrew.cli.display.folding import folded
from traincrew.cli.display.lines import Line
from traincrew.cli.display.rows import EMPTY, FULL, Row, drawn
from traincrew.cli.display.safe import shown, unguarded
from traincrew.cli.display.states import SIGNS
from traincrew.cli.display.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from traincrew.cli.display.states import Tone

WIDEST_SOURCE = 40
NARROW_COLUMNS = 100
MAX_UNWRITTEN = 2000
"""Number of unwritten lines from which on producers have to wait."""
FLUSH_SECONDS = 5.0

_POD_COLOURS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_TONE_COLOURS: dict[Tone, str] = {"good": "32", "busy": "2", "bad": "31"}
_ERASE_BELOW = "\r\x1b[J"
_ROW_ABOVE = "\x1b[A"


def wants_colour(stream: TextIO, *, forbidden: bool) -> bool:
    """Return whether to use colours: on terminals, unless NO_COLOR or the user forbids it."""
    if forbidden or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


class Painter:
    """Formats lines as text: with a column of times, and a colour for each pod."""

    def __init__(self, *, colour: bool) -> None:
        self.colour = colour
        self.columns: int | None = None
        """Width of the terminal, for wrapping our own lines."""
        self.hidden_prefix = ""
        """Common prefix of pod names that is left out on a narrow terminal."""
        self._colours: dict[str, int] = {}
        self._width = 0

    def assign_colour(self, source: str) -> None:
        """Assign a pod its colour, in the order in which pods appear."""
        pod = source.partition("/")[0]
        if pod not in self._colours:
            self._colours[pod] = _POD_COLOURS[len(self._colours) % len(_POD_COLOURS)]

    def paint(self, line: Line) -> str:
        """Return the text of one line, without a line break."""
        said = shown(line.text, colour=self.colour)
        if line.source:
            self.assign_colour(line.source)
            name = plain(line.source.removeprefix(self.hidden_prefix))
            self._width = max(self._width, min(len(name), WIDEST_SOURCE))
            prefix = f"{name:<{self._width}} |"
            if self.colour:
                pod = line.source.partition("/")[0]
                prefix = f"\x1b[{self._colours[pod]}m{prefix}\x1b[0m"
            return f"{prefix} {said}".rstrip(" ")
        moment = f"{line.at:>6.1f}s  " if line.at is not None else ""
        text = self._folded(said, len(moment))
        if self.colour and line.tone in _TONE_COLOURS:
            text = f"\x1b[{_TONE_COLOURS[line.tone]}m{text}\x1b[0m"
        return f"\x1b[2m{moment}\x1b[0m{text}" if self.colour and moment else moment + text

    def _folded(self, text: str, indent: int) -> str:
        """Wrap one of our own lines; the output of pods is not wrapped."""
        return folded(text, self.columns, indent)


class Console:
    """The output of a run.

    Args:
        stream: The stream; standard output by default.
        colour: Use colours.
        live: Keep a block at the bottom; only for terminals.
        on_broken: Called (from the writing thread) when the stream is closed by its reader.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        colour: bool = False,
        live: bool = False,
        on_broken: Callable[[], None] | None = None,
    ) -> None:
        self._stream: TextIO = unguarded(stream or sys.stdout)
        self.painter = Painter(colour=colour)
        self._live = live
        self._on_broken = on_broken
        self._rows: tuple[Row, ...] = ()
        self._drawn = 0
        """Number of rows on the screen."""
        self._plain = not has_signs(self._stream)
        self.broken = False
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="console", daemon=True)
        self._thread.start()

    @property
    def columns(self) -> int | None:
        """The width of the terminal; None if the stream is not one."""
        return shutil.get_terminal_size().columns if self._live else None

    def show(self, lines: Iterable[Line]) -> None:
        """Write lines above the block."""
        self.painter.columns = self.columns
        text = "".join(self.painter.paint(line) + "\n" for line in lines)
        if text:
            self._queue.put(self._erased() + text + self._draw())

    def abbreviate(self, beginning: str) -> None:
        """Leave out this prefix of pod names on a narrow terminal."""
        if self._live and shutil.get_terminal_size().columns < NARROW_COLUMNS:
            self.painter.hidden_prefix = beginning

    def set_status(self, text: str) -> None:
        """Say in place of the block what this command is doing; nothing removes it."""
        self.set_block((Row(text),) if text else ())

    def set_block(self, rows: Sequence[Row]) -> None:
        """Change the block at the bottom, if there is one."""
        if self._live and tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self._queue.put(self._erased() + self._draw())

    async def room(self) -> None:
        """Wait while too many lines are not written yet."""
        while self._queue.qsize() > MAX_UNWRITTEN and not self.broken:  # noqa: ASYNC110 - a thread
            await asyncio.sleep(0.02)

    def close(self) -> None:
        """Erase the block and write the remaining lines, for a limited time."""
        self._rows = ()
        self._queue.put(self._erased())
        self._queue.put(None)
        self._thread.join(FLUSH_SECONDS)

    def _erased(self) -> str:
        if not self._drawn:
            return ""
        rows, self._drawn = self._drawn, 0
        return _ROW_ABOVE * (rows - 1) + _ERASE_BELOW

    def _draw(self) -> str:
        if not self._live or not self._rows:
            return ""
        size = shutil.get_terminal_size()
        # Leave room for the "^C" that terminals echo, and for the last column, where some wrap.
        columns = max(size.columns - 4, 10)
        rows = self._rows[: max(size.lines // 2, 1)]
        self._drawn = len(rows)
        return "\n".join(self._row(row, columns) for row in rows)

    def _row(self, row: Row, columns: int) -> str:
        text = plain(drawn(row, columns, plain=self._plain))
        if not self.painter.colour:
            return text
        if row.done is None:
            return f"\x1b[7m{text}\x1b[0m"
        length = len(text) - len(text.lstrip(f"{FULL}{EMPTY}"))
        return f"\x1b[32m{text[:length]}\x1b[0m{text[length:]}"

    def _write(self) -> None:
        while (text := self._queue.get()) is not None:
            self._try(self._stream.write, text)
            if self._queue.empty():
                self._try(self._stream.flush)
        self._try(self._stream.flush)

    def _try(self, write: Callable[..., object], *text: str) -> None:
        """Write or flush, unless the reader has closed the stream."""
        if self.broken:
            return
        try:
            write(*text)
        except (OSError, ValueError):
            self.broken = True
            if self._on_broken is not None:
                self._on_broken()


def has_signs(stream: TextIO) -> bool:
    """Return whether the encoding of a stream has the characters of progress bars and signs."""
    try:
        "".join((FULL, EMPTY, *(sign.character for sign in SIGNS))).encode(
            getattr(stream, "encoding", None) or "utf-8"
        )
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class ConsoleStream(io.TextIOBase):
    """Replaces standard error while a console is live, to keep the block intact."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._rest = ""

    def isatty(self) -> bool:
        """Return True: the output goes to a terminal."""
        return True

    def write(self, text: str) -> int:
        """Show whole lines above the block."""
        *lines, self._rest = (self._rest + text).split("\n")
        self._console.show(Line(line) for line in lines)
        return len(text)
