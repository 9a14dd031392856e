"""ElasticJobs whose workers make no progress: all of them are recreated, as one failure.

Both is stored (in the pod records, and in `failures`) before any pod is deleted. So the failure is
counted once, and a worker that exits because others were deleted first has not failed by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from traincrew.plan.elasticjob.children import restart_policy
from traincrew.plan.elasticjob.observed import State
from traincrew.plan.shared import podrecords, pods, runpolicy, stall
from traincrew.plan.shared.lifecycle import Outcome

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kinds.elasticjob.types import ElasticJobSpec
    from traincrew.plan.elasticjob.observed import ObservedJob
    from traincrew.plan.elasticjob.status import ElasticJobStatus
    from traincrew.plan.shared.model import Observed


def assess(
    observed: Observed, current: ObservedJob, spec: ElasticJobSpec, now: datetime
) -> stall.Verdict | None:
    """Decide whether the job makes progress; None if it cannot train yet.

    Fewer workers than `minReplicas` wait for the others, for an unlimited time.
    """
    states = list(current.workers().values())
    runs = states.count(State.RUNNING)
    if not runs or runs + states.count(State.SUCCEEDED) < spec.smallest:
        return None
    return stall.assess(observed, spec, now)


def failure(
    stalled: stall.Stalled, current: ObservedJob, spec: ElasticJobSpec, failures: int
) -> Outcome | None:
    """Return the outcome of a stalled job that cannot be restarted; None if it is restarted.

    Args:
        stalled: For how long there was no progress.
        current: The workers.
        spec: The desired state.
        failures: Number of failures before this one.
    """
    if restart_policy(spec.workers) == "Never":
        why = "with restartPolicy Never the workers are not restarted"
    elif State.SUCCEEDED in current.workers().values():
        why = "workers have succeeded already, and the others cannot be restarted without them"
    elif runpolicy.past_backoff_limit(
        spec, failures=failures + 1, restarts=current.restarts_in_place()
    ):
        why = "the backoff limit is reached"
    else:
        return None
    message = f"{stalled.message}; {why}"
    return Outcome(succeeded=False, reason=stall.NO_PROGRESS, message=message)


def restarted(status: ElasticJobStatus, current: ObservedJob) -> tuple[ElasticJobStatus, str]:
    """Return the status with the failure counted, and what happens as a message."""
    running = {place.key for place, state in current.workers().items() if state is State.RUNNING}
    records = podrecords.stall(podrecords.read(status.pod_records), running)
    counted = msgspec.structs.replace(
        status, pod_records=podrecords.texts(records), failures=status.failures + 1
    )
    return counted, f"{pods.quantity(len(running), 'worker')} will be recreated"
