"""Every scenario goes as it should on both clusters, and tells the same story."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .scenarios import ALL

if TYPE_CHECKING:
    from .theatre import Theatre

every_scenario = pytest.mark.parametrize("scenario", ALL)


@every_scenario
def test_embedded(embedded: Theatre, scenario: str) -> None:
    assert embedded.story(scenario)
