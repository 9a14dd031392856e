"""Why jobs fail: a closed list of causes, and the reason by which a status states each of them.

Plans end a job with the reason of a `Cause`, the descriptions of fields promise it, and
`traincrew why` reads the cause back. So none of the three has a reason that another does not know.

The reasons are those of batch Jobs and of kubeflow/common. A kind has others only where the
contract of its predecessor demands them (`Reasons.words`).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct, field


class Cause(Enum):
    """Why a job has failed; the value is the reason in its status, unless its kind has another."""

    INVALID = "FailedValidation"
    """The spec is invalid."""
    DEADLINE = "DeadlineExceeded"
    """The job was active for longer than ``activeDeadlineSeconds``."""
    BACKOFF_LIMIT = "BackoffLimitExceeded"
    """It failed more often than ``backoffLimit`` allows."""
    NO_PROGRESS = "NoProgress"
    """It made no progress within ``progressDeadlineSeconds``, and is not tried again."""
    NOT_STARTED = "WorkersNotReady"
    """Its pods were not ready within ``scheduleTimeoutSeconds``."""
    FOREIGN = "ErrResourceExists"
    """Until then, the name of a child was in use by somebody else's object."""
    LEFTOVER = "WaitingForDeletion"
    """Until then, the name of a child was in use by that of an earlier job."""
    REFUSED = "FailedSynced"
    """The API refuses a child."""
    PROGRAM = "ProgramFailed"
    """The program failed. Each kind has a word of its own; it is also that of unknown reasons."""


QUEUE_PENDING: Final = "QueueAdmissionPending"
"""A job waits until its queue admits it, and has no pods."""
QUEUE_EVICTED: Final = "QueueEvicted"
"""The queue has taken the admission back: the pods end, and the job waits again."""
QUEUE_STOPPED: Final = "QueueStopped"
"""Somebody has stopped the job in its queue."""
QUEUE_UNAVAILABLE: Final = "QueueUnavailable"
"""The job asks for a queue, and cannot be queued."""
QUEUE_REASONS: Final = frozenset({QUEUE_PENDING, QUEUE_EVICTED, QUEUE_STOPPED, QUEUE_UNAVAILABLE})

PAST_DEADLINE: Final = "was active longer than specified deadline"
PAST_BACKOFF_LIMIT: Final = "has reached the specified backoff limit"
"""Messages of batch Jobs and of kubeflow/common. They distinguish causes that share a reason."""
_PHRASES = {Cause.DEADLINE: PAST_DEADLINE, Cause.BACKOFF_LIMIT: PAST_BACKOFF_LIMIT}


class Reasons(Struct, frozen=True):
    """The reasons of one kind.

    Attributes:
        words: Its own reasons; ``{kind}`` in that of `Cause.REFUSED` is the kind of the child.
        others: Further ones, which only the project's own operator gives.
    """

    words: dict[Cause, str] = field(default_factory=dict)
    others: dict[str, Cause] = field(default_factory=dict)

    def word(self, cause: Cause, child: str = "") -> str:
        """Return the reason of a cause.

        Args:
            cause: The cause.
            child: Kind of the child that was refused.
        """
        return self.words.get(cause, cause.value).format(kind=child)

    def cause(self, reason: str, message: str = "") -> Cause:
        """Return the cause that the condition ``Failed`` of a job states.

        Args:
            reason: Its reason.
            message: Its message, which decides where the kind has one reason for several causes.
        """
        # mpi-operator adds the reason of the launcher's pod behind a slash, even if it has none.
        reason = reason.partition("/")[0]
        if reason in self.others:
            return self.others[reason]
        found = [each for each in Cause if self._states(reason, each)]
        phrased = (each for each in found if _PHRASES.get(each, "\0") in message)
        # A cause that has a phrase is not meant by a message without it.
        others = [each for each in found if each not in _PHRASES]
        return next(phrased, (others or found or [Cause.PROGRAM])[0])

    def _states(self, reason: str, cause: Cause) -> bool:
        before, for_child, after = self.words.get(cause, cause.value).partition("{kind}")
        if not for_child:
            return reason == before
        return reason.startswith(before) and reason.endswith(after)


__all__ = [
    "PAST_BACKOFF_LIMIT",
    "PAST_DEADLINE",
    "QUEUE_EVICTED",
    "QUEUE_PENDING",
    "QUEUE_REASONS",
    "QUEUE_STOPPED",
    "QUEUE_UNAVAILABLE",
    "Cause",
    "Reasons",
]
