"""Longer runs from the command line: ``python -m suites.differential --help``."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from .campaign import Campaign
from .kinds import KINDS
from .reference import reference_server
from .request_choice import VERBS, builtin_requests
from .servers import serve_pair

CUSTOM_WRITES = 80


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m suites.differential", description=__doc__)
    parser.add_argument("--writes", type=int, default=20_000, help="how many, all kinds together")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument("--kinds", default="", help="comma-separated, such as Deployment,Job")
    parser.add_argument(
        "--against", type=Path, help="kubeconfig of a real cluster; without it one is started"
    )
    parser.add_argument(
        "--custom", type=int, default=0, help="random definitions, with 80 writes each"
    )
    parser.add_argument("--verbs", default="", help="with weights, such as apply=10,update=1")
    options = parser.parse_args()
    weights = (each.partition("=") for each in filter(None, options.verbs.split(",")))
    verbs = {verb: float(weight or 1) for verb, _, weight in weights} or VERBS
    kinds = options.kinds.split(",") if options.kinds else list(KINDS)
    kinds = kinds if options.writes else []
    async with AsyncExitStack() as stack:
        against = options.against
        if against is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            against = stack.enter_context(reference_server(Path(directory)))
        pair = await stack.enter_async_context(serve_pair(against))
        print(f"seed {options.seed}", flush=True)  # noqa: T201
        campaign = await Campaign.start(pair, options.seed)
        started = time.monotonic()
        await campaign.run_custom(options.custom, CUSTOM_WRITES)
        for name in kinds:
            kind = KINDS[name]
            await campaign.run(
                kind.resource, builtin_requests(kind, verbs), options.writes // len(kinds)
            )
            print(f"{name}: {campaign.runner.requests} requests so far", flush=True)  # noqa: T201
        seconds = time.monotonic() - started
        for verb, tally in sorted(campaign.runner.tallies.items()):
            print(f"{verb}: {tally}")  # noqa: T201
        print(await campaign.report())  # noqa: T201
        print(f"{campaign.runner.requests} requests in {seconds:.0f} s")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
