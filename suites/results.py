"""The results of one run of pytest, as the processes of a run pass them on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "TRAINCREW_SUITES_RESULTS"
"""Environment variable with the file that a run writes its results to."""


class Failure(msgspec.Struct, frozen=True):
    """A test that failed, or whose set-up or tear-down did.

    Attributes:
        test: Its pytest node id, relative to the repository.
        text: What pytest says of it.
    """

    test: str
    text: str


class Results(msgspec.Struct, frozen=True):
    """The results of a run.

    Attributes:
        passed: Number of tests that passed.
        skipped: Number of tests that were skipped.
        failures: The tests that failed.
        seconds: How long each unit took (`suites.parts`), set-up and tear-down included.
    """

    passed: int = 0
    skipped: int = 0
    failures: tuple[Failure, ...] = ()
    seconds: dict[str, float] = {}


def write(path: Path, results: Results) -> None:
    """Write the results of a run for the process that started it."""
    path.write_bytes(msgspec.json.encode(results))


def read(path: Path) -> Results | None:
    """Return the results of a run; None if it ended before it had any."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else None
