"""An API server and its controllers; the tests play the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A cluster without an operator."""
    async with Cluster() as started:
        yield started
