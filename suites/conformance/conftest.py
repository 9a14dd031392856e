"""The judge of the suite."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from . import court

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .judge import Judge

# As for the real cluster: set where a suite that could not run must not count as passed.
REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """Upstream's test program before fresh embedded clusters."""
    if lacking := court.missing():
        text = "upstream's tests cannot run here; missing: " + "; ".join(lacking)
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    with court.open_court(tmp_path_factory.mktemp("conformance")) as judge:
        yield judge
