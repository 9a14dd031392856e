"""Fixtures of the suites on a real cluster."""

from collections.abc import Callable

import pytest
from hack.cluster import RealCluster


@pytest.fixture(scope="session")
def cluster(real_cluster: RealCluster) -> RealCluster:
    """The real cluster."""
    return real_cluster


@pytest.fixture(scope="session")
def kubectl(real_cluster: RealCluster) -> Callable[..., str]:
    """Runs kubectl as administrator of the real cluster and returns what it prints."""
    return real_cluster.kubectl
