"""ElasticJobs whose workers make no progress: all of them are recreated, as one failure.

Both is stored (in the pod records, and in `failures`) before any pod is deleted. So the failure is
counted once, and a worker that exits because others were deleted first has not failed by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.elasticjob.types import WORKER
from traincrew.plan.shared import podrecords, pods, runpolicy
from traincrew.plan.shared.replicas.states import State

if TYPE_CHECKING:
    from traincrew.api.kinds.elasticjob.types import ElasticJobSpec
    from traincrew.plan.elasticjob.observed import ObservedJob
    from traincrew.plan.elasticjob.status import ElasticJobStatus


def can_train(current: ObservedJob, spec: ElasticJobSpec) -> bool:
    """Return whether enough workers run.

    Fewer workers than `minReplicas` wait for the others, for an unlimited time.
    """
    states = list(current.training.values())
    runs = states.count(State.RUNNING)
    return bool(runs) and runs + states.count(State.SUCCEEDED) >= spec.smallest


def why_not_again(current: ObservedJob, spec: ElasticJobSpec, failures: int) -> str | None:
    """Return why a stalled job cannot be restarted; None if it can.

    Args:
        current: The workers.
        spec: The desired state.
        failures: Number of failures before this one.
    """
    if current.replicas[WORKER].policy == "Never":
        return "with restartPolicy Never the workers are not restarted"
    if State.SUCCEEDED in current.training.values():
        return "workers have succeeded already, and the others cannot be restarted without them"
    if runpolicy.past_backoff_limit(
        spec.backoff_limit, failures=failures + 1, restarts=current.restarts_in_place()
    ):
        return "the backoff limit is reached"
    return None


def restart(status: ElasticJobStatus, current: ObservedJob) -> str:
    """Count the failure in a status, in place; return what happens as a message."""
    running = {place.key for place, state in current.training.items() if state is State.RUNNING}
    records = podrecords.stall(podrecords.read(status.pod_records), running)
    status.pod_records, status.failures = podrecords.texts(records), status.failures + 1
    return f"{pods.quantity(len(running), 'worker')} will be recreated"
