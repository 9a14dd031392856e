"""Which pods of a job somebody should look at first.

Pure, as the rest of the model. A page or a table orders rows by it; nothing else decides that.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.cli.jobview.model import PodView

__all__ = ["Attention", "attention"]


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
