"""What an ElasticJob does at the moment, in a reason and a sentence for its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.elasticjob import types as api
from traincrew.api.kinds.elasticjob.definition import DEFINITION
from traincrew.api.kinds.elasticjob.types import WORKER
from traincrew.api.meta import format_time
from traincrew.plan.elasticjob import events
from traincrew.plan.elasticjob.fit import ALL_WANTED, FITTED, GIVEN_UP
from traincrew.plan.shared import lifecycle, pods, runpolicy, stall
from traincrew.plan.shared.lifecycle import Flag, Progress
from traincrew.plan.shared.replicas.states import State, restart_delay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from traincrew.plan.elasticjob.observed import ObservedJob
    from traincrew.plan.elasticjob.status import ElasticJobStatus
    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.places import Place


def progress(
    observed: Observed,
    stored: ElasticJobStatus,
    current: ObservedJob,
    now: datetime,
    *,
    records: Mapping[str, PodRecord],
    fitted: str,
    problem: tuple[str, str] | None,
) -> Progress:
    """Return what the job does.

    Args:
        observed: What the plan depends on.
        stored: The status as stored.
        current: The observed workers.
        now: The time.
        records: What is known of the pods after this reconcile.
        fitted: Why fewer workers are asked for than are wanted; empty if all are.
        problem: Reason and message of a spec that has not taken effect.
    """
    workers = current.workers()
    lost = current.restarting_workers(records)
    runs = State.RUNNING in workers.values()
    # Between the first worker that is done and the last one, no worker has to run.
    running = runs or (stored.holds(lifecycle.RUNNING) and State.SUCCEEDED in workers.values())
    troubles = pods.list_not_ready(
        [place.name(observed.job.metadata.name) for place in workers],
        observed.pods,
        observed.rejections,
        lambda pod: pods.not_ready_reason(pod, now, DEFINITION.containers),
    )
    troubles = "; ".join(filter(None, (troubles, fitted)))
    count = sum(state is State.RUNNING for state in workers.values())
    total = len(workers) + len(current.absent)
    name = f"{api.KIND} {observed.job.metadata.name}"
    no_progress = lifecycle.reported_stall(stored) if lost else ""
    if problem is not None and not runs:
        reason, message = problem
    elif no_progress:
        reason = stall.NO_PROGRESS
        message = "; ".join(filter(None, (no_progress, troubles)))
    elif lost:
        reason = events.RESTARTING
        message = f"{name} is restarting because {len(lost)} {WORKER} replica(s) failed."
        delayed = pods.first_few(list(_delayed(current, lost, records)))
        message = " ".join(filter(None, (message, delayed, troubles)))
    elif running:
        reason, message = events.RUNNING, f"{name} is running."
        if troubles and (count < total or pods.list_lost(observed.pods)):
            message += f" {count}/{total} workers running; {troubles}"
    else:
        reason = "WaitingForWorkers"
        message = f"{count}/{total} workers running"
        message = "; ".join(filter(None, (message, troubles)))
    return Progress(
        reason=reason,
        message=message,
        running=running,
        restarting=bool(lost),
        started_at=stored.start_time or format_time(now),
        flags=(_flag(fitted),),
    )


def _flag(fitted: str) -> Flag:
    return Flag(
        type=FITTED,
        holds=bool(fitted),
        reason=GIVEN_UP if fitted else ALL_WANTED,
        message=fitted or "Every worker is asked for.",
    )


def _delayed(
    current: ObservedJob, lost: list[Place], records: Mapping[str, PodRecord]
) -> Iterator[str]:
    """Yield the workers that are not recreated at once, each as a sentence."""
    for place in lost:
        pod, record = current.pod(place), records.get(place.key)
        if pod is None or record is None or not record.failed:
            continue
        if words := runpolicy.backoff_words(
            restart_delay(pod, record, current.states[place], DEFINITION.containers)
        ):
            yield f"{pod.metadata.name} is restarted{words}."
