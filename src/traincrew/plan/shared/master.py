"""The progress of jobs whose master starts the processes in the workers."""

from __future__ import annotations

from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.lifecycle import Progress

__all__ = ["progress"]


def progress(
    state: tuple[str, str, str] | None,
    *,
    problem: tuple[str, str] | None,
    waiting_for: str | None,
    started_at: str | None,
) -> Progress:
    """Return the progress of a job.

    Args:
        state: The true condition (or ""), reason and message of the master; None before its start.
        problem: Reason and message of what is wrong with the spec or the children, if anything is.
        waiting_for: Why the workers are not ready; None when all of them are.
        started_at: When the job was started, for a master that was.
    """
    if state is None:
        reason, message = "MasterPending", "The master is being created."
        if problem is not None:
            reason, message = problem
            if waiting_for is not None and "; " in waiting_for:  # the workers have troubles, too
                message = f"{message}; {waiting_for}"
        elif waiting_for is not None:
            reason, message = "WaitingForWorkers", waiting_for
        return Progress(reason=reason, message=message)
    condition, reason, message = state
    return Progress(
        reason=reason,
        message=message,
        running=condition == lifecycle.RUNNING,
        restarting=condition == lifecycle.RESTARTING,
        started_at=started_at,
    )
