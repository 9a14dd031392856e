"""The recorded state of watched pods and jobs, and the lines that describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from traincrew.cli.display.podstates import PodState
from traincrew.cli.display.quiet import Output

if TYPE_CHECKING:
    from collections import deque

    from traincrew.cli.display.metrics import Reading
    from traincrew.cli.display.objects import Job, Pod, Progress
    from traincrew.cli.display.states import Tone


class Line(NamedTuple):
    """One line to show.

    Attributes:
        text: The text, without line breaks and control characters.
        tone: How good the reported state is.
        source: The pod that wrote it (``pod`` or ``pod/container``); empty for our own lines.
        at: Seconds since the start, for our own lines that have a time.
    """

    text: str
    tone: Tone = "plain"
    source: str = ""
    at: float | None = None


class Outcome(NamedTuple):
    """How a job ended."""

    succeeded: bool
    reason: str


class Failure(NamedTuple):
    """How a container of a pod failed.

    Attributes:
        container: Its name.
        exit_code: Its exit code if it ran the pod's program, else 1: the codes of init containers
            and helpers mean nothing for the job.
        text: How it ended, and its last words.
        at: When; empty if not known.
        own: Whether it ran the pod's program.
    """

    container: str
    exit_code: int
    text: str
    at: str
    own: bool


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


class Warned(Struct, frozen=True, kw_only=True):
    """A Warning event about a job or one of its pods."""

    about: str
    reason: str
    message: str
    count: int
