"""Random requests to `traincrew up`: each is answered, none stops the others, nothing is left.

Every change of the code has another seed; ``TRAINCREW_FUZZ_SEED=N`` chooses one, and
``python -m suites.fuzz SEED NUMBER`` prints a request of it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from suites.shell import User

from .campaign import IN_FLIGHT, STALL_SECONDS, Campaign
from .seeds import VARIABLE, seed
from .server import Process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUESTS = 10_000
GROWTH = 32 * 1024 * 1024
"""Bytes by which the second half of the requests may raise the resident memory of the server."""
PEAK = 192 * 1024 * 1024
"""Bytes by which requests may exceed it while they are served."""

PROVOKED = (
    # The namespace may have few pods, and requests delete what these need.
    " is forbidden: ",
    # An object was deleted and created again while a controller patched it; it is retried.
    "metadata.uid: Invalid value",
)
"""Errors that controllers log with a traceback, as those of Kubernetes log them."""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path, tmp_path / "cache")
    user.traincrew("up", "--kubeconfig", str(user.kubeconfig))
    yield user
    user.traincrew("down")


@pytest.mark.timeout(600)
async def test_random_requests(user: User) -> None:
    (cluster,) = json.loads(user.traincrew("status", "-o", "json"))
    process = Process(cluster["process"])
    campaign = Campaign(user.kubeconfig, process, seed())
    print(f"{VARIABLE}={campaign.requests.seed}")  # noqa: T201
    half = REQUESTS // 2
    await campaign.run(range(half))
    settled = process.memory()
    await campaign.run(range(half, REQUESTS))
    grown, peak = process.memory() - settled, process.memory("VmHWM") - settled
    print(  # noqa: T201
        f"codes {dict(sorted(campaign.codes.items()))}; longest stall {campaign.longest_stall:.3f}"
        f" s; memory {settled >> 20} MiB, {grown >> 20} MiB more, {peak >> 20} MiB at most"
    )
    report = "\n".join(map(str, campaign.findings[:20]))
    assert not campaign.findings, f"{VARIABLE}={campaign.requests.seed}\n{report}"
    assert sum(campaign.codes.values()) == REQUESTS
    # Requests that are in flight together may each hold the loop as long as one may.
    assert campaign.longest_stall < IN_FLIGHT * STALL_SECONDS
    assert grown < GROWTH
    assert peak < PEAK
    assert _tracebacks(user.log()) == []


def _tracebacks(log: str) -> list[str]:
    """Return the tracebacks in a log, but for those of controllers that requests provoke."""
    found = re.findall(r"^Traceback .*?^(?=\S)[^\n]*", log, re.DOTALL | re.MULTILINE)
    return [
        each for each in found if not any(text in each.rpartition("\n")[2] for text in PROVOKED)
    ]
