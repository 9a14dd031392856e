"""Random writes to the embedded API server and a real one: equal but for known differences.

The seed is derived from the code, see `variation`; ``TRAINCREW_SEED=N`` chooses another one.
``python -m suites.differential`` runs longer, with a random seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import variation

from .campaign import Campaign
from .kinds import KINDS
from .request_choice import builtin_requests
from .servers import serve_pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from .histories import Tally

WRITES = 2_400
"""Number of writes to built-in kinds, by all verbs."""
CUSTOM_KINDS, CUSTOM_WRITES = 12, 80
"""Number of random definitions, and of writes to the objects of each."""
PATCHES = 600
"""Number of writes, mostly strategic merge patches."""
APPLY_SHARE = 1.0
SHARE = 0.99
"""Minimum share of a verb's writes with equal responses or a known difference.

Server-side apply always has to agree. For the other verbs, new seeds occasionally find an upstream
rule that is still missing.
"""
TOLERATED = 2
"""Number of writes that may differ, however few there are."""
IDENTICAL_SHARE = 0.98
"""Minimum share of the writes to built-in kinds with identical responses."""


@pytest.fixture
async def campaign(kubeconfig: Path) -> AsyncIterator[Campaign]:
    async with serve_pair(kubeconfig) as pair:
        yield await Campaign.start(pair, variation.NUMBER)


def _allowed(verb: str, tally: Tally) -> float:
    if verb == "apply":
        return (1 - APPLY_SHARE) * tally.writes
    return max(TOLERATED, (1 - SHARE) * tally.writes)


async def check_differences(campaign: Campaign, identical_share: float = 0.0) -> dict[str, Tally]:
    """Print the unknown differences, shrunk; fail if there are too many."""
    tallies = campaign.runner.tallies
    for verb, tally in sorted(tallies.items()):
        print(f"{verb}: {tally}")  # noqa: T201
    too_many = [verb for verb, tally in tallies.items() if tally.different > _allowed(verb, tally)]
    writes = sum(tally.writes for tally in tallies.values())
    alike = sum(tally.alike for tally in tallies.values())
    if campaign.found:  # shrinking sends writes, too, so the counts are taken before
        report = f"{variation.VARIABLE}={campaign.seed}\n\n{await campaign.report()}"
        print(report)  # noqa: T201
        if too_many:
            pytest.fail(f"too many differences of {', '.join(too_many)}\n{report}", pytrace=False)
    assert alike >= identical_share * writes
    return tallies


async def test_writes_to_builtin_kinds(campaign: Campaign) -> None:
    """Server-side apply, updates, JSON and merge patches, creations with their defaults."""
    for kind in KINDS.values():
        await campaign.run(kind.resource, builtin_requests(kind), WRITES // len(KINDS))
    tallies = await check_differences(campaign, IDENTICAL_SHARE)
    assert tallies["apply"].writes > WRITES // 3


async def test_strategic_merge_patches(campaign: Campaign) -> None:
    verbs = {"strategic-patch": 10.0, "apply": 1.0, "update": 1.0}
    for kind in KINDS.values():
        await campaign.run(kind.resource, builtin_requests(kind, verbs), PATCHES // len(KINDS))
    tally = (await check_differences(campaign, IDENTICAL_SHARE))["strategic-patch"]
    assert tally.writes > PATCHES // 2


async def test_writes_to_custom_kinds(campaign: Campaign) -> None:
    """Definitions are accepted or refused; objects are pruned, defaulted, validated, applied."""
    await campaign.run_custom(CUSTOM_KINDS, CUSTOM_WRITES)
    await check_differences(campaign)
