"""Every test that the table lists as passing passes.

A few take minutes, in which they wait. Each run has one in four of them, others with each change of
the code; with TRAINCREW_EVERY_CONFORMANCE_TEST set, all.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import variation

from . import table

if TYPE_CHECKING:
    from .e2e_runner import E2eRunner

WORKERS = 6
"""Number of parallel programs; most tests wait most of the time."""
LONG_SECONDS = 100
TURNS = 4


def chosen(costs: dict[str, int]) -> dict[str, int]:
    """Return the tests of this run, with their durations in seconds."""
    long = sorted(name for name, cost in costs.items() if cost > LONG_SECONDS)
    left_out = {name for place, name in enumerate(long) if (place + variation.NUMBER) % TURNS}
    if "TRAINCREW_EVERY_CONFORMANCE_TEST" in os.environ:
        return costs
    return {name: cost for name, cost in costs.items() if name not in left_out}


def test_the_table_only_grows() -> None:
    found = table.read()

    assert len(found.passing) >= found.floor
    assert found.text() == table.PATH.read_text(), "write it by python -m suites.conformance"


def test_the_table_has_every_conformance_test(runner: E2eRunner) -> None:
    found = table.read()
    names = {name.removesuffix(table.MARK) for name in runner.names()}

    assert names == found.names
    assert all(found.failing), "a test that does not pass needs its reason"


@pytest.mark.timeout(3000)
def test_passing_tests_still_pass(runner: E2eRunner) -> None:
    found = table.read()
    wanted = {name + table.MARK: cost for name, cost in chosen(found.passing).items()} | found.extra

    results = runner.run(wanted, workers=WORKERS)

    failed = {
        name: results[name].message if name in results else "was not run"
        for name in wanted
        if name not in results or not results[name].passed
    }
    assert not failed, "\n\n".join(f"{name}\n{text}" for name, text in failed.items())
