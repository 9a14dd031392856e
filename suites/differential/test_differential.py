"""Random writes to the embedded API server and to a real one: the same answers, but for the known.

Seeds are fresh. ``TRAINCREW_SEED=N`` repeats a run, ``python -m suites.differential`` plays longer.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import pytest

from .campaign import Campaign
from .kinds import KINDS
from .reference import missing, reference_server
from .servers import serve_pair
from .stories import builtin_story

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from .play import Tally

# As for the real cluster: set where a suite that could not run must not count as passed.
REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"
SEED = "TRAINCREW_SEED"

WRITES = 2_400
"""To built-in kinds of every sort, by all verbs."""
CUSTOM_KINDS, CUSTOM_WRITES = 12, 80
"""Random definitions, and writes to the objects of each."""
PATCHES = 600
"""Mostly strategic merge patches."""
APPLY_SHARE = 1.0
SHARE = 0.99
"""Of the writes by a verb, how many must be answered the same or differ in a named class.

Server-side apply has to agree always. Of the others fresh seeds find now and then a rule of
upstream's that nobody has met before.
"""
FEWEST = 2
"""That many may differ however few writes there were."""
LETTER = 0.98
"""Of the writes to built-in kinds, how many must be answered the same to the letter."""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if lacking := missing():
        text = "a real API server cannot run here; missing: " + "; ".join(lacking)
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    with reference_server(tmp_path_factory.mktemp("reference")) as path:
        yield path


@pytest.fixture
async def campaign(kubeconfig: Path) -> AsyncIterator[Campaign]:
    seed = int(os.environ.get(SEED) or secrets.randbelow(10**9))
    print(f"{SEED}={seed}")  # noqa: T201
    async with serve_pair(kubeconfig) as pair:
        yield await Campaign.start(pair, seed)


def _allowed(verb: str, tally: Tally) -> float:
    if verb == "apply":
        return (1 - APPLY_SHARE) * tally.writes
    return max(FEWEST, (1 - SHARE) * tally.writes)


async def judge(campaign: Campaign, letter: float = 0.0) -> dict[str, Tally]:
    """Show what is different and in no class of known.py, made small; fail if it is too much."""
    tallies = campaign.stage.tallies
    for verb, tally in sorted(tallies.items()):
        print(f"{verb}: {tally}")  # noqa: T201
    too_many = [verb for verb, tally in tallies.items() if tally.different > _allowed(verb, tally)]
    writes = sum(tally.writes for tally in tallies.values())
    alike = sum(tally.alike for tally in tallies.values())
    if campaign.found:  # making it small writes, too: the judgement is made by now
        report = f"{SEED}={campaign.seed}\n\n{await campaign.report()}"
        print(report)  # noqa: T201
        if too_many:
            pytest.fail(f"too many differences of {', '.join(too_many)}\n{report}", pytrace=False)
    assert alike >= letter * writes
    return tallies


async def test_writes_to_builtin_kinds(campaign: Campaign) -> None:
    """Server-side apply, updates, JSON and merge patches, creations with their defaults."""
    for kind in KINDS.values():
        await campaign.run(kind.resource, builtin_story(kind), WRITES // len(KINDS))
    tallies = await judge(campaign, LETTER)
    assert tallies["apply"].writes > WRITES // 3


async def test_strategic_merge_patches(campaign: Campaign) -> None:
    verbs = {"strategic-patch": 10.0, "apply": 1.0, "update": 1.0}
    for kind in KINDS.values():
        await campaign.run(kind.resource, builtin_story(kind, verbs), PATCHES // len(KINDS))
    tally = (await judge(campaign, LETTER))["strategic-patch"]
    assert tally.writes > PATCHES // 2


async def test_writes_to_custom_kinds(campaign: Campaign) -> None:
    """Definitions accepted or refused; pruning, defaults, validation and apply of their objects."""
    await campaign.run_custom(CUSTOM_KINDS, CUSTOM_WRITES)
    await judge(campaign)
