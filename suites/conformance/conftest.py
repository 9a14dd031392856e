"""The e2e runner of the suite."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from . import clusters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .e2e_runner import E2eRunner

# As for the real cluster: set where a suite that cannot run must fail instead of being skipped.
REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[E2eRunner]:
    """Upstream's test program with fresh embedded clusters."""
    if lacking := clusters.missing():
        text = "upstream's tests cannot run here; missing: " + "; ".join(lacking)
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    with clusters.open_clusters(tmp_path_factory.mktemp("conformance")) as runner:
        yield runner
