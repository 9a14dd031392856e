"""The installation, checked with the programs that users install with: helm and kubectl.

Helm is built from the Go module that `hack/cluster` pins. Where there is no Go there is no Helm,
and what needs it is skipped.
"""

import sys
from pathlib import Path

import pytest
from suites.helm import built

from .support import Run, runner


@pytest.fixture(scope="session")
def helm() -> Run:
    """Runs helm; fails the test when it exits with another code than expected."""
    return runner(built())


@pytest.fixture(scope="session")
def kubectl() -> Run:
    """Runs the kubectl beside this Python, without any cluster."""
    return runner(Path(sys.executable).with_name("kubectl"))
