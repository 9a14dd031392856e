"""Which pods of a job somebody should look at first, and how each is marked.

Pure, as the rest of the model. A page or a table orders rows by it; nothing else decides that.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from traincrew.cli.display import states

if TYPE_CHECKING:
    from traincrew.cli.display.states import Sign
    from traincrew.cli.jobview.model import PodView

__all__ = ["Attention", "attention", "sign_of"]

_BY_WORD = {state.word: state.sign for state in states.POD_STATES}
_BY_TONE: dict[str, Sign] = {
    sign.tone: sign for sign in (states.RUN, states.BAD, states.WAIT, states.PLAIN)
}


class Attention(IntEnum):
    """How soon somebody should look at a pod: the smallest first."""

    EXPLAINS = -1
    """It explains why its job has failed."""
    FAILED = 0
    """Or it waits for what may never come: a node, an image, a configuration."""
    BEHIND = 1
    STARTING = 2
    RESTARTED = 3
    STOPPED = 4
    NOT_READY = 5
    HEALTHY = 6
    GONE = 7


def attention(pod: PodView, *, gone: bool = False, explains: bool = False) -> Attention:
    """Return how soon somebody should look at a pod.

    Args:
        pod: The pod; if it is gone, as it was last seen.
        gone: Whether it has been deleted.
        explains: Whether it explains why its job has failed.
    """
    if explains:
        return Attention.EXPLAINS
    if gone:
        return Attention.GONE
    if pod.tone == "bad":
        return Attention.FAILED
    if pod.behind:
        return Attention.BEHIND
    if pod.tone == "busy":
        return Attention.STARTING
    if pod.restarts:
        return Attention.RESTARTED
    if pod.tone == "plain":
        return Attention.STOPPED
    return Attention.HEALTHY if pod.ready else Attention.NOT_READY


def sign_of(pod: PodView) -> Sign:
    """Return the sign of a pod. One that only runs is not well if the other ranks wait for it."""
    if pod.behind and pod.state == states.RUNNING.word:
        return states.BEHIND.sign
    return _BY_WORD.get(pod.state) or _BY_TONE[pod.tone]
