"""The clusters, one of each for the whole session, and the scenarios that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .clusters import Embedded, Real
from .plays import SCENARIOS
from .theatre import Theatre

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.cluster import RealCluster

    from .scenario import Scenario


def wanted(session: pytest.Session, cluster: str) -> list[Scenario]:
    """The scenarios which the selected tests need on a cluster."""
    names = {
        item.callspec.params["scenario"]
        for item in session.items
        if isinstance(item, pytest.Function)
        and cluster in item.fixturenames
        and "scenario" in item.fixturenames
    }
    return [scenario for name, scenario in SCENARIOS.items() if name in names]


@pytest.fixture(scope="session")
def embedded(request: pytest.FixtureRequest) -> Iterator[Theatre]:
    """What happens on the embedded cluster."""
    chosen = wanted(request.session, "embedded")
    with Embedded() as cluster, Theatre(cluster, chosen) as theatre:
        yield theatre


@pytest.fixture(scope="session")
def real(request: pytest.FixtureRequest, real_cluster: RealCluster) -> Iterator[Theatre]:
    """What happens on the real cluster."""
    chosen = wanted(request.session, "real")
    with Real(real_cluster) as cluster, Theatre(cluster, chosen) as theatre:
        yield theatre
