"""Jobs of every kind in queues of the real Kueue, on the embedded cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .queue_cases import QueueCases
from .queue_user import KINDS

if TYPE_CHECKING:
    import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each case that is for all kinds with each."""
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS)


class TestQueues(QueueCases):
    """All cases."""
