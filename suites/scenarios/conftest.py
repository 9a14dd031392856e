"""The clusters, one of each for the whole session, and the requested scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .all_scenarios import SCENARIOS
from .clusters import Embedded, Real
from .runner import ScenarioRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.cluster import RealCluster

    from .scenario import Scenario


def wanted(session: pytest.Session, cluster: str) -> list[Scenario]:
    """Return the scenarios that the selected tests need on a cluster."""
    names = {
        item.callspec.params["scenario"]
        for item in session.items
        if isinstance(item, pytest.Function)
        and cluster in item.fixturenames
        and "scenario" in item.fixturenames
    }
    return [scenario for name, scenario in SCENARIOS.items() if name in names]


@pytest.fixture(scope="session")
def embedded(request: pytest.FixtureRequest) -> Iterator[ScenarioRunner]:
    """The scenarios on the embedded cluster."""
    chosen = wanted(request.session, "embedded")
    with Embedded() as cluster, ScenarioRunner(cluster, chosen) as runner:
        yield runner


@pytest.fixture(scope="session")
def real(request: pytest.FixtureRequest, real_cluster: RealCluster) -> Iterator[ScenarioRunner]:
    """The scenarios on the real cluster."""
    chosen = wanted(request.session, "real")
    with Real(real_cluster) as cluster, ScenarioRunner(cluster, chosen) as runner:
        yield runner
