"""Every scenario goes as it should on both clusters, and tells the same story."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .compare import compare
from .differences import DIFFERENCES
from .plays import playable

if TYPE_CHECKING:
    from .theatre import Theatre

BOTH = playable("embedded", "real")
used: set[str] = set()
compared: set[str] = set()


@pytest.mark.parametrize("scenario", playable("embedded"))
def test_embedded(embedded: Theatre, scenario: str) -> None:
    assert embedded.story(scenario)


@pytest.mark.parametrize("scenario", playable("real"))
def test_real(real: Theatre, scenario: str) -> None:
    assert real.story(scenario)


@pytest.mark.parametrize("scenario", BOTH)
def test_same(embedded: Theatre, real: Theatre, scenario: str) -> None:
    """Both clusters tell the same, but for what is listed in differences.py."""
    comparison = compare(scenario, embedded.story(scenario), real.story(scenario), DIFFERENCES)
    compared.add(scenario)
    used.update(comparison.used)
    if comparison.text:
        pytest.fail(comparison.text, pytrace=False)


def test_every_listed_difference_exists(real: Theatre) -> None:
    """What is listed and not met has been mended, and must not be allowed any longer."""
    if compared != set(BOTH):
        pytest.skip("needs all scenarios to be compared")
    assert not {each.name for each in DIFFERENCES if not each.sometimes} - used
