"""An API server, its controllers and the operator in one event loop; tests simulate pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A cluster with the ChainerJob definition and without an operator."""
    async with Cluster() as started:
        yield started
