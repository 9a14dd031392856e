"""Clusters of tests: API server, controllers and operator in one event loop; no pod runs.

A module whose operators serve more kinds than by default says which in ``OPERATOR_KINDS``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from harness import Cluster
from traincrew.local.controllers.job import backoff
from traincrew.operator import deferral, gangs, queues
from traincrew.plan.mpicluster import planner as mpicluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statuses are written, failed pods replaced and APIs looked up soon: tests wait less."""
    monkeypatch.setattr(deferral, "STATUS_INTERVAL", 0.1)
    monkeypatch.setattr(gangs, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(gangs, "READ_SECONDS", 0.1)
    monkeypatch.setattr(queues, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(queues, "READ_SECONDS", 0.1)
    monkeypatch.setattr(backoff, "FIRST", 1.0)
    monkeypatch.setattr(mpicluster, "MIN_RECREATE_AGE", timedelta(seconds=1))


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A cluster with our kinds and without an operator."""
    async with Cluster(getattr(request.module, "OPERATOR_KINDS", ())) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """One cluster with an operator for all tests of a module."""
    async with Cluster(getattr(request.module, "OPERATOR_KINDS", ())) as started:
        await started.start_operator()
        yield started
