"""The observed state of a PyTorchJob: its places, and the states of the pods in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.pytorchjob.types import CONTAINER, MASTER, WORKER, PyTorchJobSpec
from traincrew.plan.pytorchjob.children import AUTOSCALER, places
from traincrew.plan.shared import podrecords
from traincrew.plan.shared.replicas.states import (
    TO_RECREATE,
    State,
    exit_code,
    has_succeeded,
    is_being_restarted,
    is_disrupted,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.replicas.places import Place
    from traincrew.plan.shared.views import ChildView, ObservedPod

NAMED = (CONTAINER,)
FIRST_RETRYABLE = 128
"""Exit codes from here on are retried with restart policy ``ExitCode``: ``IsRetryableExitCode`` of
training-operator (``pkg/util/train``)."""


class ObservedJob:
    """One job with its children, as a reconcile sees them.

    Args:
        observed: The children.
        spec: The desired state; None if it no longer matters.
        now: The time.
        records: The stored pod records, by the key of their place.
    """

    def __init__(
        self,
        observed: Observed,
        spec: PyTorchJobSpec | None,
        now: datetime,
        records: Mapping[str, PodRecord],
    ) -> None:
        self._job = observed.job.metadata.name
        self._spec = spec
        self._records = records
        self.now = now
        self.pods = {pod.metadata.name: pod for pod in observed.pods}
        self.services: dict[str, ChildView] = {
            key.name: view for key, view in observed.children.items() if key.kind == "Service"
        }
        self.autoscalers: dict[str, ChildView] = {
            key.name: view for key, view in observed.children.items() if key.kind == AUTOSCALER
        }
        self.places = list(places(spec)) if spec is not None else []
        self.names = {place.name(self._job): place for place in self.places}
        self.states = {place: self._state(place) for place in self.places}

    def pod(self, place: Place) -> ObservedPod | None:
        """Return the pod in a place."""
        return self.pods.get(place.name(self._job))

    def key_of(self, pod: ObservedPod) -> str:
        """Return the key of the place a pod is in, whether desired or not."""
        return pod.metadata.name.removeprefix(f"{self._job}-")

    def of_type(self, name: str) -> dict[Place, State]:
        """Return the states of the pods of a type."""
        return {place: state for place, state in self.states.items() if place.type == name}

    @property
    def has_master(self) -> bool:
        """Whether the job has a master."""
        return self._spec is not None and self._spec.has_master

    @property
    def deciding(self) -> dict[Place, State]:
        """The states of the pods whose success is that of the job, and which say if it runs."""
        return self.of_type(MASTER) or self.of_type(WORKER)

    @property
    def has_succeeded(self) -> bool:
        """Whether enough of them have succeeded: all, or one of an elastic group."""
        states = list(self.deciding.values())
        if self._spec is not None and self._spec.elastic_policy and not self.has_master:
            return State.SUCCEEDED in states
        return bool(states) and all(state is State.SUCCEEDED for state in states)

    def restarts_in_place(self) -> int:
        """Return the number of container restarts in the existing pods."""
        return sum(pod.restarts for pod in self.pods.values())

    def restarting(self, records: Mapping[str, PodRecord]) -> list[Place]:
        """Return the pods that have run, do not run now, and will run again."""
        return [
            place
            for place, state in self.states.items()
            if self._is_restarting(place, state, records.get(place.key))
        ]

    def _is_restarting(self, place: Place, state: State, record: PodRecord | None) -> bool:
        if state in TO_RECREATE:
            return True
        if state is State.RUNNING:
            pod = self.pod(place)
            return pod is not None and is_being_restarted(pod, NAMED)
        return (
            state in {State.WAITING, State.TERMINATING} and record is not None and record.was_ready
        )

    # -- the state of a pod -------------------------------------------------------------------

    def _state(self, place: Place) -> State:
        pod = self.pod(place)
        if pod is None:
            return State.WAITING
        leaving = pod.metadata.deletion_timestamp is not None
        if leaving and podrecords.is_released(self._records, place.key, pod):
            return State.TERMINATING  # a program that was asked to end has not completed its work
        if has_succeeded(pod, NAMED):
            return State.SUCCEEDED
        if leaving:
            return State.TERMINATING
        if pod.status.phase == "Running":
            return State.RUNNING
        if pod.status.phase == "Failed":
            return self._failed(place, pod)
        return State.WAITING

    def _failed(self, place: Place, pod: ObservedPod) -> State:
        assert self._spec is not None
        policy = self._spec.pytorch_replica_specs[place.type].policy
        if policy == "Never":
            return State.FAILED
        if is_disrupted(pod, NAMED):
            return State.DISRUPTED
        code = exit_code(pod, NAMED)
        if policy == "ExitCode":
            if code is None:  # what ended the pod was not its program
                return State.RETRYABLE
            return State.RETRYABLE if code >= FIRST_RETRYABLE else State.FAILED
        # The kubelet would have restarted its containers, so the pod ended for another reason.
        own_deadline = pod.status.reason == "DeadlineExceeded"
        return State.RETRYABLE if own_deadline else State.DISRUPTED
