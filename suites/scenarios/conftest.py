"""The clusters, one of each for the whole session, and the scenarios that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .clusters import Embedded
from .plays import SCENARIOS
from .theatre import Theatre

if TYPE_CHECKING:
    from collections.abc import Iterator


def wanted(session: pytest.Session, cluster: str) -> list[str]:
    """The scenarios which the selected tests need on a cluster."""
    names = {
        item.callspec.params["scenario"]
        for item in session.items
        if isinstance(item, pytest.Function)
        and "scenario" in getattr(item, "callspec", item).__dict__.get("params", {})
        and cluster in item.fixturenames
    }
    return [name for name in SCENARIOS if name in names]


@pytest.fixture(scope="session")
def embedded(request: pytest.FixtureRequest) -> Iterator[Theatre]:
    """What happens on the embedded cluster."""
    chosen = [SCENARIOS[name] for name in wanted(request.session, "embedded")]
    with Embedded() as cluster, Theatre(cluster, chosen) as theatre:
        yield theatre
