"""What the status of a job says: one reading of phase, conditions and end for every view. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.cli.display import states
from traincrew.cli.display.text import one_line
from traincrew.plan.shared.kind import replicas_in

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Condition, Job
    from traincrew.cli.display.states import Sign
    from traincrew.cli.jobview.kinds import JobKind

__all__ = ["UNSEEN", "JobState", "job_state", "jobs_of", "pods_in", "ready_pods"]


class JobState(NamedTuple):
    """The state of a job; all texts are one printable line.

    Attributes:
        phase: Its phase, else its most important condition; empty while there is neither.
        reason: Reason of the phase, one word.
        message: The same for people.
        end: ``Succeeded`` or ``Failed``; empty before its end.
        failure: Why it has failed, reason and message.
        not_synced: Why its spec has not taken effect; empty if it has.
        not_advancing: Why its reports do not advance; empty if they do, or if it does not report.
        warning: The same with its reason.
    """

    phase: str = ""
    reason: str = ""
    message: str = ""
    end: str = ""
    failure: str = ""
    not_synced: str = ""
    not_advancing: str = ""
    warning: str = ""

    @property
    def sign(self) -> Sign:
        """How it is marked: by its end, because some kinds call both ends ``Done``."""
        return states.phase(self.end or self.phase or states.NOT_SEEN).sign


UNSEEN = JobState()


def job_state(job: Job) -> JobState:
    """Return the state of a job."""
    status = job.status
    phase, reason, message = status.told_phase, status.reason, status.message
    if not status.phase and (found := status.leading or status.before) is not None:
        reason, message = found.reason, found.message
    failed, stalled = status.true("Failed"), status.false("Progressing")
    synced = status.false("Synced")
    return JobState(
        phase=one_line(phase),
        reason=one_line(reason),
        message=one_line(message),
        end=status.end,
        failure="" if failed is None else _words(failed),
        not_synced="" if synced is None else one_line(synced.message),
        not_advancing="" if stalled is None else one_line(stalled.message),
        warning="" if stalled is None else one_line(f"{stalled.reason}: {stalled.message}"),
    )


def _words(condition: Condition) -> str:
    return ": ".join(filter(None, (condition.reason, one_line(condition.message))))


def ready_pods(kind: JobKind, job: Job) -> int:
    """Return how many pods of a job are ready, by its status.

    Operators of other projects count pods that run instead, or the Jobs whose pods are all ready.
    """
    status = job.status
    if (counts := status.replica_statuses) is not None:
        counts_ready = status.observed_generation is not None or status.end
        return pods_in(counts, "ready") or (0 if counts_ready else pods_in(counts, "active"))
    if not status.counted_jobs:
        return status.ready
    desired, found = kind.roles(job.spec), 0
    for one in status.counted_jobs:
        count = jobs_of(job.spec, one.name)
        found += desired.get(one.name, 0) * min(one.ready, count) // count
    return found


def jobs_of(spec: dict[str, Any], name: str) -> int:
    """Return the number of Jobs of a replicated job of a JobSet; 1 if nothing says it."""
    for one in spec.get("replicatedJobs") or ():
        if isinstance(one, dict) and one.get("name") == name:
            return max(1, replicas_in(one))
    return 1


def pods_in(statuses: Any, state: str) -> int:
    """Return how many pods of all roles are in a state, by the status of a job.

    Args:
        statuses: ``status.replicaStatuses``, a mapping or a list; anything else counts none.
        state: Name of the count, such as ``ready``.
    """
    roles = statuses.values() if isinstance(statuses, dict) else statuses
    found = (
        [one.get(state) for one in roles if isinstance(one, dict)]
        if isinstance(roles, Iterable)
        else []
    )
    return sum(count for count in found if isinstance(count, int) and count > 0)
