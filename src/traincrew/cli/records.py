"""What is remembered of pods and jobs while they are watched, and the lines that tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.text import PodState, Tone

if TYPE_CHECKING:
    from collections import deque

    from traincrew.cli.objects import Pod, TrainingJob


class Line(NamedTuple):
    """One line to show.

    Attributes:
        text: What it says; one line, already cleaned.
        tone: How good that is.
        source: The pod that wrote it (``pod`` or ``pod/container``), or nothing for our own lines.
        at: Seconds since the start, for our own lines that mark a moment.
    """

    text: str
    tone: Tone = "plain"
    source: str = ""
    at: float | None = None


class Outcome(NamedTuple):
    """How a job ended."""

    succeeded: bool
    exit_code: int
    reason: str


class PodRecord:
    """What is known of one pod, kept when the pod is gone."""

    def __init__(self, pod: Pod, now: float) -> None:
        self.pod = pod
        self.state = PodState("", settled=False)
        self.first_seen = now
        self.gone = False
        self.announced = ("", "")
        self.failure: tuple[str, int, str, str] | None = None
        """Container, exit code, how it ended in words, when: of a failure of its own."""
        self.tails: dict[str, deque[str]] = {}

    @property
    def name(self) -> str:
        """Name of the pod."""
        return self.pod.metadata.name

    @property
    def restarts(self) -> int:
        """Restarts of all its containers."""
        return sum(status.restart_count for status in self.pod.status.container_statuses)


class JobRecord:
    """What is known of a job that is waited for."""

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.uid = ""
        self.phase = ""
        self.job: TrainingJob | None = None
        self.outcome: Outcome | None = None
        self.started = 0.0
        self.finished: float | None = None
        self.message = ""
        self.problem = ""


class Warned(NamedTuple):
    """A Warning event as it is listed at the end."""

    about: str
    reason: str
    message: str
    times: int
