"""The intended differences, each with a name and a reason: known_differences.toml."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from .commands import HERE

if TYPE_CHECKING:
    from .execution import Output


@dataclass(frozen=True)
class Difference:
    """A line that only one of the clusters prints, which is `side`."""

    side: str
    line: str

    def __str__(self) -> str:
        return f"{self.side:8} | {self.line}"


@dataclass
class Known:
    """An intended difference.

    Attributes:
        name: A short name, unique.
        why: The reason, for readers of docs/design/kubectl.md.
        commands: Patterns (with `*`) of the commands in commands.toml that have it.
        embedded: Regular expressions of lines that only the embedded cluster prints.
        real: The same for the real cluster.
        sometimes: It depends on timing, so it need not be found.
        used: Whether it was found.
    """

    name: str
    why: str
    commands: list[str]
    embedded: list[str] = field(default_factory=list)
    real: list[str] = field(default_factory=list)
    sometimes: bool = False
    used: bool = False

    def covers(self, command: str, difference: Difference) -> bool:
        """Return whether this entry explains a difference."""
        patterns = self.embedded if difference.side == "embedded" else self.real
        return any(fnmatchcase(command, pattern) for pattern in self.commands) and any(
            re.fullmatch(pattern, difference.line) for pattern in patterns
        )


def load() -> list[Known]:
    """Return all entries."""
    document = tomllib.loads((HERE / "known_differences.toml").read_text())
    return [Known(**each) for each in document.get("difference", [])]


def compare(embedded: Output, real: Output) -> list[Difference]:
    """Return the lines that only one of the clusters prints."""
    found = []
    for line in difflib.ndiff(real.lines(), embedded.lines()):
        if line.startswith("+ "):
            found.append(Difference("embedded", line[2:]))
        elif line.startswith("- "):
            found.append(Difference("real", line[2:]))
    return found
