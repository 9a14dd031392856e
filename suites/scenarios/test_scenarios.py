"""Every scenario succeeds on both clusters, with the same transcript."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from .all_scenarios import runnable
from .compare import compare
from .differences import DIFFERENCES

if TYPE_CHECKING:
    from .runner import ScenarioRunner

BOTH = runnable("embedded", "real")
used: set[str] = set()
compared: set[str] = set()


@pytest.mark.parametrize("scenario", runnable("embedded"))
def test_embedded(embedded: ScenarioRunner, scenario: str) -> None:
    assert embedded.transcript(scenario)


@pytest.mark.parametrize("scenario", runnable("real"))
def test_real(real: ScenarioRunner, scenario: str) -> None:
    assert real.transcript(scenario)


@pytest.mark.parametrize("scenario", BOTH)
def test_same(embedded: ScenarioRunner, real: ScenarioRunner, scenario: str) -> None:
    """Both clusters tell the same, but for what is listed in differences.py.

    If components of the real cluster have said more, they must not say it in another run.
    """
    expected = embedded.transcript(scenario)
    comparison = compare(scenario, expected, real.transcript(scenario), DIFFERENCES)
    compared.add(scenario)
    used.update(comparison.used)
    if comparison.may_be_chance:
        again = compare(scenario, expected, real.repeat(scenario), DIFFERENCES)
        if not again.text:
            return
    if comparison.text:
        pytest.fail(comparison.text, pytrace=False)


def test_every_listed_difference_exists() -> None:
    """What is listed and not met has been mended, and must not be allowed any longer.

    A difference is due if every scenario that may have it has been compared.
    """
    due = {
        each.name
        for each in DIFFERENCES
        if not each.sometimes
        and all(name in compared for name in BOTH if re.fullmatch(each.scenarios, name))
    }
    assert not due - used
