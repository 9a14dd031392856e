"""Many histories side by side, and what was different in them."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Self

from .compare import differences
from .custom import DEFINITIONS, CustomKind
from .dice import Dice
from .play import Mismatch, NextRequest, Stage
from .shrink import shrink
from .wire import Request, Resource

if TYPE_CHECKING:
    from .servers import Pair

SIDE_BY_SIDE = 12
"""Histories played at once: enough to keep both servers busy."""
LENGTH = 12
"""Requests of one history."""
MOST_REPORTED = 8
"""Kinds of differences that are made small and reported."""

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


class Campaign:
    """Plays histories and gathers the differences, one example of each kind."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.seed = seed
        self.found: dict[str, Mismatch] = {}
        self.counts: dict[str, int] = {}
        self.histories = 0

    @classmethod
    async def start(cls, pair: Pair, seed: int) -> Self:
        """In a namespace of its own, with the account pods need."""
        namespace = f"differential-{seed}-{random.randrange(10**6)}"
        await pair.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        await pair.create(ACCOUNTS, namespace, {"metadata": {"name": "default"}})
        return cls(Stage(pair, namespace), seed)

    async def run(
        self, resource: Resource, story: NextRequest, writes: int, *, length: int = LENGTH
    ) -> None:
        """Play histories until so many requests have been sent."""
        end = self.stage.requests + writes

        async def play() -> None:
            while self.stage.requests < end:
                self.histories += 1
                dice = Dice(self.seed * 1_000_000 + self.histories)
                found = await self.stage.explore(resource, story, dice, length)
                if found is not None:
                    self.found.setdefault(found.signature, found)
                    self.counts[found.signature] = self.counts.get(found.signature, 0) + 1

        await asyncio.gather(*(play() for _ in range(SIDE_BY_SIDE)))

    async def run_custom(self, kinds: int, writes: int) -> None:
        """Play histories of random custom kinds, so many requests for each.

        A definition only one server takes is a difference, too.
        """
        for number in range(kinds):
            dice = Dice(self.seed * 1_000_000 + number)
            kind = CustomKind(dice, number)
            answers = await self.stage.pair.offer(DEFINITIONS, kind.definition)
            real, embedded = answers
            lines = differences({"code": real.code}, {"code": embedded.code})
            if lines:
                lines += [answer.text for answer in answers if answer.code >= 300]
                request = Request("create", kind.definition)
                found = Mismatch(DEFINITIONS, [request], lines, dice.seed)
                self.found.setdefault(found.signature, found)
                self.counts[found.signature] = self.counts.get(found.signature, 0) + 1
            elif answers[0].code < 300:
                await self.stage.pair.serving(kind.resource.path(self.stage.namespace))
                await self.run(kind.resource, kind.story(), writes)

    async def report(self) -> str:
        """The differences, commonest first, each made small."""
        texts = []
        order = sorted(self.found, key=lambda each: -self.counts[each])
        for signature in order[:MOST_REPORTED]:
            small = await shrink(self.stage, self.found[signature])
            texts.append(f"{self.counts[signature]} times: {small}")
        texts += [f"{self.counts[each]} times, not shown: {each}" for each in order[MOST_REPORTED:]]
        return "\n\n".join(texts)
