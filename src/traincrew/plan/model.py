"""What a plan is made from, and what it says.

A kind's decisions are one pure function, ``plan(observed, now) -> Plan``: no I/O, no clock, no
randomness. Children are plain documents; what is observed of them are small typed views that hold
just what decisions are made from.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct, field

from traincrew.api.meta import CustomObject, ObjectMeta, Shared, View

FINGERPRINT = "traincrew.dev/fingerprint"
"""Annotation of every child: a digest of what we wrote, so that the same is not written again."""


# -- observed ---------------------------------------------------------------------------------


class ChildView(View, frozen=True, gc=False, kw_only=True):
    """A child of which only the existence matters: a ServiceAccount, a Service."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


AnyChild = TypeVar("AnyChild", bound=ChildView)


class RoleView(ChildView, frozen=True, gc=False, kw_only=True):
    """A Role."""

    rules: list[dict[str, Any]] = field(default_factory=list)


class RoleBindingView(ChildView, frozen=True, gc=False, kw_only=True):
    """A RoleBinding."""

    subjects: list[dict[str, Any]] = field(default_factory=list)


class ConfigMapView(ChildView, frozen=True, gc=False, kw_only=True):
    """A ConfigMap."""

    data: dict[str, str] = field(default_factory=dict)


class StatefulSetSpecView(View, frozen=True, gc=False, kw_only=True):
    """The part of a StatefulSet's ``spec`` that others may change, too."""

    replicas: int = 1


class StatefulSetStatusView(View, frozen=True, gc=False, kw_only=True):
    """How many pods a StatefulSet has, and how many of them are ready."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0


class StatefulSetView(ChildView, frozen=True, gc=False, kw_only=True):
    """A StatefulSet."""

    spec: StatefulSetSpecView = field(default_factory=StatefulSetSpecView)
    status: StatefulSetStatusView = field(default_factory=StatefulSetStatusView)


class JobSpecView(View, frozen=True, gc=False, kw_only=True):
    """The part of a Job's ``spec`` that can be changed after it was created."""

    suspend: bool = False
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None


class JobView(ChildView, frozen=True, gc=False, kw_only=True):
    """A Job; its status stays plain, because all of it is shown to users."""

    spec: JobSpecView = field(default_factory=JobSpecView)
    status: dict[str, Any] = field(default_factory=dict)

    def condition(self, kind: str) -> dict[str, Any] | None:
        """A condition of the Job that is true."""
        for condition in self.status.get("conditions", []):
            if condition.get("type") == kind and condition.get("status") == "True":
                found: dict[str, Any] = condition
                return found
        return None

    def holds(self, kind: str) -> bool:
        """Whether a condition of the Job is true."""
        return self.condition(kind) is not None

    @property
    def finished(self) -> bool:
        """Whether the Job has ended, one way or the other."""
        return self.holds("Complete") or self.holds("Failed")


class Waiting(View, frozen=True, gc=False, kw_only=True):
    """Why a container does not run."""

    reason: Shared = ""
    message: str = ""


class Terminated(View, frozen=True, gc=False, kw_only=True):
    """How a container ended."""

    exit_code: int = 0
    reason: Shared = ""
    message: str = ""
    finished_at: str | None = None


class ContainerState(View, frozen=True, gc=False, kw_only=True):
    """At most one of the two; neither means that it runs, or is not known yet."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(View, frozen=True, gc=False, kw_only=True):
    """The state of one container."""

    name: Shared = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = field(default_factory=ContainerState)
    last_state: ContainerState = field(default_factory=ContainerState)


class PodCondition(View, frozen=True, gc=False, kw_only=True):
    """A condition of a pod."""

    type: Shared = ""
    status: Shared = ""
    reason: Shared = ""
    message: str = ""
    last_transition_time: Shared | None = None


class PodSpecView(View, frozen=True, gc=False, kw_only=True):
    """Where a pod runs."""

    node_name: Shared = ""


class PodStatusView(View, frozen=True, gc=False, kw_only=True):
    """How a pod is doing."""

    phase: Shared = "Pending"
    reason: Shared = ""
    message: str = ""
    conditions: list[PodCondition] = field(default_factory=list)
    init_container_statuses: list[ContainerStatus] = field(default_factory=list)
    container_statuses: list[ContainerStatus] = field(default_factory=list)


class PodView(ChildView, frozen=True, gc=False, kw_only=True):
    """A pod of the job; it belongs to the job, or to a Job or StatefulSet that does."""

    spec: PodSpecView = field(default_factory=PodSpecView)
    status: PodStatusView = field(default_factory=PodStatusView)

    @property
    def finished(self) -> bool:
        """Whether the pod has ended for good and holds nothing any more."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def active(self) -> bool:
        """Whether the pod holds resources; one that is being deleted still does."""
        return not self.finished

    @property
    def running(self) -> bool:
        """Whether the pod has begun to run, and is to go on."""
        return self.status.phase == "Running" and self.metadata.deletion_timestamp is None

    @property
    def ready(self) -> bool:
        """Whether the pod is ready, and is to stay."""
        return self.metadata.deletion_timestamp is None and any(
            condition.type == "Ready" and condition.status == "True"
            for condition in self.status.conditions
        )

    @property
    def restarts(self) -> int:
        """How often containers of this pod were started again."""
        statuses = (*self.status.init_container_statuses, *self.status.container_statuses)
        return sum(status.restart_count for status in statuses)


class ChildKey(NamedTuple):
    """Which object a child is, within the namespace of its job."""

    kind: str
    name: str


class Refusal(Struct, frozen=True):
    """The API did not let us write a child.

    Attributes:
        foreign: An object of that name exists and belongs to somebody else.
        permanent: The document itself is not valid; trying again cannot help.
        message: What the API said.
    """

    message: str
    foreign: bool = False
    permanent: bool = False


class Observed(Struct, frozen=True, kw_only=True):
    """All a plan may look at.

    Attributes:
        job: The training job as stored.
        children: Objects whose controller is this very job (by UID).
        pods: Pods whose controller is the job or one of the children.
        leftovers: Children of an earlier job of the same name, which garbage collection has not
            removed yet.
        refusals: Writes of this reconcile that the API refused.
        drifted: Children whose spec somebody else has changed since we wrote it.
    """

    job: CustomObject
    children: dict[ChildKey, ChildView] = field(default_factory=dict)
    pods: tuple[PodView, ...] = ()
    leftovers: frozenset[ChildKey] = frozenset()
    refusals: dict[ChildKey, Refusal] = field(default_factory=dict)
    drifted: frozenset[ChildKey] = frozenset()

    def child(self, key: ChildKey, view: type[AnyChild]) -> AnyChild | None:
        """A child that is there and belongs to the job."""
        found = self.children.get(key)
        return found if isinstance(found, view) else None


# -- planned ----------------------------------------------------------------------------------


class Patch(Struct, frozen=True, kw_only=True):
    """Replace parts of a child that exists: paths of top-level fields and their new values.

    Whole fields are replaced rather than merged, so that what a user removed from a template is
    gone, and what others wrote elsewhere in the object stays.
    """

    key: ChildKey
    namespace: str
    uid: str
    values: dict[tuple[str, ...], Any]
    """Path to value; a value of None removes the field."""


class Write(Struct, frozen=True, kw_only=True):
    """Make a child, or bring it up to date; writes of one stage may go out together."""

    create: dict[str, Any] | None = None
    patch: Patch | None = None


class Event(NamedTuple):
    """An event of the job, emitted once the status it tells of is stored."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Plan(Struct, kw_only=True):
    """What has to be done, in the order of the attributes.

    Attributes:
        spec: Merge patch with computed defaults to be stored in the job; None when there are none.
        stages: Writes of children; a stage begins when the one before has succeeded.
        delete: Children (and pods) to delete, with the UID each must have.
        status: The job's status as it should be; compared with the stored one before it is written.
        urgent: Whether the status may not wait for more changes to come together with it.
        events: Emitted after the status was stored.
        delete_job: The job itself has outlived its ``ttlSecondsAfterFinished``.
        look_again_after: Seconds until time alone changes something; None means never.
    """

    spec: dict[str, Any] | None = None
    stages: list[list[Write]] = field(default_factory=list)
    delete: dict[ChildKey, str] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    urgent: bool = False
    events: list[Event] = field(default_factory=list)
    delete_job: bool = False
    look_again_after: float | None = None

    @property
    def writes_children(self) -> bool:
        """Whether any child has to be written or deleted."""
        return bool(self.delete) or any(self.stages)
