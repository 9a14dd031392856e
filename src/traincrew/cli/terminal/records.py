"""What a terminal knows of jobs and pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.display.podstates import PodState
from traincrew.cli.display.quiet import Output

if TYPE_CHECKING:
    from collections import deque

    from traincrew.cli.display.metrics import Reading
    from traincrew.cli.display.objects import Job, Pod, Progress
    from traincrew.cli.jobview.failures import Failure


class Outcome(NamedTuple):
    """How a job ended."""

    succeeded: bool
    reason: str


class PodRecord:
    """The last observed state of one pod, kept when the pod is deleted."""

    def __init__(self, pod: Pod, now: float) -> None:
        self.pod = pod
        self.state = PodState("", settled=False)
        self.first_seen = now
        self.gone = False
        self.announced = ("", "")
        self.failure: Failure | None = None
        """The pod's last own failure."""
        self.tails: dict[str, deque[str]] = {}
        self.output = Output()
        self.reading: Reading | None = None
        """What its program has printed of its progress."""

    @property
    def name(self) -> str:
        """Name of the pod."""
        return self.pod.metadata.name


class JobRecord:
    """The last observed state of a job that the run waits for."""

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.uid = ""
        self.phase = ""
        self.has_run = False
        """Whether it has been seen running."""
        self.job: Job | None = None
        self.outcome: Outcome | None = None
        self.started = 0.0
        self.finished: float | None = None
        self.message = ""
        self.problem = ""
        self.not_advancing = ""
        """Why its reports do not advance, if they do not."""
        self.reported: Progress | None = None
        self.reported_at = 0.0
        """When this command has seen this report, in seconds since the start."""
        self.is_quiet = False
        """Whether a line has said that it writes nothing."""
        self.tenths = -1
        """Tenths of the training that a line has reported as done."""

    @property
    def about(self) -> str:
        """How events refer to it."""
        return f"{self.kind.lower()} {self.name}"
