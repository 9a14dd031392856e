"""The table of results: which of upstream's tests pass here, and why the others do not."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

PATH = Path(__file__).with_name("results.toml")
MARK = " [Conformance]"
_HEAD = """\
# Upstream's conformance tests ({release}) against the embedded cluster.
# Written by `python -m suites.conformance --write`; docs/design/conformance.md says how.
# A test that passes stays: the suite fails if one of them does not, or if there are fewer than
# `floor`.

release = "{release}"
floor = {floor}

# Name (without its mark [Conformance]) = about how many seconds it takes.
[passing]
"""


@dataclass
class Table:
    """The results.

    Attributes:
        release: Of Kubernetes, without `v`.
        floor: Minimum number of passing tests.
        passing: Names of conformance tests, with their durations in seconds.
        extra: The same for tests beyond conformance.
        failing: Names of tests that do not pass, by reason.
    """

    release: str
    floor: int = 0
    passing: dict[str, int] = field(default_factory=dict)
    extra: dict[str, int] = field(default_factory=dict)
    failing: dict[str, list[str]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Every conformance test of the table."""
        return {*self.passing, *(name for names in self.failing.values() for name in names)}

    def reason(self, name: str) -> str:
        """Return why a test does not pass; empty if it does, or if unknown."""
        found = (reason for reason, names in self.failing.items() if name in names)
        return next(found, "")

    def set_passing(self, name: str, seconds: float, *, conformance: bool) -> None:
        """Record that a test passed; its duration is only updated if it changed considerably."""
        table = self.passing if conformance else self.extra
        known = table.get(name)
        if known is None or not known / 2 - 2 <= seconds <= known * 2 + 2:
            table[name] = max(1, round(seconds))
        for reason in list(self.failing):
            kept = [each for each in self.failing[reason] if each != name]
            self.failing[reason] = kept
            if not kept:
                del self.failing[reason]
        self.floor = max(self.floor, len(self.passing))

    def text(self) -> str:
        """Return the table as the text of its file."""
        lines = [_HEAD.format(release=self.release, floor=self.floor)]
        lines += [f"{_quoted(name)} = {self.passing[name]}\n" for name in sorted(self.passing)]
        lines.append(
            "\n# Tests upstream does not count as conformance, which matter here.\n[extra]\n"
        )
        lines += [f"{_quoted(name)} = {self.extra[name]}\n" for name in sorted(self.extra)]
        lines.append("\n# Why the others do not pass.\n[failing]\n")
        for reason in sorted(self.failing):
            names = "".join(f"  {_quoted(name)},\n" for name in sorted(self.failing[reason]))
            lines.append(f"{_quoted(reason)} = [\n{names}]\n")
        return "".join(lines)


def _quoted(text: str) -> str:
    # A JSON string is a valid TOML basic string.
    return json.dumps(text, ensure_ascii=False)


def read(path: Path = PATH) -> Table:
    """Read the committed table."""
    return Table(**tomllib.loads(path.read_text()))
