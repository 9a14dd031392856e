"""Several jobs in one stream: browsers open few connections to a server at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.cli.display import states
from traincrew.cli.page.feed import Feed, Message
from traincrew.cli.page.streams import SeriesCursor

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from traincrew.cli.page.jobfeed import JobFeed

__all__ = ["MOST_COMPARED", "CompareCursor", "ComparedFeed"]

MOST_COMPARED = 8
"""Jobs that are compared at the same time."""


class ComparedFeed(Feed):
    """Notifies of the changes of several jobs.

    Args:
        jobs: Their feeds.
    """

    def __init__(self, jobs: Sequence[JobFeed]) -> None:
        super().__init__()
        self._jobs = jobs

    def subscribe(self, event: asyncio.Event | None = None) -> asyncio.Event:
        """Return an event that is set now, and whenever one of the jobs changes."""
        event = super().subscribe(event)
        for job in self._jobs:
            job.subscribe(event)
        return event

    def unsubscribe(self, event: asyncio.Event) -> None:
        """Forget a subscriber."""
        super().unsubscribe(event)
        for job in self._jobs:
            job.unsubscribe(event)


class CompareCursor:
    """How far one browser is with a comparison: of each job its state and its metrics.

    Each message has the number of the job that it is about, from 0.

    Args:
        jobs: Their feeds, in the order in which the browser has named them.
    """

    def __init__(self, jobs: Sequence[JobFeed]) -> None:
        self._jobs = jobs
        self._states: list[Any] = [None] * len(jobs)
        self._series = [SeriesCursor(job.recorder) for job in jobs]

    def collect(self) -> list[Message]:
        """Return what has changed since the last call."""
        messages = []
        for number, job in enumerate(self._jobs):
            head = job.head
            state = {
                "job": number,
                "exists": job.exists,
                "phase": None if head is None else head.job.phase,
                "sign": states.PLAIN.name if head is None else head.sign,
                "problems": job.problems,
            }
            if state != self._states[number]:
                self._states[number] = state
                messages.append(Message("compared", state))
            for event, content in self._series[number].collect():
                if event == "series":
                    messages.append(Message(event, {"job": number, **content}))
        return messages
