"""Helm 3 and 4, built from the Go modules that `hack/cluster` pins."""

import shutil
from pathlib import Path

import pytest
from hack.cluster import binaries

BOTH = ("helm", "helm4")


def built(name: str = "helm") -> Path:
    """Return the program; where there is no Go there is none, and the test is skipped."""
    if shutil.which("go") is None:
        pytest.skip("helm cannot be built: go is not installed")
    return binaries.build(name)
