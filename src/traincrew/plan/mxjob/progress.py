"""What an MxJob does at the moment, in a reason and a sentence for its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.mxjob import types as api
from traincrew.api.meta import format_time
from traincrew.plan.mxjob.observed import NAMED, ObservedJob, State, describe
from traincrew.plan.shared import lifecycle, pods
from traincrew.plan.shared.lifecycle import Progress

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.plan.mxjob.restarts import Restart
    from traincrew.plan.mxjob.status import MxJobStatus
    from traincrew.plan.shared.model import Observed


def progress(
    observed: Observed,
    stored: MxJobStatus,
    current: ObservedJob,
    now: datetime,
    *,
    restart: Restart | None,
    problem: tuple[str, str] | None,
) -> Progress:
    """Return what the job does.

    Args:
        observed: What the plan depends on.
        stored: The status as stored.
        current: The observed replicas.
        now: The time.
        restart: The attempt that begins with this decision, if any.
        problem: Reason and message of a spec that has not taken effect.
    """
    # What runs when a job is resumed was not ended yet by the suspension, and will be.
    resumed = stored.holds(lifecycle.SUSPENDED)
    up = [] if resumed else current.of(State.RUNNING, State.SUCCEEDED)
    everything = len(up) == len(current.replicas)
    restarting = restart is not None and not restart.alone
    restarting |= stored.holds(lifecycle.RESTARTING) and not everything
    running = everything or (stored.holds(lifecycle.RUNNING) and not restarting)
    count = f"{len(up)}/{len(current.replicas)} replicas running"
    troubles = pods.first_few(_troubles(observed, current, now))
    reason, message = "WaitingForReplicas", count
    if restart is not None:
        reason, message = f"{api.KIND}Restarting", restart.text
    elif restarting:
        reason = f"{api.KIND}Restarting"
        message = f"{stored.last_restart_reason} {count}."
    elif problem is not None and not running:
        reason, message = problem
    elif everything:
        reason, message = f"{api.KIND}Running", "All replicas are running."
        if current.succeeded:
            message = "The scheduler and all workers have succeeded; the servers are ending."
    if troubles:
        message = f"{message.rstrip('.')}; {troubles}"
    return Progress(
        reason=reason,
        message=message,
        running=running,
        restarting=restarting,
        started_at=stored.start_time or format_time(now),
    )


def _troubles(observed: Observed, current: ObservedJob, now: datetime) -> list[str]:
    """Return why replicas do not run, or may not run any more."""
    lines = []
    for replica in current.of(State.ABSENT, State.PENDING):
        rejection = observed.rejections.get(replica.name)
        text = pods.rejection_text(replica.name, rejection) if rejection is not None else None
        if replica.pod is not None:
            text = pods.not_ready_reason(replica.pod, now, NAMED)
        if text is not None:
            lines.append(f"{describe(replica.place)}: {text}")
    lost = [
        (replica.place, pods.lost_with_node(replica.pod))
        for replica in current.of(State.RUNNING)
        if replica.pod is not None
    ]
    return lines + [f"{describe(place)}: {text}" for place, text in lost if text is not None]
