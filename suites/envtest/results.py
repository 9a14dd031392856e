"""How many specs of upstream's suites pass: `results.toml`, and the page that is made of it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hack.cluster import gosuites

from . import running

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .running import Spec

PATH = Path(__file__).with_name("results.toml")
PAGE = Path(__file__).parents[2] / "docs" / "design" / "envtest.md"
NO_REASON = "not looked at yet"
_BEGIN, _END = "<!-- results -->\n", "<!-- end -->\n"


class Result(NamedTuple):
    """What the table says of a package.

    Attributes:
        specs: Specs that ran.
        passing: Minimum number of specs that pass here.
        upstream: Specs that pass on the real kube-apiserver and etcd; -1 if that has not been run.
        failing: Names of those that do not pass here, by reason.
    """

    specs: int
    passing: int
    upstream: int = -1
    failing: Mapping[str, list[str]] = {}

    @property
    def names(self) -> set[str]:
        """Names of the specs that are known to fail."""
        return {name for names in self.failing.values() for name in names}


Table = dict[str, dict[str, Result]]
"""By project and package."""


def read() -> Table:
    """Read the committed table."""
    found = tomllib.loads(PATH.read_text())
    return {
        project: {package: Result(**each) for package, each in packages.items()}
        for project, packages in found.items()
    }


def write(table: Table) -> None:
    """Write the table, and the page."""
    lines = [
        "# Upstream's own suites against the programs that `traincrew envtest` writes. `passing`",
        "# only grows. Written by `python -m suites.envtest`; the reasons of `failing` by hand.",
    ]
    for project in sorted(table):
        for package, result in sorted(table[project].items()):
            lines += ["", f"[{project}.{json.dumps(package)}]"]
            lines += [f"specs = {result.specs}", f"passing = {result.passing}"]
            if result.upstream >= 0:
                lines.append(f"upstream = {result.upstream}")
            for reason, names in sorted(result.failing.items()):
                shown = "".join(f"  {json.dumps(name)},\n" for name in sorted(names))
                lines.append(f"failing.{json.dumps(reason)} = [\n{shown}]")
    PATH.write_text("\n".join(lines) + "\n")
    text = PAGE.read_text()
    head, rest = text.split(_BEGIN)
    PAGE.write_text(head + _BEGIN + "".join(page(table)) + _END + rest.split(_END)[1])


def page(table: Table) -> Iterator[str]:
    """Yield the lines of the part of the page that is made of the table."""
    yield "| project | package | specs | real servers | here |\n|---|---|---|---|---|\n"
    for project in sorted(table):
        for package, result in sorted(table[project].items()):
            upstream = result.upstream if result.upstream >= 0 else ""
            release = running.release(project)
            row = (f"{project} {release}", f"`{package}`", result.specs, upstream, result.passing)
            yield f"| {' | '.join(map(str, row))} |\n"


def shown_page() -> str:
    """Return that part of the page as it is committed."""
    return PAGE.read_text().split(_BEGIN)[1].split(_END)[0]


def merged(before: Result | None, specs: Iterable[Spec], *, upstream: bool) -> Result:
    """Return a result after a run; reasons of specs that still fail are kept.

    Args:
        before: What the table says so far.
        specs: What has run.
        upstream: Whether it was on the real servers.
    """
    found = list(specs)
    passing = sum(each.passed for each in found)
    if upstream:
        return (before or Result(len(found), 0))._replace(upstream=passing)
    failed = {each.name for each in found if not each.passed}
    reasons = dict(before.failing) if before is not None else {}
    failing = {
        reason: sorted(set(names) & failed)
        for reason, names in reasons.items()
        if set(names) & failed
    }
    if new := failed - {name for names in failing.values() for name in names}:
        failing[NO_REASON] = sorted({*failing.get(NO_REASON, ()), *new})
    known = before.upstream if before is not None else -1
    return Result(len(found), passing, known, failing)


def check(project: str, package: str, specs: list[Spec]) -> None:
    """Compare a run with the table: more may pass, none may be lost.

    Raises:
        AssertionError: A spec has failed that is not known to fail, or fewer pass.
    """
    expected = read()[project][package]
    passed = [each for each in specs if each.passed]
    print(f"{project} {package}: {len(passed)} of {len(specs)} pass")  # noqa: T201
    if newly := sorted(each.name for each in passed if each.name in expected.names):
        told = f"`python -m suites.envtest {project}` writes that these pass:"
        print(told, *newly, sep="\n  ")  # noqa: T201
    lost = [each for each in specs if not each.passed and each.name not in expected.names]
    assert not lost, "\n\n".join(f"{each.name}\n{each.message}" for each in lost)
    assert len(passed) >= expected.passing


def packages() -> set[tuple[str, str]]:
    """Return the packages that are built."""
    return {
        (project, package)
        for project, suites in gosuites.GO_SUITES.items()
        for package in suites.packages
    }
