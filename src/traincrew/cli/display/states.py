"""One table of the phases of jobs and the states of pods: word, sign, colour.

Terminal, page and documentation have all of it from here: `hack/shared.py` writes what the page has
of it (`page/static/shared.js`) and `docs/reference/states.md`, and tests compare both. Signs are
told apart without colour. Data only: which state a pod has is decided in
`traincrew.cli.display.podstates`, that of a job in `traincrew.cli.jobview.jobstate`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Tone = Literal["plain", "good", "busy", "bad"]


class Sign(NamedTuple):
    """How a state is marked.

    Attributes:
        name: Its name, which is a class of the page's style sheet.
        character: The sign.
        ascii: The same where the encoding of a terminal does not have it.
        tone: Colour on a terminal: green if good, faint if busy, red if bad.
        colour: Colour on the page.
    """

    name: str
    character: str
    ascii: str
    tone: Tone
    colour: str

    def before(self, word: str, *, plain: bool = False) -> str:
        """Return a word with this sign before it; if plain, that of ASCII."""
        return f"{self.ascii if plain else self.character} {word}"


RUN = Sign("run", "▶", ">", "good", "blue")
GOOD = Sign("good", "✓", "+", "good", "green")
BAD = Sign("bad", "✕", "x", "bad", "red")
WAIT = Sign("wait", "◌", ".", "busy", "yellow")
AGAIN = Sign("again", "↻", "@", "bad", "yellow")
HELD = Sign("held", "‖", "=", "plain", "grey")
PLAIN = Sign("plain", "○", "o", "plain", "grey")
SIGNS = (BAD, WAIT, AGAIN, RUN, HELD, GOOD, PLAIN)
"""Those first that somebody should look at."""


class State(NamedTuple):
    """A phase of a job, or a state of a pod.

    Attributes:
        word: What it is called; in capitals what depends on the pod.
        sign: How it is marked.
        meaning: What it says, for people.
    """

    word: str
    sign: Sign
    meaning: str


GONE = "Deleted"
"""What is shown as the phase of a job that does not exist any more."""
NOT_SEEN = "Pending"
"""Phase of a job that no operator has seen yet."""
PHASES = {
    state.word: state
    for state in (
        State("Failed", BAD, "it will not run again"),
        State(NOT_SEEN, WAIT, "no operator has seen it yet"),
        State("Creating", WAIT, "the same, as some kinds call it: not all of its pods run yet"),
        State("Created", WAIT, "it waits for what its message names"),
        State("Restarting", AGAIN, "it ran, and a pod is restarted or created again"),
        State("Running", RUN, "its pods run"),
        State("Suspended", HELD, "it has no pods until somebody, or a queue, resumes it"),
        State("Succeeded", GOOD, "its program has succeeded"),
        State("Done", PLAIN, "it has ended, as some kinds call it: marked as succeeded or failed"),
        State(GONE, PLAIN, "it is gone; only the page and a command that watched it show it"),
    )
}
"""The phases of jobs, those first that somebody should look at."""
SELF_EVIDENT = ("Running", "Succeeded")
"""Phases that need no reason."""

PENDING = State("pending", WAIT, "it has no node yet")
UNSCHEDULABLE = State("waiting for a node", BAD, "the scheduler finds no node for it")
STARTING = State("starting", WAIT, "it has a node, which prepares images and volumes")
INITIALIZING = State("init N/M: NAME", WAIT, "an init container runs")
RUNNING = State("running", RUN, "a container runs, and none is in trouble")
BEHIND = State("running, behind", AGAIN, "it runs, and the other ranks wait for its rank")
STOPPING = State("stopping", PLAIN, "it is being deleted")
STOPPED = State("stopped", PLAIN, "its containers were ended because it was deleted")
FINISHED = State("finished", GOOD, "its program has ended with exit code 0")
EXITED = State("exit code N", BAD, "a container has failed; of several, with its name")
FAILED = State("failed", BAD, "it has failed, and no container says why; with the reason")
DELETED = State("deleted", PLAIN, "it is gone; only the page shows it")


class Waiting(NamedTuple):
    """Why a container waits.

    Attributes:
        state: The state of its pod.
        about: What is to be corrected, or looked at.
    """

    state: State
    about: Literal["image", "configuration", "program"]


_NO_IMAGE = State("image cannot be prepared", BAD, "the message says why")
_RETRIED_IMAGE = State("image cannot be prepared, will try again", BAD, "the message says why")
_NOT_STARTED = State("its command cannot be started", BAD, "the message says why")
_INCOMPLETE = State("its configuration is incomplete", BAD, "a ConfigMap, Secret or key is missing")
WAITING = {
    "CrashLoopBackOff": Waiting(
        State("waiting to restart", BAD, "its program has failed, and is retried"), "program"
    ),
    "ErrImagePull": Waiting(_NO_IMAGE, "image"),
    "ErrImageNeverPull": Waiting(_NO_IMAGE, "image"),
    "ImageInspectError": Waiting(_NO_IMAGE, "image"),
    "RegistryUnavailable": Waiting(_NO_IMAGE, "image"),
    "ImagePullBackOff": Waiting(_RETRIED_IMAGE, "image"),
    "InvalidImageName": Waiting(
        State("image name is not valid", BAD, "it must be corrected"), "image"
    ),
    "CreateContainerConfigError": Waiting(_INCOMPLETE, "configuration"),
    "CreateContainerError": Waiting(
        State("its container cannot be created", BAD, "the message says why"), "configuration"
    ),
    "RunContainerError": Waiting(_NOT_STARTED, "configuration"),
    "StartError": Waiting(_NOT_STARTED, "configuration"),
    "ContainerCannotRun": Waiting(_NOT_STARTED, "configuration"),
}
"""Why containers wait, by the reason that a kubelet gives."""
PASSING = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of containers that wait for what comes by itself."""
POD_STATES = (
    UNSCHEDULABLE,
    *dict.fromkeys(waiting.state for waiting in WAITING.values()),
    EXITED,
    FAILED,
    BEHIND,
    PENDING,
    STARTING,
    INITIALIZING,
    RUNNING,
    FINISHED,
    STOPPING,
    STOPPED,
    DELETED,
)
"""The states of pods, those first that somebody should look at."""


def phase(word: str) -> State:
    """Return the state of a phase; phases that are not in the table are plain."""
    return PHASES.get(word) or State(word, PLAIN, "")
