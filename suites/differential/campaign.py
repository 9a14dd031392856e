"""Many histories in parallel, and the differences found in them."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Self

from .compare import differences
from .custom import DEFINITIONS, CustomKind
from .histories import HistoryRunner, Mismatch
from .random_choice import RandomChoice
from .requests import Request, Resource
from .shrink import shrink

if TYPE_CHECKING:
    from .request_choice import NextRequest
    from .servers import Pair

PARALLEL_HISTORIES = 12
"""Number of parallel histories: enough to keep both servers busy."""
LENGTH = 12
"""Number of requests in a history."""
MAX_REPORTED = 8
"""Maximum number of kinds of differences that are shrunk and reported."""

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


class Campaign:
    """Runs histories and collects the differences, one example of each kind."""

    def __init__(self, runner: HistoryRunner, seed: int) -> None:
        self.runner = runner
        self.seed = seed
        self.found: dict[str, Mismatch] = {}
        self.counts: dict[str, int] = {}
        self.histories = 0

    @classmethod
    async def start(cls, pair: Pair, seed: int) -> Self:
        """Create a campaign in its own namespace, with the service account that pods need."""
        namespace = f"differential-{seed}-{random.randrange(10**6)}"
        await pair.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        await pair.create(ACCOUNTS, namespace, {"metadata": {"name": "default"}})
        return cls(HistoryRunner(pair, namespace), seed)

    async def run(
        self, resource: Resource, choose: NextRequest, writes: int, *, length: int = LENGTH
    ) -> None:
        """Run histories with about this many requests.

        Which histories, depends on the seed and not on how fast the servers are.
        """
        first = self.histories + 1
        self.histories += -(-writes // length)
        numbers = iter(range(first, self.histories + 1))

        async def run_histories() -> None:
            for number in numbers:
                choice = RandomChoice(self.seed * 1_000_000 + number)
                found = await self.runner.explore(resource, choose, choice, length)
                if found is not None:
                    self.found.setdefault(found.signature, found)
                    self.counts[found.signature] = self.counts.get(found.signature, 0) + 1

        await asyncio.gather(*(run_histories() for _ in range(PARALLEL_HISTORIES)))

    async def run_custom(self, kinds: int, writes: int) -> None:
        """Run histories of random custom kinds, with this many requests for each.

        A definition that only one server accepts is a difference, too.
        """
        for number in range(kinds):
            choice = RandomChoice(self.seed * 1_000_000 + number)
            kind = CustomKind(choice, number)
            answers = await self.runner.pair.offer(DEFINITIONS, kind.definition)
            real, embedded = answers
            lines = differences({"code": real.code}, {"code": embedded.code})
            if lines:
                lines += [answer.text for answer in answers if answer.code >= 300]
                request = Request("create", kind.definition)
                found = Mismatch(DEFINITIONS, [request], lines, choice.seed)
                self.found.setdefault(found.signature, found)
                self.counts[found.signature] = self.counts.get(found.signature, 0) + 1
            elif answers[0].code < 300:
                await self.runner.pair.serving(kind.resource.path(self.runner.namespace))
                await self.run(kind.resource, kind.requests(), writes)

    async def report(self) -> str:
        """Return the differences, most frequent first, each shrunk."""
        texts = []
        order = sorted(self.found, key=lambda each: -self.counts[each])
        for signature in order[:MAX_REPORTED]:
            small = await shrink(self.runner, self.found[signature])
            texts.append(f"{self.counts[signature]} times: {small}")
        texts += [f"{self.counts[each]} times, not shown: {each}" for each in order[MAX_REPORTED:]]
        return "\n\n".join(texts)
