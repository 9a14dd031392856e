"""``python -m suites``: run the suites, or one part of them, and build what they need first."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click
from hack.cluster import binaries
from suites import parts, repeats, results, scratch

from hack import images

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ("-v", "--tb=short", "--timeout=600")
PROCESSES = 3
"""One has the real cluster, and then helps the others. Suites wait for half of their time."""

_part = click.option(
    "--part",
    metavar="N|turn",
    help="What always runs and one part of the rest; `turn` is the part of this commit.",
)


@click.group()
def main() -> None:
    """Suites: tests with real components."""


@main.command(context_settings={"ignore_unknown_options": True})
@_part
@click.option("--record", is_flag=True, help="Write the seconds of each unit to parts.toml.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(part: str | None, record: bool, arguments: tuple[str, ...]) -> None:
    """Run the suites; tests that fail are run once more, alone.

    ARGUMENTS are given to pytest. The exit code is 0 if every test passed, at first or when it was
    run again.
    """
    known = repeats.read()
    chosen = {}
    if part is not None:
        number = _number(part)
        chosen = {parts.VARIABLE: str(number)}
        click.echo(f"what always runs, and part {number} of the rest (0 to {parts.PARTS - 1})")
    if short := scratch.shortage(Path(tempfile.gettempdir())):
        click.echo(short)
    code, first = _pytest(
        [f"-n={PROCESSES}", "--durations=20", *(arguments or ("suites",))], chosen
    )
    if first is None or code not in {0, 1}:
        raise click.ClickException(f"pytest ended with exit code {code}")
    if record:
        parts.record(first.seconds)
    second = None
    if tests := repeats.to_repeat(first):
        click.echo("\nfailed tests are run again, alone")
        _, second = _pytest(["-n=0", *tests], {})
    verdict = repeats.judge(first, second)
    if text := repeats.report(verdict, known, datetime.now(UTC).date()):
        click.echo(f"\n{text}\n")
    for test in verdict.failed_tests:
        click.echo(f"FAILED {test}")
    skipped = f", {first.skipped} skipped" if first.skipped else ""
    click.echo(f"{verdict.passed} passed, {len(verdict.failed_tests)} failed{skipped}")
    sys.exit(verdict.exit_code)


@main.command()
@_part
def build(part: str | None) -> None:
    """Build the programs and images that the suites of a run need."""
    plan = parts.read()
    units = {*plan.always, *plan.seconds}
    if part is not None:
        units = parts.chosen(plan, units, _number(part))
    for program in parts.needed(plan.programs, units):
        click.echo(binaries.build(program, click.echo))
    for image in parts.needed(plan.images, units):
        click.echo(images.build(image))
    binaries.remove_compiled_packages()


def _number(part: str) -> int:
    if part == "turn":
        sys.path.insert(0, str(ROOT / "tests"))  # where pytest finds it, too
        import variation

        return variation.NUMBER % parts.PARTS
    if part.isdecimal() and int(part) < parts.PARTS:
        return int(part)
    raise click.BadParameter(f"{part!r} is neither `turn` nor 0 to {parts.PARTS - 1}")


def _pytest(arguments: list[str], variables: dict[str, str]) -> tuple[int, results.Results | None]:
    """Run pytest; return its exit code and what it found."""
    with scratch.directory() as directory:
        file = directory / "results.json"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                *SETTINGS,
                f"--basetemp={directory / 't'}",
                *arguments,
            ],
            cwd=ROOT,
            env={**os.environ, **variables, results.VARIABLE: str(file)},
            check=False,
        )
        return done.returncode, results.read(file)


if __name__ == "__main__":
    main()
