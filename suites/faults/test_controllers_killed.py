"""The built-in controllers, killed at every single write they make, end in the same state."""

from __future__ import annotations

from typing import Any

import pytest

from local.test_controllers_faults import killed_at, run_job, run_stateful_set


@pytest.mark.parametrize("story", [run_job, run_stateful_set])
async def test_killed_at_every_write(story: Any) -> None:
    which = 1
    while await killed_at(which, story):
        which += 1
        assert which < 100, "the story writes without end"
    assert which > 15
