"""The programs of `traincrew envtest`, as a user makes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hack.cluster import preflight
from suites.conftest import REQUIRE


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory for ``KUBEBUILDER_ASSETS``."""
    if text := preflight.missing_go():
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    directory = tmp_path_factory.mktemp("assets") / "bin"
    said = subprocess.run(
        [Path(sys.executable).with_name("traincrew"), "envtest", directory],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"export KUBEBUILDER_ASSETS={directory}\n"
    return directory
