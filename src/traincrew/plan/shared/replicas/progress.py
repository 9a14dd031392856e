"""What such a job does at the moment, in a reason and a sentence for its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.meta import format_time
from traincrew.plan.shared import lifecycle, pods, runpolicy, stall
from traincrew.plan.shared.lifecycle import Progress
from traincrew.plan.shared.replicas.states import State, restart_delay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traincrew.plan.shared.lifecycle import Status
    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.observed import ObservedReplicas
    from traincrew.plan.shared.replicas.places import Place
    from traincrew.plan.shared.replicas.reports import Words


def progress(
    observed: Observed,
    stored: Status,
    current: ObservedReplicas,
    words: Words,
    *,
    running: str,
    records: Mapping[str, PodRecord],
    problem: tuple[str, str] | None,
    missing: str = "",
) -> Progress:
    """Return what the job does.

    Args:
        observed: What the plan depends on.
        stored: The status as stored.
        current: The observed pods.
        words: Those of the kind.
        running: What is said of a job that runs.
        records: What is known of the pods after this reconcile.
        problem: Reason and message of a spec that has not taken effect.
        missing: Why fewer pods are asked for than are desired; empty if all are.
    """
    deciding = list(current.deciding.values())
    lost = current.restarting(records)
    runs = State.RUNNING in deciding
    # Between the first pod that is done and the last one, no pod has to run.
    is_running = runs or (stored.holds(lifecycle.RUNNING) and State.SUCCEEDED in deciding)
    metadata = observed.job.metadata
    training = current.training
    troubles = pods.list_not_ready(
        [place.name(metadata.name) for place in training],
        observed.pods,
        observed.rejections,
        lambda pod: pods.not_ready_reason(pod, current.now, current.named),
    )
    troubles = "; ".join(filter(None, (troubles, missing)))
    count = sum(state is State.RUNNING for state in training.values())
    total = len(training) + len(current.absent)
    runs_now = f"{count}/{total} {words.pods} running"
    no_progress = lifecycle.reported_stall(stored) if lost else ""
    if problem is not None and not runs:
        reason, message = problem
    elif no_progress:
        reason, message = stall.NO_PROGRESS, "; ".join(filter(None, (no_progress, troubles)))
    elif lost:
        parts = (
            f"{words.noun} {metadata.name} is restarting because {_failed(lost)} failed.",
            pods.first_few(list(_delayed(current, lost, records))),
            troubles,
        )
        reason, message = words.restarting, " ".join(filter(None, parts))
    elif is_running:
        reason, message = words.running, running
        if troubles and (count < total or pods.list_lost(observed.pods)):
            message += f" {runs_now}; {troubles}"
    else:
        reason, message = words.waiting, "; ".join(filter(None, (runs_now, troubles)))
    return Progress(
        reason=reason,
        message=message,
        running=is_running,
        restarting=bool(lost),
        started_at=stored.start_time or format_time(current.now),
    )


def _failed(lost: list[Place]) -> str:
    found = {kind: sum(place.type == kind for place in lost) for kind, _ in lost}
    return " and ".join(f"{count} {kind} replica(s)" for kind, count in found.items())


def _delayed(
    current: ObservedReplicas, lost: list[Place], records: Mapping[str, PodRecord]
) -> Iterator[str]:
    """Yield the pods that are not recreated at once, each as a sentence."""
    for place in lost:
        pod, record = current.pod(place), records.get(place.key)
        if pod is None or record is None or not record.failed:
            continue
        delay = restart_delay(pod, record, current.states[place], current.named)
        if words := runpolicy.backoff_words(delay):
            yield f"{pod.metadata.name} is restarted{words}."
