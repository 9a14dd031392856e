"""Histories: sequences of requests for one object, sent to both servers."""

from __future__ import annotations

import asyncio
import copy
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .compare import Memory, signature
from .known_differences import Known, explain
from .requests import Document, Request, Resource

if TYPE_CHECKING:
    from .random_choice import RandomChoice
    from .request_choice import NextRequest
    from .servers import Pair


@dataclass(frozen=True)
class Mismatch:
    """The first request of a history with different responses."""

    resource: Resource
    requests: list[Request]
    lines: list[str]
    seed: int = 0

    @property
    def signature(self) -> str:
        return signature(f"{self.resource.kind} {self.requests[-1].verb}", self.lines)

    def __str__(self) -> str:
        steps = "\n".join(f"  {index}. {step}" for index, step in enumerate(self.requests, 1))
        answers = "\n".join(f"    {line}" for line in self.lines)
        return (
            f"{self.resource.kind} (history {self.seed}):\n{steps}\n  the last answers:\n{answers}"
        )


@dataclass
class Tally:
    """Comparison counts of the responses to one verb.

    Attributes:
        writes: number of requests.
        alike: those with identical responses.
        known: those that differ in a class of `known_differences.py`, by its name.
        different: those that differ otherwise.
    """

    writes: int = 0
    alike: int = 0
    different: int = 0
    known: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        classes = "".join(f"; {name}: {count}" for name, count in sorted(self.known.items()))
        return f"{self.writes} writes, {self.alike} alike, {self.different} different{classes}"


class HistoryRunner:
    """Runs histories in a namespace of both servers, with a new object name for each."""

    def __init__(self, pair: Pair, namespace: str) -> None:
        self.pair = pair
        self.namespace = namespace
        self._numbers = itertools.count()
        self.requests = 0
        self.tallies: dict[str, Tally] = {}

    def count(self, verb: str, known: list[Known], *, same: bool) -> None:
        """Count a response."""
        tally = self.tallies.setdefault(verb, Tally())
        tally.writes += 1
        tally.different += not same
        tally.alike += same and not known
        for each in known:
            tally.known[each.name] = tally.known.get(each.name, 0) + 1

    def new_name(self) -> str:
        return f"x{next(self._numbers):06d}"

    async def explore(
        self, resource: Resource, choose: NextRequest, choice: RandomChoice, length: int
    ) -> Mismatch | None:
        """Run a new history until the servers differ, or to its end."""
        history = _History(self, resource)
        requests: list[Request] = []
        for _ in range(length):
            live = copy.deepcopy(history.shown)
            requests.append(choose(choice, live))
            lines = await history.step(requests[-1])
            if lines:
                return Mismatch(resource, requests, lines, choice.seed)
            if history.over:
                return None
        requests.append(Request("get"))
        lines = await history.step(requests[-1])
        return Mismatch(resource, requests, lines, choice.seed) if lines else None

    async def replay(self, resource: Resource, requests: list[Request]) -> Mismatch | None:
        """Run given requests; the result only has those up to the first difference."""
        history = _History(self, resource)
        for count, request in enumerate(requests, 1):
            lines = await history.step(request)
            if lines:
                return Mismatch(resource, requests[:count], lines)
        return None


class _History:
    """Requests for one object, sent to both servers."""

    def __init__(self, runner: HistoryRunner, resource: Resource) -> None:
        self.runner = runner
        self.resource = resource
        self.name = runner.new_name()
        self.memories = Memory(), Memory()
        self.shown: Document | None = None
        self.over = False

    async def step(self, request: Request) -> list[str]:
        """Send a request; return the differences between the responses."""
        pair = self.runner.pair
        self.runner.requests += 1
        path = request.path(self.resource, self.runner.namespace, self.name)
        answers = await asyncio.gather(
            *(
                server.send(
                    request.method,
                    path,
                    memory.own(request.encoded(self.resource, self.name, memory.live)),
                    request.content_type,
                )
                for server, memory in zip((pair.real, pair.embedded), self.memories, strict=True)
            )
        )
        shown: list[dict[str, Any]] = []
        for memory, answer in zip(self.memories, answers, strict=True):
            memory.learn(answer, request.verb, dry_run="dryRun" in request.query)
            shown.append(memory.canonical(answer))
        self.over = (
            answers[0].code != answers[1].code
        )  # a known difference, but the objects differ from here on
        if 200 <= answers[0].code < 300:
            live = self.memories[0].live
            if live is None:
                self.shown = None
            elif "dryRun" not in request.query:
                self.shown = shown[0]["body"]
        lines, known = explain(self.resource, request, shown[0], shown[1])
        self.over = self.over or any(each.ends for each in known)
        self.runner.count(request.verb, known, same=not lines)
        return lines
