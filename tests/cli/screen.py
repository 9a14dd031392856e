"""What is left on a terminal after a program has written to it.

Knows what the console writes: line feeds, carriage returns, moving up, erasing below, colours; and
the wrapping of lines that are too long.
"""

import re

_PART = re.compile(
    r"\x1b\[(?P<count>\d*)(?P<command>[A-Za-z])|\x1b\[[0-9;?]*[A-Za-z]|(?P<text>.)", re.DOTALL
)


class Screen:
    """A terminal of a width, and of any height."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._lines = [""]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        for part in _PART.finditer(text):
            if part["text"] is not None:
                self._put(part["text"])
            elif part["command"] == "A":
                self._row = max(0, self._row - int(part["count"] or 1))
            elif part["command"] == "J":
                self._lines[self._row] = self._lines[self._row][: self._column]
                del self._lines[self._row + 1 :]

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._next()
        else:
            if self._column == self.columns:
                self._next()
            line = self._lines[self._row].ljust(self._column)
            self._lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1

    def _next(self) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._lines):
            self._lines.append("")

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._lines]


def left_on(text: str, columns: int = 80) -> list[str]:
    """Return the lines that are left after a text."""
    screen = Screen(columns)
    screen.feed(text)
    return screen.lines()
