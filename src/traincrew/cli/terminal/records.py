"""What a terminal keeps of jobs and pods: the model of each, and what has been said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.display.quiet import Output
from traincrew.cli.display.states import GONE, PHASES
from traincrew.cli.jobview.jobstate import UNSEEN, job_state

if TYPE_CHECKING:
    from collections import deque

    from traincrew.cli.display.metrics import Reading
    from traincrew.cli.display.objects import Job, Pod, Progress
    from traincrew.cli.display.podstates import PodState
    from traincrew.cli.display.states import Sign
    from traincrew.cli.jobview.failures import Failure
    from traincrew.cli.jobview.pods import KnownPod


class Outcome(NamedTuple):
    """How a job ended."""

    succeeded: bool
    reason: str


class PodRecord:
    """One pod, kept when it is deleted."""

    def __init__(self, known: KnownPod, now: float) -> None:
        self.known = known
        self.first_seen = now
        self.announced = ("", "")
        """What a line has said of it last."""
        self.tails: dict[str, deque[str]] = {}
        self.output = Output()
        self.reading: Reading | None = None
        """What its program has printed of its progress."""

    @property
    def name(self) -> str:
        """Name of the pod."""
        return self.known.pod.metadata.name

    @property
    def pod(self) -> Pod:
        """Its last state."""
        return self.known.pod

    @property
    def state(self) -> PodState:
        """The same in plain words."""
        return self.known.state

    @property
    def failure(self) -> Failure | None:
        """Its last own failure."""
        return self.known.failure

    @property
    def gone(self) -> bool:
        """Whether it has been deleted."""
        return self.known.gone


class JobRecord:
    """A job that the command waits for."""

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.job: Job | None = None
        self.state = UNSEEN
        self.has_run = False
        """Whether it has been seen running."""
        self.deleted = False
        """Whether it was deleted before it ended."""
        self.started = 0.0
        self.finished: float | None = None
        self.reported_at = 0.0
        """When this command has seen the newest report, in seconds since the start."""
        self.is_quiet = False
        """Whether a line has said that it writes nothing."""
        self.tenths = -1
        """Tenths of the training that a line has reported as done."""

    def update(self, job: Job, now: float, *, deleted: bool) -> None:
        """Record its new state; of one that was deleted, the last one."""
        if job.status.progress != self.reported:
            self.reported_at = now
        self.job, self.deleted = job, deleted
        if not deleted:
            self.state = job_state(job)
            self.has_run = self.has_run or self.state.phase == "Running"
        if deleted or self.state.end:
            self.finished = now

    @property
    def uid(self) -> str:
        """Its UID; empty while it has not been seen."""
        return "" if self.job is None else self.job.metadata.uid

    @property
    def phase(self) -> str:
        """Its phase, or how it has ended; empty while no operator has seen it."""
        return GONE if self.deleted else self.state.end or self.state.phase

    @property
    def sign(self) -> Sign:
        """How it is marked."""
        return PHASES[GONE].sign if self.deleted else self.state.sign

    @property
    def outcome(self) -> Outcome | None:
        """How it has ended; None before its end."""
        if self.deleted:
            return Outcome(False, "it was deleted before it finished")
        return (
            Outcome(self.state.end == "Succeeded", self.state.failure) if self.state.end else None
        )

    @property
    def reported(self) -> Progress | None:
        """The newest report of its program."""
        return None if self.job is None else self.job.status.progress

    @property
    def about(self) -> str:
        """How events refer to it."""
        return f"{self.kind.lower()} {self.name}"
