"""Finds out by dry runs what the API would refuse: children that come later, pods that are missing.

No write of ours shows it: the first are not written yet, and the second are written by controllers
of Jobs and StatefulSets, which report in events only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from traincrew.operator.jobstate import Foresight
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.model import ChildKey
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from traincrew.engine.clock import Clock
    from traincrew.engine.controller import Request
    from traincrew.operator.children import ChildWriter
    from traincrew.operator.deferral import Deferral
    from traincrew.operator.jobstate import JobState
    from traincrew.plan.shared.model import Observed, Plan

MISSING_SECONDS = 3.0
"""Seconds a pod may be missing before a dry run checks whether the API refuses it."""
CHECK_SECONDS = 10.0
"""Seconds after which the API is asked again about a pod that is still missing."""
SOON_SECONDS = 2.0
"""Seconds in which the pods of a small job may be running, so that it costs no dry run."""
FORESIGHT_INTERVAL = 0.2
"""Seconds between the first dry runs of two jobs. Of many jobs that are created together, most have
their later children before their turn comes, and cost none."""
FORESIGHT_SECONDS = 30.0
"""Seconds after which the API is asked again about a child that it would refuse."""
LEFTOVER_SECONDS = 1.0
"""Seconds after which a child is created again whose name an object of an earlier job has. Its
deletion requeues the job only if it is in a cache."""


class Checks:
    """Asks the API server about what a plan names in `Plan.coming` and `Plan.missing`.

    While children of many jobs are being created, the questions wait.

    Args:
        writer: Sends the dry runs.
        deferral: Decides when they are sent.
        clock: Source of time.
    """

    def __init__(self, writer: ChildWriter, deferral: Deferral, clock: Clock) -> None:
        self._writer = writer
        self._deferral = deferral
        self._clock = clock
        self._next_turn = 0.0

    async def ask(
        self, request: Request, observed: Observed, plan: Plan, memory: JobState
    ) -> Observed | None:
        """Ask what is due, and remember the answers.

        Returns:
            The observed state with what is known by now, to plan again; None if the plan is based
            on all of it.
        """
        before = dict(memory.rejections)
        await self._foresee(request, observed, plan, memory)
        await self._look_for_missing(request, observed, plan, memory)
        refusals = {
            key: each.refusal for key, each in memory.foreseen.items() if each.refusal is not None
        }
        if not refusals and memory.rejections == before:
            return None
        return structs.replace(observed, rejections=dict(memory.rejections), refusals=refusals)

    def waits(self, memory: JobState) -> list[float]:
        """Return the seconds until there is something to ask again."""
        now = self._clock.monotonic()
        due = [each.due for each in memory.foreseen.values() if each.refusal is not None]
        if memory.foresight_due is not None:
            due.append(memory.foresight_due)
        return [each - now for each in (*due, *memory.missing.values())]

    async def _foresee(
        self, request: Request, observed: Observed, plan: Plan, memory: JobState
    ) -> None:
        """Ask about children that are created later.

        Otherwise a user would learn after minutes of waiting for workers that the master is
        refused. An answer is kept until the documents change, so it costs one request for each, and
        none on later reconciles; another operator asks again. Nobody asks about a child that is
        created soon.
        """
        now = self._clock.monotonic()
        digests = {key: digest(documents) for key, documents in plan.coming.items()}
        memory.foreseen = known = {
            key: found
            for key, found in memory.foreseen.items()
            if found.digest == digests.get(key, "")
        }
        due = [
            key
            for key in digests
            if (found := known.get(key)) is None or (found.refusal and found.due <= now)
        ]
        if not due:
            memory.foresight_due = None
            self._deferral.forget(request, "foresight")
            return
        if memory.foresight_due is None and any(key not in known for key in due):
            # What another operator has reported does not vanish from the status for a while.
            told = lifecycle.SYNCED in _false_conditions(observed)
            memory.foresight_due = now if told else self._turn(now + SOON_SECONDS)
        if memory.foresight_due is not None and memory.foresight_due > now:
            return
        if held := self._deferral.delay(request, "foresight"):
            memory.foresight_due = self._turn(now + held)
            return
        memory.foresight_due = None
        refusals = await self._writer.together(
            (self._writer.foresee(key, plan.coming[key]) for key in due), urgent=False
        )
        for key, refusal in zip(due, refusals, strict=True):
            leftover = refusal is not None and refusal.leftover
            again = now + (LEFTOVER_SECONDS if leftover else FORESIGHT_SECONDS)
            known[key] = Foresight(digest=digests[key], refusal=refusal, due=again)

    def _turn(self, earliest: float) -> float:
        """Return when a job may ask: not before a time, and not together with others."""
        turn = max(earliest, self._next_turn)
        self._next_turn = turn + FORESIGHT_INTERVAL
        return turn

    async def _look_for_missing(
        self, request: Request, observed: Observed, plan: Plan, memory: JobState
    ) -> None:
        """Ask why pods stay missing.

        While many children are being created, they are late because the API server is busy.
        """
        now = self._clock.monotonic()
        first = now + MISSING_SECONDS
        memory.missing = {name: memory.missing.get(name, first) for name in plan.missing}
        for name in memory.rejections.keys() - plan.missing.keys():
            del memory.rejections[name]
        if not plan.missing:
            self._deferral.forget(request, "checks")
        due = {name: pod for name, pod in plan.missing.items() if memory.missing[name] <= now}
        if due and (held := self._deferral.delay(request, "checks")):
            memory.missing |= dict.fromkeys(due, now + held)
            return
        for name, document in due.items():
            memory.missing[name] = now + CHECK_SECONDS
            owners = None  # a Job gives its pods other names
            if ChildKey("Job", name) not in observed.children:
                owners = {child.metadata.uid for child in observed.children.values()}
            refusal = await self._writer.refusal_of(document, owners=owners)
            if refusal is None:
                memory.rejections.pop(name, None)
            else:
                memory.rejections[name] = refusal


def _false_conditions(observed: Observed) -> set[str]:
    conditions = observed.job.status.get("conditions") or ()
    return {each.get("type") for each in conditions if each.get("status") == "False"}


__all__ = [
    "CHECK_SECONDS",
    "FORESIGHT_SECONDS",
    "LEFTOVER_SECONDS",
    "MISSING_SECONDS",
    "SOON_SECONDS",
    "Checks",
]
