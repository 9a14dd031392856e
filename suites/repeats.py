"""What becomes of tests that failed: each is run again, once, without any other beside it.

A test that passes then is flaky. It is reported with its first failure and does not fail the run;
its cause is looked for, and `flaky.toml` says what was found. More than `MOST_FLAKY` of them are no
chance, and a test that fails twice has failed. Fast tests are never run again.
"""

from __future__ import annotations

import tomllib
from datetime import date  # noqa: TC003 - msgspec reads the annotation
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from suites import parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from suites.results import Failure, Results

PATH = Path(__file__).with_name("flaky.toml")
MOST_FLAKY = 3
MOST_REPEATED = 12
"""Failures up to which tests are run again; when more fail, something else is wrong."""


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of `flaky.toml`.

    Attributes:
        test: The pytest node id.
        seen: The day of the first failure.
        cause: What was found, and what was done.
    """

    test: str
    seen: date
    cause: str


class Verdict(NamedTuple):
    """The end of a run.

    Attributes:
        failed: Failures that count.
        flaky: First failures of tests that passed when they were run again.
        passed: Number of tests that passed, at first or when they were run again.
    """

    failed: list[Failure]
    flaky: list[Failure]
    passed: int

    @property
    def failed_tests(self) -> list[str]:
        """The names of the tests that failed, each once."""
        return list(dict.fromkeys(failure.test for failure in self.failed))

    @property
    def exit_code(self) -> int:
        """Zero if nothing failed, and not too much was flaky."""
        return 1 if self.failed or len(subjects(self.flaky)) > MOST_FLAKY else 0


def read(path: Path = PATH) -> list[Known]:
    """Read `flaky.toml`.

    Raises:
        ValueError: An entry is malformed, or a test is listed twice: that one has to be mended or
            removed.
    """
    entries = msgspec.convert(tomllib.loads(path.read_text()).get("flaky", []), list[Known])
    names = [each.test for each in entries]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{path.name}: mend or remove what was flaky twice: {', '.join(twice)}")
    return entries


def subjects(failures: Iterable[Failure]) -> set[str]:
    """Return what failed: the three tests of a scenario fail together, and count once."""
    tests = (failure.test for failure in failures)
    return {parts.unit_of(test) if test.startswith(parts.SCENARIOS) else test for test in tests}


def to_repeat(first: Results) -> list[str]:
    """Return the tests to run again: those that failed, unless too many did."""
    failed = list(dict.fromkeys(failure.test for failure in first.failures))
    return failed if len(subjects(first.failures)) <= MOST_REPEATED else []


def judge(first: Results, second: Results | None) -> Verdict:
    """Judge a run by its results and by those of the tests that were run again.

    Args:
        first: The results of all tests.
        second: The results of those that were run again; None if none was, or nothing is known.
    """
    again = {failure.test for failure in second.failures} if second else set()
    repeated = set(to_repeat(first)) if second else set()
    # A test that was skipped, or not found, when it was run again has not passed.
    trusted = second is not None and second.passed + len(again) == len(repeated)
    failed = [each for each in first.failures if not trusted or each.test in again]
    flaky = [each for each in first.failures if trusted and each.test not in again]
    return Verdict(failed, flaky, first.passed + len({each.test for each in flaky}))


def report(verdict: Verdict, known: Sequence[Known], today: date) -> str:
    """Return what is printed of flaky tests: the first failure of each, and its entry to write."""
    if not verdict.flaky:
        return ""
    lines = ["flaky tests: they failed, and passed when they were run again alone", ""]
    listed = {each.test for each in known}
    for failure in verdict.flaky:
        lines += [f"---- {failure.test}", failure.text, ""]
    if (count := len(subjects(verdict.flaky))) > MOST_FLAKY:
        lines += [f"{count} are no chance; at most {MOST_FLAKY} do not fail a run", ""]
    for test in dict.fromkeys(failure.test for failure in verdict.flaky):
        if test in listed:
            lines.append(f"mend or remove {test}: it is in suites/{PATH.name} for another cause")
        else:
            lines += [
                f"add to suites/{PATH.name} with the next commit, when the cause is found:",
                "[[flaky]]",
                f"test = {msgspec.json.encode(test).decode()}",
                f"seen = {today.isoformat()}",
                'cause = "..."',
            ]
    return "\n".join(lines)
