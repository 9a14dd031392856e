"""What an explanation is made of, and what it consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from traincrew.cli.display.text import one_line, seconds_since
from traincrew.cli.jobview.events import event_filter
from traincrew.cli.jobview.model import summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from traincrew.cli.display.objects import Event, Job, Pod, Workload
    from traincrew.cli.display.quiet import Output
    from traincrew.cli.jobview.kinds import JobKind
    from traincrew.cli.jobview.objects import Node, Queued, QueuePlace, Quota

__all__ = ["Explanation", "Facts", "brief"]

LONGEST = 500
SHOWN = 4
"""Pieces of evidence in an explanation."""


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a job is in its state.

    Attributes:
        cause: A stable name of the situation, such as ``insufficient-gpu``.
        text: What happens and why, in one or two sentences.
        evidence: What shows it: messages of conditions, events, pods, quotas, nodes.
        fix: What to do; empty if there is nothing to do.
    """

    cause: str
    text: str
    evidence: tuple[str, ...] = ()
    fix: str = ""


class Facts(Struct, frozen=True, kw_only=True):
    """A job and what is known around it.

    Attributes:
        kind: Its kind.
        job: The job.
        pods: Its pods.
        pods_known: Whether they could be read.
        now: The time.
        events: Events of its namespace, of any object, oldest first.
        children: Its Jobs and StatefulSets.
        nodes: The nodes; None if they may not be read.
        quotas: The quotas of its namespace; None if they may not be read.
        outputs: What its running pods have written, by name; empty if not all of it is known.
        workload: Its Workload, if another operator runs the job and Kueue queues it.
        place: Its place in its queue; None if that is not known, or if it does not wait.
    """

    kind: JobKind
    job: Job
    pods: Sequence[Pod]
    pods_known: bool = True
    now: datetime
    events: Sequence[Event] = ()
    children: Sequence[Workload] = ()
    nodes: Sequence[Node] | None = None
    quotas: Sequence[Quota] | None = None
    outputs: Mapping[str, Output] = msgspec.field(default_factory=dict)
    workload: Queued | None = None
    place: QueuePlace | None = None

    @property
    def title(self) -> str:
        """Kind and name of the job."""
        return f"{self.job.kind} {self.job.metadata.name}"

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.job.metadata.namespace

    def own_events(self) -> list[Event]:
        """Return the Warning events about the job, its pods and its children, newest first."""
        own = event_filter(self.job, self.pods, self.children)
        warnings = [each for each in self.events if each.type == "Warning" and own.covers(each)]
        return warnings[::-1]

    def events_of(self, pod: Pod) -> list[Event]:
        """Return the Warning events about a pod, newest first."""
        return [
            each for each in self.own_events() if each.involved_object.name == pod.metadata.name
        ]

    def age(self, timestamp: str | None) -> float:
        """Return the seconds since a time; 0 if it is missing."""
        return seconds_since(timestamp, self.now)

    @property
    def missing(self) -> int:
        """The number of pods that the spec asks for and that do not exist.

        Of pods that could not be read, those that are not ready.
        """
        known = summary(self.kind, self.job)
        return max(0, known.desired - (len(self.pods) if self.pods_known else known.ready))


def brief(text: str, limit: int = LONGEST) -> str:
    """Return a text as one printable line of limited length."""
    line = one_line(text)
    return line if len(line) <= limit else line[: limit - 1] + "…"
