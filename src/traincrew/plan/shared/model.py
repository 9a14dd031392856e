"""Input and output of a plan.

The decisions of a kind are one pure function, ``plan(observed, now, options) -> Decision``: no I/O,
no clock, no randomness. A decision is a `Plan` of what to do, or a `Question` to answer before
anything can be decided, or a `SpecPatch` to store first.

Children are written as plain documents, and observed as small typed views (`views`).
"""
# Over 400 lines: the vocabulary of all plans: each question beside the field with its answer.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from traincrew.api.meta import CustomObject, Owner
    from traincrew.plan.shared.progress import ReportedProgress
    from traincrew.plan.shared.ranks import Position
    from traincrew.plan.shared.schedulers import Served
    from traincrew.plan.shared.views import (
        AnyChild,
        ChildView,
        ObservedPod,
        PodGroupView,
        WorkloadView,
    )

FINGERPRINT = "traincrew.dev/fingerprint"
"""Annotation of children: a hash of what we wrote, so that the same is not written again."""
KEY_GENERATION = "traincrew.dev/key-generation"
"""Annotation of Secrets with a pair of ssh keys: which one it is, counted from 1."""


# -- observed ---------------------------------------------------------------------------------


class ChildKey(NamedTuple):
    """Kind and name of a child, within the namespace of its job."""

    kind: str
    name: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> ChildKey:
        """Return the key of the child that a document describes."""
        return cls(document["kind"], document["metadata"]["name"])


class ObjectKey(NamedTuple):
    """Kind and name of an object that a job refers to, in its namespace or in none."""

    kind: str
    name: str


class Refusal(Struct, frozen=True):
    """The API refused a write of a child.

    Attributes:
        foreign: An object of that name already exists and is not managed by the job.
        permanent: The document itself is invalid; a retry cannot succeed.
        message: The message of the API.
        owner: Kind and name of the controller of a foreign object; empty if it has none.
        leftover: An object of that name of an earlier job is not garbage collected yet.
    """

    message: str
    foreign: bool = False
    leftover: bool = False
    permanent: bool = False
    owner: str = ""


class LogKey(NamedTuple):
    """The log of a container."""

    pod: str
    uid: str
    container: str
    restarts: int
    previous: bool
    """Whether it is the log of the container before its last restart."""


class Confirm(Struct, frozen=True, kw_only=True):
    """List the pods from the API server: caches may be stale.

    Attributes:
        unseen: Children that should exist and are not in the caches: get them as well.
    """

    unseen: tuple[ChildKey, ...] = ()


class ObjectQuery(Struct, frozen=True):
    """Read these objects, which the job refers to, from the API server.

    Attributes:
        keys: The objects.
    """

    keys: tuple[ObjectKey, ...]


class LogQuery(Struct, frozen=True):
    """Read the ends of these logs.

    Attributes:
        keys: The logs.
    """

    keys: tuple[LogKey, ...]


class Output(Struct, frozen=True, kw_only=True):
    """The last line of a container's log, of which only the time is known.

    Attributes:
        read_at: When the log was last read, whether that succeeded or not.
        known: Whether it could be read.
        stamp: The time of the line as the node wrote it; empty if there is no line, None if the log
            could never be read.
        written_at: When the line was written by our clock; None if that is not known.
    """

    read_at: datetime
    known: bool = False
    stamp: str | None = None
    written_at: datetime | None = None


class OutputQuery(Struct, frozen=True, kw_only=True):
    """Read when these containers last wrote output.

    Attributes:
        keys: Their logs, in the order in which they are read.
        since: One output after this time is sufficient; the rest need not be read then.
    """

    keys: tuple[LogKey, ...]
    since: datetime


class GroupQuery(Struct, frozen=True, kw_only=True):
    """Find the scheduler that places gangs, and read the PodGroup of the job.

    Attributes:
        engine: The scheduler that the pods of this attempt belong to; empty to choose one.
        scheduler: ``schedulerName`` of the pods; empty for the default.
        owner: The job; the name of its PodGroup depends on the scheduler.
    """

    engine: str
    scheduler: str
    owner: Owner


class GangState(Struct, frozen=True, kw_only=True):
    """What is known about the gang of a job; the answer to `GroupQuery`.

    Attributes:
        served: The scheduler; None if there is none.
        group: The PodGroup of that name, whoever made it; None if there is none.
        problem: Why a scheduler that is there cannot be used, and what to do.
    """

    served: Served | None = None
    group: PodGroupView | None = None
    problem: str = ""


class QueueQuery(Struct, frozen=True, kw_only=True):
    """Read the Workload of the job, and what Kueue has said about it.

    Attributes:
        name: Name of the Workload.
        priority_class: WorkloadPriorityClass of the job; empty for none.
        pod_priority_class: PriorityClass of its pods, which counts then; empty for the default.
        job_uid: UID of the job, if others may have replaced its Workload; then all are read.
    """

    name: str
    priority_class: str = ""
    pod_priority_class: str = ""
    job_uid: str = ""


class Priority(Struct, frozen=True, kw_only=True):
    """The priority of a job in its queue, and the class that it is from, if there is one."""

    value: int = 0
    group: str = ""
    kind: str = ""
    name: str = ""


class QueueState(Struct, frozen=True, kw_only=True):
    """What is known about a job in a queue; the answer to `QueueQuery`.

    Attributes:
        workload: The Workload of that name; None if there is none.
        slices: Other Workloads of the job, if all were asked for.
        flavors: ``spec`` of the flavors that the Workload was admitted with.
        priority: The priority of the job.
        problem: Why the job cannot be queued, and what to do.
        served: Whether the cluster serves the API of queues.
    """

    workload: WorkloadView | None = None
    slices: tuple[WorkloadView, ...] = ()
    flavors: dict[str, dict[str, Any]] = field(default_factory=dict)
    priority: Priority | None = None
    problem: str = ""
    served: bool = True


Question = Confirm | ObjectQuery | LogQuery | OutputQuery | GroupQuery | QueueQuery
"""What has to be read before anything can be decided; the answer is in the next `Observed`."""


class Observed(Struct, frozen=True, kw_only=True):
    """Everything that a plan depends on.

    Attributes:
        job: The training job as stored.
        children: Objects whose controller is this job, by UID.
        pods: Pods whose controller is the job, one of the children, or a Job of a child.
        departing: Pods of children that no longer exist; they end, but may still run.
        leftovers: Children of an earlier job of the same name that are not garbage collected yet.
        namesakes: Other groups in which a job of the same kind and name has children.
        refusals: Writes of this reconcile that the API refused, and those of `Plan.coming` that it
            would refuse.
        drifted: Children whose spec somebody else has changed since we wrote it.
        confirmed: Whether `pods` were just listed from the API server instead of taken from a cache
            that may be stale; the answer to `Confirm`.
        logs: The ends of logs; empty if a log could not be read. The answer to `LogQuery`.
        outputs: What is known about the last output of containers. The answer to `OutputQuery`.
        rejections: Why the API refuses pods of `Plan.missing`, by name.
        objects: What the job refers to, as stored; None for what does not exist. The answer to
            `ObjectQuery`.
        gang: What is known about the gang of the job; None if it was not asked.
        queue: What is known about the job in its queue; None if it was not asked.
        progress: The newest report of the training program to this operator.
        positions: The positions that its ranks have reported to this operator.
    """

    job: CustomObject
    children: dict[ChildKey, ChildView] = field(default_factory=dict)
    pods: tuple[ObservedPod, ...] = ()
    departing: tuple[ObservedPod, ...] = ()
    leftovers: frozenset[ChildKey] = frozenset()
    namesakes: tuple[str, ...] = ()
    refusals: dict[ChildKey, Refusal] = field(default_factory=dict)
    drifted: frozenset[ChildKey] = frozenset()
    confirmed: bool = False
    logs: dict[LogKey, str] = field(default_factory=dict)
    outputs: dict[LogKey, Output] = field(default_factory=dict)
    rejections: dict[str, Refusal] = field(default_factory=dict)
    objects: dict[ObjectKey, dict[str, Any] | None] = field(default_factory=dict)
    gang: GangState | None = None
    queue: QueueState | None = None
    progress: ReportedProgress | None = None
    positions: tuple[Position, ...] = ()

    def child(self, key: ChildKey, view: type[AnyChild]) -> AnyChild | None:
        """Return an existing child of the job."""
        found = self.children.get(key)
        return found if isinstance(found, view) else None


# -- planned ----------------------------------------------------------------------------------


class Patch(Struct, frozen=True, kw_only=True):
    """Replaces fields of an existing child.

    Whole fields are replaced rather than merged, so that what a user removed from a template is
    removed, and what others wrote elsewhere in the object stays.
    """

    key: ChildKey
    namespace: str
    uid: str
    values: dict[tuple[str, ...], Any]
    """New values by path; None removes the field."""


class Write(Struct, frozen=True, kw_only=True):
    """Creates or updates a child; writes of one stage may be sent concurrently.

    Attributes:
        create: The child to create.
        patch: The changes of an existing child.
        key_pair: Whether `create` is a Secret that gets a new pair of ssh keys. A plan cannot make
            one, because it is pure. If it exists with a pair of an earlier generation, it gets a
            new pair, and keeps the one before it as well.
        retires: Whether a Secret of the generation of `create` loses the pairs before that one.
        expected: Whether `create` should be there already, although it is not watched: it is looked
            for, and created if somebody has deleted it.
    """

    create: dict[str, Any] | None = None
    patch: Patch | None = None
    key_pair: bool = False
    retires: bool = False
    expected: bool = False


class GroupWrite(Struct, frozen=True, kw_only=True):
    """Creates, changes or deletes the PodGroup of a job.

    Attributes:
        served: Its scheduler.
        write: What to create or change.
        found: The PodGroup that is changed, as it was observed.
        delete: The PodGroup to delete, as it was observed.
    """

    served: Served
    write: Write | None = None
    found: PodGroupView | None = None
    delete: PodGroupView | None = None


class QueueWrite(Struct, frozen=True, kw_only=True):
    """Creates, changes or deletes the Workload of a job; each of these alone.

    Attributes:
        create: The Workload to create.
        found: Else the Workload, as it was observed; it must not have changed since.
        patch: A merge patch of it.
        status: A merge patch of its status.
        delete: Whether it is deleted.
    """

    create: dict[str, Any] | None = None
    found: WorkloadView | None = None
    patch: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    delete: bool = False


class Event(NamedTuple):
    """An event of the job, emitted once the status it reports is stored."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Plan(Struct, kw_only=True):
    """What has to be done, in the order of the attributes.

    Attributes:
        group: What is done with the PodGroup of the job, before anything else is written.
        queue: What is done with the Workload of the job, likewise, one after the other.
        stages: Writes of children; a stage begins when the one before has succeeded.
        later: Writes of children that no pod needs in order to start. They follow the stages, and
            give way to those of other jobs. A refusal of one of them is never permanent.
        coming: What is created later, when others are ready: for each such child, the documents
            that the API is asked about now, by a dry run. These are the child and, if it is a Job,
            its pod. A document is tried once, and again only while the API would refuse it.
        delete: Children (and pods) to delete, with the UID each must have.
        any_version: Whether children in `delete` are deleted in whatever state they are meanwhile.
        foreground: Whether children in `delete` stay until what they own is gone.
        grace_seconds: Maximum grace period of the pods in `delete`; None for their own.
        status: The desired status of the job; compared with the stored one before it is written.
        missing: Pods by name that the controller of a child has not created yet. If that lasts, a
            dry run shows whether the API would accept them.
        urgent: Whether the status has to be written at once, not together with later changes.
        patient: Whether the status gives way while children of other jobs are created.
        events: Events to emit after the status was stored.
        delete_job: Whether the job itself has exceeded its ``ttlSecondsAfterFinished``.
        requeue_after: Seconds after which the job is reconciled without any change; None for never.
    """

    group: GroupWrite | None = None
    queue: list[QueueWrite] = field(default_factory=list)
    stages: list[list[Write]] = field(default_factory=list)
    later: list[Write] = field(default_factory=list)
    coming: dict[ChildKey, list[dict[str, Any]]] = field(default_factory=dict)
    delete: dict[ChildKey, str] = field(default_factory=dict)
    any_version: bool = False
    foreground: bool = False
    grace_seconds: int | None = None
    status: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, dict[str, Any]] = field(default_factory=dict)
    urgent: bool = False
    patient: bool = False
    events: list[Event] = field(default_factory=list)
    delete_job: bool = False
    requeue_after: float | None = None

    def delete_child(self, key: ChildKey, view: ChildView) -> None:
        """Delete a child, unless it is being deleted already."""
        if view.metadata.deletion_timestamp is None:
            self.delete[key] = view.metadata.uid

    def delete_pods(self, pods: Iterable[ObservedPod]) -> None:
        """Delete pods, except those that are being deleted already."""
        for pod in pods:
            self.delete_child(ChildKey("Pod", pod.metadata.name), pod)


class SpecPatch(Struct, frozen=True):
    """Write into the job's ``spec`` what a contract wants there; then plan for the new spec.

    Attributes:
        patch: A merge patch of the job, with ``spec`` only.
    """

    patch: dict[str, Any]


Decision = Plan | Question | SpecPatch
