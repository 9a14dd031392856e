"""The real API server, once for all tests of this directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .reference import missing, reference_server

if TYPE_CHECKING:
    from collections.abc import Iterator

# As for the real cluster: set where a suite that cannot run must fail instead of being skipped.
REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"
AGAINST = "TRAINCREW_DIFFERENTIAL_AGAINST"
"""Variable that names the kubeconfig of a real API server to use instead of starting one."""


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if against := os.environ.get(AGAINST):
        yield Path(against)
        return
    if lacking := missing():
        text = "a real API server cannot run here; missing: " + "; ".join(lacking)
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    with reference_server(tmp_path_factory.mktemp("reference")) as path:
        yield path
