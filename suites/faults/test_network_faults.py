"""The network and the API server fail again and again while a job of each kind lives.

Requests of the operator get lost, their answers do, they are refused or late, watches end or are
expired: the job ends in the same state as without that, nothing is counted twice or missed.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from suites.faults.outcome import LIVES, live, result

import variation
from harness import OPERATOR_AGENT
from traincrew.local.apiserver.http.faults import Fault, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from suites.faults.life import Life

pytestmark = pytest.mark.usefixtures("impatient")
FAULTS = 40
SHARE = 0.4
"""Of the requests fail, until so many have."""
OF_REQUESTS = (
    Fault(cut="before"),
    Fault(cut="after"),
    Fault(delay=0.3),
    refuse(409),
    refuse(429, retry_after=1),
    refuse(500),
    refuse(503),
    refuse(504),
)
OF_WATCHES = (
    Fault(cut="before"),
    Fault(delay=0.3),
    Fault(cut_after_bytes=2000),
    refuse(410),
    refuse(503),
)


class Faults:
    """Lets requests of the operator fail by chance."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self.happened = 0

    def __call__(self, method: str, path: str, agent: str) -> Fault | None:
        """Inject a fault; the hook of the API server."""
        mine = agent.startswith(OPERATOR_AGENT) and "/leases" not in path
        if not mine or self.happened >= FAULTS or self._random.random() >= SHARE:
            return None
        self.happened += 1
        return self._random.choice(OF_WATCHES if "watch=" in path else OF_REQUESTS)


@pytest.mark.parametrize("life", LIVES, ids=lambda life: type(life).__name__)
async def test_faults_of_the_network_change_nothing(
    undisturbed: Callable[[Life], dict[str, Any]], life: Life
) -> None:
    expected = undisturbed(life)
    faults = Faults(f"{variation.NUMBER} {life.name}")
    async with life.cluster() as cluster:
        await cluster.start_operator()
        cluster.server.faults = faults
        await live(cluster, life)

        assert await result(cluster, life) == expected
    assert faults.happened > 5  # a life of few requests has fewer than forty
