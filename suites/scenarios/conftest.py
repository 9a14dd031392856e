"""The clusters, one of each for the whole session, and the scenarios that were asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from .clusters import Embedded, Real
from .plays import SCENARIOS
from .theatre import Theatre

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.cluster import RealCluster

    from .scenario import Scenario

IMAGES = ("busybox", "helper")


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


def unavailable(lacking: list[str]) -> NoReturn:
    """Say that there can be no real cluster: loudly, and as a failure where one is required."""
    reason = "no real cluster: " + "; ".join(lacking)
    if os.environ.get("TRAINCREW_REQUIRE_REAL_CLUSTER") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[RealCluster]:
    """A running real cluster with the images of the scenarios on its nodes.

    TRAINCREW_SUITE_CLUSTER names one that is up already and is kept, for working on the suite.
    """
    from hack import cluster, images

    if kept := os.environ.get("TRAINCREW_SUITE_CLUSTER"):
        yield cluster.RealCluster.attach(kept)
        return
    if lacking := [*cluster.missing(), *images.missing()]:
        unavailable(lacking)
    archives = [images.build(name) for name in IMAGES]
    with cluster.RealCluster(cluster.Options(name="scenarios", nodes=2), print) as running:
        running.load_images(archives)
        yield running


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
