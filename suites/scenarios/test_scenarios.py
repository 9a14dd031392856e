"""Every scenario goes as it should on both clusters, and tells the same story."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .plays import SCENARIOS

if TYPE_CHECKING:
    from .theatre import Theatre

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS)


@every_scenario
def test_embedded(embedded: Theatre, scenario: str) -> None:
    assert embedded.story(scenario)
