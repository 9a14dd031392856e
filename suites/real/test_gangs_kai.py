"""Gangs: KAI Scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .gang_cases import GangCases, clean
from .gang_support import KAI, GangUser, cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["clean"]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def user() -> Iterator[GangUser]:
    """A user of a cluster with this scheduler."""
    with cluster(KAI) as found:
        yield found


class TestGangs(GangCases):
    """All cases."""
