"""The observed state of an ElasticJob: its places, and the states of the pods in them."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from traincrew.api.kinds.elasticjob.types import CONTAINER, WORKER
from traincrew.api.meta import format_time, parse_time
from traincrew.plan.elasticjob.children import RENDEZVOUS_HOST, replicas
from traincrew.plan.shared import programs
from traincrew.plan.shared.replicas.observed import ObservedReplicas
from traincrew.plan.shared.replicas.states import (
    TO_RECREATE,
    State,
    ended_at,
    exit_code,
    is_being_restarted,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.api.kinds.elasticjob.types import ElasticJobSpec
    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.places import Place
    from traincrew.plan.shared.views import ObservedPod

NAMED = (CONTAINER,)
RETRYABLE = frozenset({130, 137, 138, 143})
"""Exit codes after which a pod is recreated: SIGINT, SIGKILL, SIGUSR1, SIGTERM."""
HOST_FAILURE_DETECTION = timedelta(seconds=60)
"""A lost node is detected after 40 s; until then its pods seem to run."""
AFTER_SCALE_IN = timedelta(seconds=60)
"""How long a failure may be a consequence of a scale-in."""


class ObservedJob(ObservedReplicas):
    """One job with its children, as a reconcile sees them.

    Args:
        observed: The children.
        spec: The desired state; None if it no longer matters.
        now: For failures that cannot be decided at once.
        records: The stored pod records, by the key of their place.
        absent: Places of `spec` that currently get no pod.
        scaled_in: When workers were last asked to terminate because replicas was lowered.
    """

    named = NAMED
    own_deadline = State.FAILED

    def __init__(
        self,
        observed: Observed,
        spec: ElasticJobSpec | None,
        now: datetime,
        records: Mapping[str, PodRecord],
        absent: frozenset[Place] = frozenset(),
        *,
        scaled_in: datetime | None = None,
    ) -> None:
        desired = replicas(spec) if spec is not None else {}
        super().__init__(observed, desired, now, records, absent)
        self._hosted = spec is not None and spec.hosted
        self._scaled_in = scaled_in

    @property
    def training(self) -> dict[Place, State]:
        """The states of the workers."""
        return self.of_type(WORKER)

    def is_complete(self, smallest: int) -> bool:
        """Return whether the workers that trained together have all ended, and enough succeeded.

        The launcher ends with 0 when the group has finished, and nobody can join it afterwards: a
        worker that comes later finds the rendezvous closed, or its host gone. So a worker that has
        not run before the first success is not waited for.

        Args:
            smallest: Number of workers without which there is no group.
        """
        workers = self.training
        if list(workers.values()).count(State.SUCCEEDED) < max(1, smallest):
            return False
        return not any(self._trains_to_the_end(place, state) for place, state in workers.items())

    def _trains_to_the_end(self, place: Place, state: State) -> bool:
        if state is State.UNDECIDED:
            return not self.is_late(place)
        if state is not State.RUNNING or self.is_late(place):
            return False
        pod = self.pod(place)
        return pod is not None and not is_being_restarted(pod, NAMED)

    def is_late(self, place: Place) -> bool:
        """Return whether the launcher of a worker started after another one had succeeded."""
        pod = self.pod(place)
        began = _started_at(pod) if pod is not None else None
        return began is not None and self._first_success is not None and began > self._first_success

    @cached_property
    def _first_success(self) -> str | None:
        """When the first worker succeeded; None if none has, or it is not known."""
        done = [place for place, state in self.training.items() if state is State.SUCCEEDED]
        ends = [ended_at(pod, NAMED) for place in done if (pod := self.pod(place)) is not None]
        # Kubernetes writes times in one format, in which later texts are greater.
        return format_time(min(found)) if (found := [end for end in ends if end]) else None

    def seconds_until_scheduled(self, limit: timedelta) -> float | None:
        """Return how long to wait for the scheduler; None if every pod is scheduled, or older.

        Args:
            limit: Age at which a pod is no longer waited for.
        """
        left = [
            (parse_time(pod.metadata.creation_timestamp) + limit - self.now).total_seconds()
            for pod in self.pods.values()
            if not pod.spec.node_name and pod.status.phase == "Pending"
        ]
        longest = max(left, default=0.0)
        return longest if longest > 0 else None

    # -- the state of a pod -------------------------------------------------------------------

    def by_exit_code(self, place: Place, pod: ObservedPod) -> State:
        """Return whether a worker is recreated, also if it failed because of others."""
        if exit_code(pod, NAMED) in RETRYABLE:
            return State.RETRYABLE
        if place.type == WORKER and self._follows_scale_in(pod):
            return State.DISRUPTED
        if self._hosted and place.type == WORKER and place != RENDEZVOUS_HOST:
            return self._without_host(pod)
        return State.FAILED

    def _follows_scale_in(self, pod: ObservedPod) -> bool:
        """Decide whether a worker failed just after others were asked to terminate.

        A launcher that loses its peers during a rendezvous exits with an error and closes the
        rendezvous; the other launchers then exit with the same code as when the program fails.
        """
        if self._scaled_in is None or (ended := ended_at(pod, NAMED)) is None:
            return False
        return self._scaled_in <= ended <= self._scaled_in + AFTER_SCALE_IN

    def _without_host(self, pod: ObservedPod) -> State:
        """Decide whether a worker failed only because the rendezvous host was not running.

        The launcher then exits with the same code as when the program fails.
        """
        host = self.pod(RENDEZVOUS_HOST)
        state = self.state(RENDEZVOUS_HOST)
        if host is None or state in {State.WAITING, State.TERMINATING, *TO_RECREATE}:
            return State.DISRUPTED
        if host.metadata.creation_timestamp > pod.metadata.creation_timestamp:
            return State.DISRUPTED  # the host that it first joined is gone
        if state is State.RUNNING:
            if not host.ready:
                return State.DISRUPTED
            if (left := self.seconds_until_decided(pod)) is not None and left > 0:
                return State.UNDECIDED
        return State.FAILED

    def seconds_until_decided(self, pod: ObservedPod) -> float | None:
        """Return the seconds until a failure can be decided; None if its time is not known."""
        if (ended := ended_at(pod, NAMED)) is None:
            return None
        return (ended + HOST_FAILURE_DETECTION - self.now).total_seconds()


def _started_at(pod: ObservedPod) -> str | None:
    """Return when the newest run of a pod's launcher started; None if it is not known."""
    status = programs.program(pod, NAMED)
    if status is None:
        return None
    if status.state.running is not None:
        return status.state.running.started_at
    ended = status.state.terminated or status.last_state.terminated
    return ended.started_at if ended is not None else None
