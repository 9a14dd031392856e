"""The observed state of an MxJob: its replicas, and how they ended."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.api.kinds.mxjob.types import CONTAINER, SCHEDULER, SERVER
from traincrew.plan.mxjob.children import LABEL_ATTEMPT, Place, places
from traincrew.plan.shared import failing, pods, programs
from traincrew.plan.shared.model import ChildKey, Observed
from traincrew.plan.shared.views import BatchJobView, ObservedPod

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.api.kinds.mxjob.types import MxJobSpec
    from traincrew.plan.shared.views import ContainerStatus

FIRST_SIGNAL_CODE = 128
"""Exit codes from here on mean that the program was killed, not that it failed by itself."""
NAMED = (CONTAINER,)
_EXIT_CODE = re.compile(r"^Container (\S+) .*failed with exit code (\d+)")
"""Begins the message of a Job that failed by its podFailurePolicy for an exit code (KEP-3329)."""
_DELETED = frozenset({128 + 15, 128 + 9})
"""Exit codes of a pod that is deleted: by SIGTERM, or by SIGKILL after its grace period."""
_HOPELESS = frozenset({"OOMKilled", "StartError", "ContainerCannotRun"})
"""Reasons of containers that end in the same way each time, with codes of 128 or more."""
_DISRUPTION = "has condition DisruptionTarget"
"""Parts of the message of a Job that failed by its podFailurePolicy (KEP-3329)."""


class State(Enum):
    """The state of a replica in the current attempt."""

    ABSENT = auto()
    """It has no Job."""
    LEAVING = auto()
    """Its Job is of an earlier attempt, or is being deleted."""
    PENDING = auto()
    """Its pod does not run yet."""
    RUNNING = auto()
    SUCCEEDED = auto()
    FAILED = auto()


class Replica(Struct, kw_only=True):
    """One replica with its Job and pods."""

    place: Place
    name: str
    job: BatchJobView | None
    pods: list[ObservedPod]
    state: State

    @property
    def key(self) -> ChildKey:
        """The key of its Job."""
        return ChildKey("Job", self.name)

    @property
    def pod(self) -> ObservedPod | None:
        """Its newest pod."""
        return pods.newest(self.pods)


class Failure(Struct, frozen=True, kw_only=True):
    """How a replica failed.

    Attributes:
        place: The replica.
        text: Which replica, and how it ended.
        code: Exit code of the container; None if not known.
        disrupted: Whether something other than its program ended it.
        hopeless: Whether it needed more memory than its limit, or could not be started at all.
        at: When it ended, for comparison; sorts last if not known.
    """

    place: Place
    text: str
    code: int | None = None
    disrupted: bool = False
    hopeless: bool = False
    at: str = failing.UNKNOWN

    @property
    def permanent(self) -> bool:
        """Whether a restart would end in the same way: the program itself failed."""
        if self.disrupted:
            return False
        return self.hopeless or (self.code is not None and self.code < FIRST_SIGNAL_CODE)


class ObservedJob:
    """One job with its children, as a reconcile sees them.

    Args:
        observed: The children.
        spec: The desired state.
        runtime_id: The RuntimeId in use.
        attempt: Returns the current attempt of a replica, as in `LABEL_ATTEMPT`.
    """

    def __init__(
        self,
        observed: Observed,
        spec: MxJobSpec,
        runtime_id: str,
        attempt: Callable[[Place], str],
    ) -> None:
        by_owner: dict[str, list[ObservedPod]] = {}
        for pod in observed.pods:
            if pod.metadata.controller is not None:
                by_owner.setdefault(pod.metadata.controller.uid, []).append(pod)
        self.replicas: list[Replica] = []
        for place, _ in places(spec):
            name = place.name(observed.job.metadata.name, runtime_id)
            job = observed.child(ChildKey("Job", name), BatchJobView)
            mine = by_owner.get(job.metadata.uid, []) if job is not None else []
            state = _state(job, mine, attempt(place))
            self.replicas.append(Replica(place=place, name=name, job=job, pods=mine, state=state))

    def of(self, *states: State) -> list[Replica]:
        """Return the replicas in some states."""
        return [replica for replica in self.replicas if replica.state in states]

    @property
    def without_cause(self) -> bool:
        """Whether a Job has failed, but none of its pods is known to have."""
        return any(not _failed(replica) for replica in self.of(State.FAILED))

    @property
    def needed(self) -> list[Replica]:
        """The replicas that must succeed: all but the servers, which end with the others."""
        return [replica for replica in self.replicas if replica.place.type != SERVER]

    @property
    def succeeded(self) -> bool:
        """Whether the scheduler and every worker have succeeded."""
        return all(replica.state is State.SUCCEEDED for replica in self.needed)

    @property
    def ended_at(self) -> str:
        """When the last of the needed replicas ended; empty if not known."""
        return max((_ended_at(replica) for replica in self.needed), default="")

    @property
    def failures(self) -> list[Failure]:
        """How replicas failed, the first one first: it explains the others."""
        found = [_failure(replica) for replica in self.of(State.FAILED)]
        return sorted(found, key=lambda failure: failing.order(failure.at, *failure.place))


def describe(place: Place) -> str:
    """Return a replica in words: ``worker 2``; ``the scheduler``."""
    if place.type == SCHEDULER:
        return "the scheduler"
    return f"{place.type.lower()} {place.number}"


def container(pod: ObservedPod) -> ContainerStatus | None:
    """Return the status of the container that trains."""
    return programs.program(pod, NAMED)


def _state(job: BatchJobView | None, mine: list[ObservedPod], attempt: str) -> State:
    if job is None:
        return State.ABSENT
    metadata = job.metadata
    if metadata.deletion_timestamp is not None or metadata.labels.get(LABEL_ATTEMPT) != attempt:
        return State.LEAVING
    states = [_pod_state(pod) for pod in mine]
    if State.SUCCEEDED in states or job.holds("Complete"):
        return State.SUCCEEDED
    if State.FAILED in states or job.holds("Failed") or job.holds("FailureTarget"):
        return State.FAILED
    return State.RUNNING if State.RUNNING in states else State.PENDING


def _pod_state(pod: ObservedPod) -> State:
    """Return the state of a pod: that of the container that trains, whatever the others do."""
    status = container(pod)
    ended = status.state.terminated if status is not None else None
    if ended is not None:
        return State.SUCCEEDED if ended.exit_code == 0 else State.FAILED
    if pod.status.phase == "Succeeded":
        return State.SUCCEEDED
    if pod.status.phase == "Failed" or _is_disrupted(pod):
        return State.FAILED  # or it is about to end
    return State.RUNNING if pod.running else State.PENDING


def _is_disrupted(pod: ObservedPod) -> bool:
    """Whether the pod was ended, or is about to be, by something other than its containers."""
    if pod.metadata.deletion_timestamp is not None:
        return True
    return pods.was_disrupted(pod)


def _failure(replica: Replica) -> Failure:
    pod = pods.newest(_failed(replica))
    who = describe(replica.place)
    if pod is None:
        return _failure_of_job(replica, who)
    status = container(pod)
    ended = status.state.terminated if status is not None else None
    code = ended.exit_code if ended is not None else None
    return Failure(
        place=replica.place,
        text=f"{who} failed: {pods.disruption(pod) or pods.failure(pod, NAMED)}",
        code=code,
        disrupted=_is_disrupted(pod),
        hopeless=ended is not None and ended.reason in _HOPELESS,
        at=(ended.finished_at if ended is not None else None) or failing.UNKNOWN,
    )


def _failed(replica: Replica) -> list[ObservedPod]:
    return [pod for pod in replica.pods if _pod_state(pod) is State.FAILED]


def _failure_of_job(replica: Replica, who: str) -> Failure:
    """Return the state of a pod that no longer exists, by its Job.

    A pod that ends by itself stays, so somebody has deleted this one; with the exit code of a
    deletion, before it had ended.
    """
    assert replica.job is not None
    condition = replica.job.condition("Failed") or replica.job.condition("FailureTarget") or {}
    message = condition.get("message") or "its pod was deleted"
    found = _EXIT_CODE.search(message)
    # Of another container than the program's, an init container say, the code means nothing.
    code = int(found.group(2)) if found and found.group(1) in NAMED else None
    return Failure(
        place=replica.place,
        text=f"{who} failed: Job {replica.name}: {pods.shorten(message)}",
        code=code,
        disrupted=code in _DELETED or _DISRUPTION in message,
        at=condition.get("lastTransitionTime") or failing.UNKNOWN,
    )


def _ended_at(replica: Replica) -> str:
    pod = replica.pod
    ended = pods.ended_at(pod, NAMED) if pod is not None else failing.UNKNOWN
    if ended != failing.UNKNOWN:
        return ended
    done = replica.job.status.get("completionTime") if replica.job is not None else None
    return done or ""


__all__ = [
    "Failure",
    "ObservedJob",
    "Replica",
    "State",
    "container",
    "describe",
]
