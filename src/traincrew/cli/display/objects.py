"""Views of Kubernetes objects for all that is shown: pods, events and jobs.

Views are read-only and have only the fields that are shown; they are never written back. Containers
and conditions are those of the plans.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import field
from msgspec.structs import force_setattr

from traincrew.api import fullstatus
from traincrew.api.kinds import KINDS, OF_OTHERS
from traincrew.cli.display.statuses import Condition, Conditions, StatedPhase, ray_word
from traincrew.engine.objects import ObjectMeta, View, controller_of
from traincrew.plan.shared.views import ContainerState, ContainerStatus

__all__ = [
    "Condition",
    "Conditions",
    "Container",
    "ContainerState",
    "ContainerStatus",
    "Event",
    "Job",
    "JobStatus",
    "Metric",
    "Pod",
    "PodSpec",
    "PodStatus",
    "Progress",
    "Queue",
    "Rank",
    "Ranks",
    "Reference",
    "Replicas",
    "Workload",
    "decode",
]

T = TypeVar("T", bound=View)

_SUMMARY = frozenset({"phase", "reason", "message"})
"""The fields that follow from the conditions."""

_OF_OTHERS = frozenset((kind.api_version, kind.kind) for kind in OF_OTHERS)
"""The kinds whose definitions may have no room for all of the status."""
_JOBS = frozenset((kind.api_version, kind.kind) for kind in KINDS)
"""All kinds of training jobs."""


class Container(View, frozen=True, gc=False, kw_only=True):
    """A container of a pod."""

    name: str = ""
    image: str = ""
    restart_policy: str | None = None


class PodSpec(View, frozen=True, gc=False, kw_only=True):
    """The part of a pod's spec that is displayed."""

    node_name: str = ""
    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)


class PodStatus(Conditions, frozen=True, gc=False, kw_only=True):
    """The part of a pod's status that is displayed."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    container_statuses: list[ContainerStatus] = field(default_factory=list)
    init_container_statuses: list[ContainerStatus] = field(default_factory=list)

    def container(self, name: str) -> ContainerStatus | None:
        """Return the state of a container, also of an init container."""
        everything = (*self.container_statuses, *self.init_container_statuses)
        return next((one for one in everything if one.name == name), None)

    @property
    def ended(self) -> bool:
        """Whether its containers have ended and are not started again."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def restarts(self) -> int:
        """Number of restarts of all its containers."""
        return sum(container.restart_count for container in self.container_statuses)


class Pod(View, frozen=True, gc=False, kw_only=True):
    """A pod."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class Replicas(View, frozen=True, gc=False, kw_only=True):
    """The desired number of pods of a workload."""

    replicas: int | None = None
    parallelism: int | None = None


class Workload(View, frozen=True, gc=False, kw_only=True):
    """A Job or StatefulSet between a training job and its pods."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: Replicas = field(default_factory=Replicas)
    status: Conditions = field(default_factory=Conditions)

    @property
    def wanted(self) -> int:
        """The desired number of its pods."""
        if self.spec.replicas is not None:
            return self.spec.replicas
        return self.spec.parallelism if self.spec.parallelism is not None else 1


class Metric(View, frozen=True, gc=False, kw_only=True):
    """A metric that a training program has reported, as it wrote it."""

    name: str = ""
    value: str = ""


class Rank(View, frozen=True, gc=False, kw_only=True):
    """One of the slowest ranks."""

    rank: int = 0
    pod: str = ""
    percentage: float = 0.0
    last_advance_time: str = ""


class Ranks(View, frozen=True, gc=False, kw_only=True):
    """What ranks have reported of their positions."""

    count: int = 0
    median: float = 0.0
    slowest: list[Rank] = field(default_factory=list)


class Progress(View, frozen=True, gc=False, kw_only=True):
    """``status.progress``: the newest report of a training program."""

    percentage: int | None = None
    estimated_remaining_seconds: int | None = None
    metrics: list[Metric] = field(default_factory=list)
    last_update_time: str = ""
    last_advance_time: str = ""
    ranks: Ranks | None = None


class Queue(View, frozen=True, gc=False, kw_only=True):
    """``status.queue`` of a training job."""

    name: str = ""
    workload: str = ""
    admitted: dict[str, int] = field(default_factory=dict)
    message: str = ""


class JobStatus(StatedPhase, frozen=True, gc=False, kw_only=True):
    """Status fields that all training kinds, batch Jobs and RayJobs share."""

    reason: str = ""
    message: str = ""
    start_time: str | None = None
    completion_time: str | None = None
    progress: Progress | None = None
    queue: Queue | None = None
    observed_generation: int | None = None
    """None where the operator does not write it, as those of most other projects."""
    restarts: int = 0
    replica_statuses: Any = None
    """A mapping or a list of counts, one for each role."""
    job_deployment_status: str = ""
    job_status: str = ""
    end_time: str | None = None
    """These three of a RayJob, which has no conditions."""

    @property
    def ended_at(self) -> str | None:
        """When the job has ended: as its status says, else since when a condition says it."""
        if not self.end or self.completion_time:
            return self.completion_time
        leading = self.leading
        return self.end_time or (leading.last_transition_time if leading is not None else None)


class Annotations(View, frozen=True, gc=False, kw_only=True):
    """The annotations of a job that are read."""

    status: str = field(default="", name=fullstatus.ANNOTATION)


class JobMeta(ObjectMeta, frozen=True, gc=False, kw_only=True):
    """``metadata`` of a job."""

    annotations: Annotations = field(default_factory=Annotations)


class Job(View, frozen=True, gc=False, kw_only=True):
    """The object that a user submitted and waits for: a training job, a batch Job or a Pod."""

    metadata: JobMeta = field(default_factory=JobMeta)
    kind: str = ""
    api_version: str = ""
    spec: dict[str, Any] = field(default_factory=dict)
    status: JobStatus = field(default_factory=JobStatus)

    @property
    def is_part(self) -> bool:
        """Whether another training job is made of it, as a TrainJob is of a JobSet."""
        owner = controller_of(self)
        return owner is not None and (owner.api_version, owner.kind) in _JOBS

    def __post_init__(self) -> None:
        """Add what conditions do not have: fields in an annotation, and the word of a RayJob."""
        status = self.status
        if word := ray_word(status.job_deployment_status, status.job_status):
            said = Condition(type=word, status="True", reason=status.reason, message=status.message)
            found = msgspec.structs.replace(status, conditions=[*status.conditions, said])
            force_setattr(self, "status", found)
            return
        text = self.metadata.annotations.status
        if not text or (self.api_version, self.kind) not in _OF_OTHERS:
            return
        more = fullstatus.restored(text, self.metadata.uid)
        leading = self.status.leading
        if leading is not None and self.status.told_phase != more.get("phase"):
            # Another operator has written the conditions since.
            more = {name: each for name, each in more.items() if name not in _SUMMARY}
        try:
            found = decode(more, JobStatus)
        except msgspec.ValidationError:
            return  # not written by this program
        fields = {
            each.name: getattr(found, each.name)
            for each in msgspec.structs.fields(JobStatus)
            if each.encode_name in more
        }
        force_setattr(self, "status", msgspec.structs.replace(self.status, **fields))


class Reference(View, frozen=True, gc=False, kw_only=True):
    """The object that an event is about."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    field_path: str = ""


class Event(View, frozen=True, gc=False, kw_only=True):
    """A Kubernetes event, with its times; which of them are set depends on the component."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    involved_object: Reference = field(default_factory=Reference)
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def at(self) -> str:
        """When it happened last, RFC 3339; empty if it does not say."""
        return self.last_timestamp or self.event_time or self.first_timestamp or ""


def decode(document: object, view: type[T]) -> T:
    """Convert a plain document to a view.

    Raises:
        msgspec.ValidationError: A field does not have its type in the API.
    """
    return msgspec.convert(document, view, strict=False)
