"""What the fault suites on the embedded cluster share."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from suites.faults.outcome import count_writes

from traincrew.local.controllers.job import backoff
from traincrew.operator import deferral
from traincrew.plan.shared.replicas import states

if TYPE_CHECKING:
    from collections.abc import Callable

    from suites.faults.life import Life


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write status counters at once, so that a life cycle does not take seconds."""
    monkeypatch.setattr(deferral, "STATUS_INTERVAL", 0.1)
    monkeypatch.setattr(states, "MIN_RECREATE_AGE", timedelta(0))
    # The second in which pods were created tells which one is newer.
    monkeypatch.setattr(backoff, "FIRST", 1.0)


@pytest.fixture(scope="module")
def undisturbed() -> Callable[[Life], dict[str, Any]]:
    """Return the final state of a job without faults."""

    @cache
    def find(life: Life) -> dict[str, Any]:
        # In a thread: an event loop may be running in this one.
        with ThreadPoolExecutor(1) as thread:
            writes, expected = thread.submit(asyncio.run, count_writes(life)).result()
        fewest, most = life.writes
        assert fewest <= writes <= most, writes
        return expected

    return find
