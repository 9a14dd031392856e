"""The observed state of such a job: its places, and the states of the pods in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from traincrew.plan.shared import podrecords
from traincrew.plan.shared.replicas.places import places
from traincrew.plan.shared.replicas.states import (
    TO_RECREATE,
    State,
    has_succeeded,
    is_being_restarted,
    is_disrupted,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.places import Place, Replicas
    from traincrew.plan.shared.views import ChildView, ObservedPod


class ObservedReplicas(ABC):
    """One job with its children, as a reconcile sees them.

    Args:
        observed: The children.
        replicas: The desired pods, by type; none if they no longer matter.
        now: The time.
        records: The stored pod records, by the key of their place.
        absent: Places of `replicas` that currently get no pod.

    Attributes:
        named: Names of the container that runs the program.
        own_deadline: The state of a pod that its own deadline has ended.
    """

    named: ClassVar[tuple[str, ...]]
    own_deadline: ClassVar[State] = State.RETRYABLE

    def __init__(
        self,
        observed: Observed,
        replicas: Mapping[str, Replicas],
        now: datetime,
        records: Mapping[str, PodRecord],
        absent: frozenset[Place] = frozenset(),
    ) -> None:
        self._job = observed.job.metadata.name
        self.replicas = replicas
        self.now, self.records = now, records
        self.pods = {pod.metadata.name: pod for pod in observed.pods}
        self.services: dict[str, ChildView] = {
            key.name: view for key, view in observed.children.items() if key.kind == "Service"
        }
        everywhere = list(places(replicas))
        self.absent = {place.key: place.name(self._job) for place in everywhere if place in absent}
        self.places = [place for place in everywhere if place not in absent]
        self.names = {place.name(self._job): place for place in self.places}

    @cached_property
    def states(self) -> dict[Place, State]:
        """The state of every place."""
        return {place: self.state(place) for place in self.places}

    @property
    def training(self) -> dict[Place, State]:
        """The states of the pods that the job waits for; by default, of all."""
        return self.states

    @property
    def deciding(self) -> dict[Place, State]:
        """The states of the pods that say if the job runs, and whose success is that of the job."""
        return self.training

    def of_type(self, name: str) -> dict[Place, State]:
        """Return the states of the pods of a type."""
        return {place: state for place, state in self.states.items() if place.type == name}

    def pod(self, place: Place) -> ObservedPod | None:
        """Return the pod in a place."""
        return self.pods.get(place.name(self._job))

    def key_of(self, pod: ObservedPod) -> str:
        """Return the key of the place a pod is in, whether desired or not."""
        return pod.metadata.name.removeprefix(f"{self._job}-")

    def members(self, name: str) -> list[ObservedPod]:
        """Return the pods of a type, whether desired or not."""
        lower = name.lower()
        return [pod for pod in self.pods.values() if self.key_of(pod).rpartition("-")[0] == lower]

    def released(self, records: Mapping[str, PodRecord]) -> set[str]:
        """Return the desired places with a released pod that is not terminating.

        Either it has not been deleted yet, and is desired again; or the cache is stale.
        """
        return {
            place.key
            for place in self.places
            if (pod := self.pod(place)) is not None
            and pod.metadata.deletion_timestamp is None
            and podrecords.is_released(records, place.key, pod)
        }

    def restarts_in_place(self) -> int:
        """Return the number of container restarts in the existing pods."""
        return sum(pod.restarts for pod in self.pods.values())

    def restarting(self, records: Mapping[str, PodRecord]) -> list[Place]:
        """Return the pods that have trained, do not run now, and will run again."""
        return [
            place
            for place, state in self.training.items()
            if self._is_restarting(place, state, records.get(place.key))
        ]

    def _is_restarting(self, place: Place, state: State, record: PodRecord | None) -> bool:
        if state in TO_RECREATE:
            return True
        if state is State.RUNNING:
            pod = self.pod(place)
            return pod is not None and is_being_restarted(pod, self.named)
        return (
            state in {State.WAITING, State.TERMINATING} and record is not None and record.was_ready
        )

    # -- the state of a pod -------------------------------------------------------------------

    def state(self, place: Place) -> State:
        """Return the state of the pod in a place."""
        pod = self.pod(place)
        if pod is None:
            return State.WAITING
        leaving = pod.metadata.deletion_timestamp is not None
        stalled = podrecords.is_stalled(self.records, place.key, pod)
        if leaving and (stalled or podrecords.is_released(self.records, place.key, pod)):
            return State.TERMINATING  # a program that was asked to end has not completed its work
        if has_succeeded(pod, self.named):
            return State.SUCCEEDED
        if leaving:
            return State.TERMINATING
        if stalled:
            return State.STALLED
        if pod.status.phase == "Running":
            return State.RUNNING
        if pod.status.phase == "Failed":
            return self._failed(place, pod)
        return State.WAITING

    def _failed(self, place: Place, pod: ObservedPod) -> State:
        policy = self.replicas[place.type].policy
        if policy == "Never":
            return State.FAILED
        if is_disrupted(pod, self.named):
            return State.DISRUPTED
        if policy == "ExitCode":
            return self.by_exit_code(place, pod)
        # The kubelet would have restarted its containers, so the pod ended for another reason.
        own_deadline = pod.status.reason == "DeadlineExceeded"
        return self.own_deadline if own_deadline else State.DISRUPTED

    @abstractmethod
    def by_exit_code(self, place: Place, pod: ObservedPod) -> State:
        """Return the state of a pod that has failed, with restart policy ``ExitCode``."""
