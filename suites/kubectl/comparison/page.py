"""docs/design/kubectl.md: the table of commands, and the differences by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .clusters import MINORS
from .commands import HERE, load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .clusters import Finding
    from .known_differences import Known

PATH = HERE.parents[2] / "docs" / "design" / "kubectl.md"


class Row(NamedTuple):
    """A command with one version of kubectl; `result` is "same", or the names of differences."""

    group: str
    command: str
    result: str


_HEAD = """\
# kubectl, compared with a real cluster

<!-- Written by `python -m suites.kubectl.comparison --write`. -->

`suites/kubectl/comparison` runs the commands below with kubectl {minors} on the embedded
cluster and on a real one (Kubernetes {release}, one or two nodes, [how](real-cluster.md)) and
compares exit code, output and errors line by line. Times, identifiers, addresses, generated names
and the width of columns do not count. Every difference must have a name and a reason; a listed
difference that is no longer found fails the suite, too.

{count} commands with {versions} versions of kubectl: {same} of {total} print the same.
"""


def page(findings: Iterable[Finding], known: list[Known], release: str) -> str:
    """Return the whole page.

    Args:
        findings: The findings of all versions.
        known: The intended differences.
        release: Kubernetes release of the real cluster.
    """
    cells: dict[tuple[str, str, str, int], str] = {}
    seen: dict[tuple[str, str, str], int] = {}
    for found in findings:
        key = (found.minor, found.group, found.command.text)
        number = seen[key] = seen.get(key, 0) + 1
        cells[*key, number] = ", ".join(names(found, known))
    total, same = len(cells), sum(not names for names in cells.values())
    compared = sum(len(_compared(group.name)) for group in load())
    lines = [
        _HEAD.format(
            minors=f"{', '.join(MINORS[:-1])} and {MINORS[-1]}",
            release=release,
            count=compared,
            versions=len(MINORS),
            same=same,
            total=total,
        ),
        "## Differences",
        "",
        "| name | why |",
        "|---|---|",
        *(f"| {each.name} | {each.why} |" for each in known),
    ]
    for group in load():
        head = " | ".join(MINORS)
        lines += ["", f"## {group.name.capitalize()}", "", f"| command | {head} |"]
        lines.append("|---|" + "---|" * len(MINORS))
        counts: dict[str, int] = {}
        for command in group.commands:
            if command.awaited is not None:
                continue
            number = counts[command.text] = counts.get(command.text, 0) + 1
            row = [cells[minor, group.name, command.text, number] or "same" for minor in MINORS]
            shown = command.shown.replace("|", "\\|")
            lines.append(f"| `{shown}` | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def column(findings: Iterable[Finding], known: list[Known], minor: str) -> list[Row]:
    """Return the rows of one version of kubectl, in the order of the page."""
    return [
        Row(found.group.capitalize(), found.command.shown, ", ".join(names(found, known)) or "same")
        for found in findings
        if found.minor == minor
    ]


def read(text: str, minor: str) -> list[Row]:
    """Read the rows of one version of kubectl from a page."""
    rows, group = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            group = line.removeprefix("## ")
        elif line.startswith("| `"):
            cells = [cell.replace("\\|", "|") for cell in re.split(r"(?<!\\) ?\| ?", line)[1:-1]]
            rows.append(Row(group, cells[0].strip("`"), cells[1 + MINORS.index(minor)]))
    return rows


def _compared(name: str) -> list[str]:
    (group,) = [each for each in load() if each.name == name]
    return [command.text for command in group.commands if command.awaited is None]


def names(found: Finding, known: list[Known]) -> list[str]:
    """Return the names of a command's differences, without those that depend on timing."""
    return [
        each.name
        for each in known
        if not each.sometimes
        and any(each.covers(found.command.text, line) for line in found.differences)
    ]
