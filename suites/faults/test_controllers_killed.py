"""The built-in controllers reach the same state when killed at any write they make."""

from __future__ import annotations

from typing import Any

import pytest

from local.controllers.test_faults import killed_at, run_job, run_stateful_set


@pytest.mark.parametrize("scenario", [run_job, run_stateful_set])
async def test_killed_at_every_write(scenario: Any) -> None:
    which = 1
    while await killed_at(which, scenario):
        which += 1
        assert which < 100, "the scenario does not end"
    assert which > 15
