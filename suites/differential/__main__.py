"""Longer runs by hand: ``python -m suites.differential --help``."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import time
from pathlib import Path

from .campaign import Campaign
from .kinds import KINDS
from .servers import serve_pair
from .stories import builtin_story


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m suites.differential", description=__doc__)
    parser.add_argument("--writes", type=int, default=20_000, help="how many, all kinds together")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument("--kinds", default="", help="comma-separated, such as Deployment,Job")
    parser.add_argument("--against", type=Path, required=True, help="kubeconfig of a real cluster")
    options = parser.parse_args()
    kinds = options.kinds.split(",") if options.kinds else list(KINDS)
    async with serve_pair(options.against) as pair:
        campaign = await Campaign.start(pair, options.seed)
        started = time.monotonic()
        for name in kinds:
            kind = KINDS[name]
            await campaign.run(kind.resource, builtin_story(kind), options.writes // len(kinds))
            print(f"{name}: {campaign.stage.requests} requests so far")  # noqa: T201
        seconds = time.monotonic() - started
        print(await campaign.report())  # noqa: T201
        print(f"{campaign.stage.requests} requests in {seconds:.0f} s")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
