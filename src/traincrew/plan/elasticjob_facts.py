"""What is going on with an ElasticJob: its places, and what became of the pods in them."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING

from traincrew.api.elasticjob import CONTAINER, WORKER, ElasticJobSpec
from traincrew.api.meta import parse_time
from traincrew.plan.elasticjob_children import HOST, Place, places, restart_policy
from traincrew.plan.model import ChildKey, ChildView, Observed, PodView

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.plan.podrecords import PodRecord

RETRYABLE = frozenset({130, 137, 138, 143})
"""Exit codes after which a pod is made again: SIGINT, SIGKILL, SIGUSR1, SIGTERM."""
UNTIL_HOST_IS_JUDGED = timedelta(seconds=60)
"""A lost node is noticed after 40 s; until then its pods look as if they ran."""


class State(Enum):
    """What became of the pod in a place."""

    WAITING = auto()
    """There is none, or it does not run yet."""
    RUNNING = auto()
    LEAVING = auto()
    """It is being deleted."""
    SUCCEEDED = auto()
    AGAIN = auto()
    """It failed, and is to be made again."""
    LOST = auto()
    """Likewise, but it was not its own fault, so nobody counts it."""
    OPEN = auto()
    """It failed; whether that was its own fault remains to be seen."""
    FAILED = auto()
    """It failed for good."""


TO_REPLACE = frozenset({State.AGAIN, State.LOST})
ENDED = frozenset({State.SUCCEEDED, State.FAILED})


class Facts:
    """One look at one job.

    Args:
        observed: The children.
        spec: What there should be; None when that does not matter any more.
        now: For failures that cannot be judged at once.
        absent: Places of `spec` that are to have no pod for now.
    """

    def __init__(
        self,
        observed: Observed,
        spec: ElasticJobSpec | None,
        now: datetime,
        absent: frozenset[Place] = frozenset(),
    ) -> None:
        self._job = observed.job.metadata.name
        self._spec = spec
        self._now = now
        self.pods = {pod.metadata.name: pod for pod in observed.pods}
        self.services: dict[str, ChildView] = {
            key.name: view for key, view in observed.children.items() if key.kind == "Service"
        }
        everywhere = list(places(spec)) if spec is not None else []
        self.absent = {place.key: place.name(self._job) for place in everywhere if place in absent}
        self.places = [place for place in everywhere if place not in absent]
        self.names = {place.name(self._job): place for place in self.places}
        self.states = {place: self._state(place) for place in self.places}

    def pod(self, place: Place) -> PodView | None:
        """The pod in a place."""
        return self.pods.get(place.name(self._job))

    def workers(self) -> dict[Place, State]:
        """What became of the pods that train."""
        return {place: state for place, state in self.states.items() if place.type == WORKER}

    def place_of(self, pod: PodView) -> str:
        """The key of the place a pod is in, wanted or not."""
        return pod.metadata.name.removeprefix(f"{self._job}-")

    def restarts_in_place(self) -> int:
        """Restarts of containers in the pods there are."""
        return sum(pod.restarts for pod in self.pods.values())

    def lost(self, records: Mapping[str, PodRecord]) -> list[Place]:
        """Workers that have run and do not run now, but will again."""
        return [
            place
            for place, state in self.workers().items()
            if self._is_lost(place, state, records.get(place.key))
        ]

    def _is_lost(self, place: Place, state: State, record: PodRecord | None) -> bool:
        if state in TO_REPLACE:
            return True
        if state is State.RUNNING:
            pod = self.pod(place)
            return pod is not None and _is_being_restarted(pod)
        return state in {State.WAITING, State.LEAVING} and record is not None and record.was_ready

    # -- what became of a pod -----------------------------------------------------------------

    def _state(self, place: Place) -> State:
        pod = self.pod(place)
        if pod is None:
            return State.WAITING
        if pod.status.phase == "Succeeded":
            return State.SUCCEEDED
        if pod.metadata.deletion_timestamp is not None:
            return State.LEAVING
        if pod.status.phase == "Running":
            return State.RUNNING
        if pod.status.phase == "Failed":
            return self._failed(place, pod)
        return State.WAITING

    def _failed(self, place: Place, pod: PodView) -> State:
        assert self._spec is not None
        policy = restart_policy(self._spec.replica_specs[place.type])
        if policy == "Never":
            return State.FAILED
        if _is_disrupted(pod):
            return State.LOST
        if policy != "ExitCode":
            # The node would have restarted its containers, so it has ended for another reason.
            return State.LOST if pod.status.reason != "DeadlineExceeded" else State.FAILED
        if exit_code(pod) in RETRYABLE:
            return State.AGAIN
        if self._spec.hosted and place.type == WORKER and place != HOST:
            return self._without_host(pod)
        return State.FAILED

    def _without_host(self, pod: PodView) -> State:
        """Whether a worker has failed only because the one that serves the rendezvous was away.

        The launcher ends with the same code then as when the program fails.
        """
        assert self._spec is not None
        host = self.pod(HOST)
        state = self._state(HOST)
        if host is None or state in {State.WAITING, State.LEAVING, *TO_REPLACE}:
            return State.LOST
        if host.metadata.creation_timestamp > pod.metadata.creation_timestamp:
            return State.LOST  # what it met at first is gone
        if state is State.RUNNING:
            if not host.ready:
                return State.LOST
            if (left := self.until_judged(pod)) is not None and left > 0:
                return State.OPEN
        return State.FAILED

    def until_judged(self, pod: PodView) -> float | None:
        """Seconds until a failure can be judged; None when it does not say when it failed."""
        times = [
            parse_time(status.state.terminated.finished_at)
            for status in pod.status.container_statuses
            if status.state.terminated is not None and status.state.terminated.finished_at
        ]
        if not times:
            return None
        return (max(times) + UNTIL_HOST_IS_JUDGED - self._now).total_seconds()


def pod_key(name: str) -> ChildKey:
    """The pod of that name."""
    return ChildKey("Pod", name)


def exit_code(pod: PodView) -> int | None:
    """How the launcher of a failed pod ended, else any of its containers."""
    ended = {
        status.name: status.state.terminated.exit_code
        for status in pod.status.container_statuses
        if status.state.terminated is not None
    }
    if ended.get(CONTAINER):
        return ended[CONTAINER]
    everything = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    for status in everything:
        if status.state.terminated is not None and status.state.terminated.exit_code != 0:
            return status.state.terminated.exit_code
    return None


def _is_disrupted(pod: PodView) -> bool:
    """Whether something else than its own containers has ended the pod."""
    if any(
        condition.type == "DisruptionTarget" and condition.status == "True"
        for condition in pod.status.conditions
    ):
        return True
    if pod.status.reason:  # evicted, refused by the node, ended with the node
        return pod.status.reason != "DeadlineExceeded"
    return exit_code(pod) is None


def _is_being_restarted(pod: PodView) -> bool:
    return any(
        status.state.waiting is not None and status.last_state.terminated is not None
        for status in pod.status.container_statuses
    )
