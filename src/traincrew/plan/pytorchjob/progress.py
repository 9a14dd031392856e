"""What a PyTorchJob does at the moment, in a reason and a sentence for its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.pytorchjob.types import KIND
from traincrew.api.meta import format_time
from traincrew.plan.pytorchjob import events
from traincrew.plan.pytorchjob.observed import NAMED
from traincrew.plan.shared import lifecycle, pods, runpolicy
from traincrew.plan.shared.lifecycle import Progress
from traincrew.plan.shared.replicas.states import State, restart_delay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from traincrew.plan.pytorchjob.observed import ObservedJob
    from traincrew.plan.pytorchjob.status import PyTorchJobStatus
    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.places import Place


def progress(
    observed: Observed,
    stored: PyTorchJobStatus,
    current: ObservedJob,
    now: datetime,
    *,
    records: Mapping[str, PodRecord],
    problem: tuple[str, str] | None,
) -> Progress:
    """Return what the job does.

    Args:
        observed: What the plan depends on.
        stored: The status as stored.
        current: The observed pods.
        now: The time.
        records: What is known of the pods after this reconcile.
        problem: Reason and message of a spec that has not taken effect.
    """
    deciding = list(current.deciding.values())
    lost = current.restarting(records)
    runs = State.RUNNING in deciding
    # Between the first pod that is done and the last one, no pod has to run.
    running = runs or (stored.holds(lifecycle.RUNNING) and State.SUCCEEDED in deciding)
    troubles = pods.list_not_ready(
        list(current.names),
        observed.pods,
        observed.rejections,
        lambda pod: pods.not_ready_reason(pod, now, NAMED),
    )
    count = sum(state is State.RUNNING for state in current.states.values())
    total = len(current.places)
    metadata = observed.job.metadata
    name = f"{KIND} {metadata.name}"
    if problem is not None and not runs:
        reason, message = problem
    elif lost:
        reason, message = events.RESTARTING, _restarting(name, current, lost, records, troubles)
    elif running:
        # Without a master training-operator names the namespace as well.
        named = name if current.has_master else f"{KIND} {metadata.namespace}/{metadata.name}"
        reason, message = events.RUNNING, f"{named} is running."
        if troubles and (count < total or pods.list_lost(observed.pods)):
            message += f" {count}/{total} pods running; {troubles}"
    else:
        reason, message = "WaitingForPods", f"{count}/{total} pods running"
        message = "; ".join(filter(None, (message, troubles)))
    return Progress(
        reason=reason,
        message=message,
        running=running,
        restarting=bool(lost),
        started_at=stored.start_time or format_time(now),
    )


def _restarting(
    name: str,
    current: ObservedJob,
    lost: list[Place],
    records: Mapping[str, PodRecord],
    troubles: str,
) -> str:
    found = {kind: sum(place.type == kind for place in lost) for kind, _ in lost}
    what = " and ".join(f"{count} {kind} replica(s)" for kind, count in found.items())
    delayed = pods.first_few(list(_delayed(current, lost, records)))
    parts = (f"{name} is restarting because {what} failed.", delayed, troubles)
    return " ".join(filter(None, parts))


def _delayed(
    current: ObservedJob, lost: list[Place], records: Mapping[str, PodRecord]
) -> Iterator[str]:
    """Yield the pods that are not recreated at once, each as a sentence."""
    for place in lost:
        pod, record = current.pod(place), records.get(place.key)
        if pod is None or record is None or not record.failed:
            continue
        delay = restart_delay(pod, record, current.states[place], NAMED)
        if words := runpolicy.backoff_words(delay):
            yield f"{pod.metadata.name} is restarted{words}."
