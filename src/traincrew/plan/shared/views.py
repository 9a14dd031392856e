"""Children and pods of a job as plans observe them: only what decisions depend on."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from msgspec import field

from traincrew.api.meta import SHARED, ObjectMeta, Shared, View


class ChildView(View, frozen=True, gc=False, kw_only=True):
    """A child of which only its existence matters: a ServiceAccount, a Service."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


AnyChild = TypeVar("AnyChild", bound=ChildView)


class PodGroupView(ChildView, frozen=True, gc=False, kw_only=True):
    """A PodGroup of any scheduler; both parts stay plain data, because each has other fields."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


class WorkloadView(ChildView, frozen=True, gc=False, kw_only=True):
    """A Workload of Kueue; both parts stay plain data, because they are compared and copied."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    """``metadata.finalizers``."""


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
    """The part of a StatefulSet's ``spec`` that others may change as well."""

    replicas: int = 1


class StatefulSetStatusView(View, frozen=True, gc=False, kw_only=True):
    """The number of pods of a StatefulSet, of ready ones, and its template revision."""

    observed_generation: int = 0
    update_revision: Shared = ""
    replicas: int = 0
    ready_replicas: int = 0


class StatefulSetView(ChildView, frozen=True, gc=False, kw_only=True):
    """A StatefulSet."""

    spec: StatefulSetSpecView = field(default_factory=StatefulSetSpecView)
    status: StatefulSetStatusView = field(default_factory=StatefulSetStatusView)

    @property
    def is_observed(self) -> bool:
        """Whether its controller has seen it as it is."""
        return self.status.observed_generation >= self.metadata.generation


class JobSpecView(View, frozen=True, gc=False, kw_only=True):
    """The mutable part of a Job's ``spec``."""

    suspend: bool = False
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None


class BatchJobView(ChildView, frozen=True, gc=False, kw_only=True):
    """A Job; its status stays plain data, because all of it is shown to users."""

    spec: JobSpecView = field(default_factory=JobSpecView)
    status: dict[str, Any] = field(default_factory=dict)

    def condition(self, kind: str) -> dict[str, Any] | None:
        """Return a condition of the Job if it is true."""
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
        """Whether the Job has completed or failed."""
        return self.holds("Complete") or self.holds("Failed")


class Waiting(View, frozen=True, gc=False, kw_only=True):
    """Why a container is waiting."""

    reason: Shared = ""
    message: str = ""


class Terminated(View, frozen=True, gc=False, kw_only=True):
    """How a container terminated."""

    exit_code: int = 0
    reason: Shared = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class Running(View, frozen=True, gc=False, kw_only=True):
    """Since when a container is running."""

    started_at: Shared | None = None


class ContainerState(View, frozen=True, gc=False, kw_only=True):
    """At most one of the three is set; none means that it is not known yet."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(View, frozen=True, gc=False, kw_only=True):
    """The state of one container."""

    name: Shared = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = field(default_factory=ContainerState)
    last_state: ContainerState = field(default_factory=ContainerState)

    @property
    def last_end(self) -> Terminated | None:
        """How it has ended last; None if it has not."""
        return self.state.terminated or self.last_state.terminated

    @property
    def has_run(self) -> bool:
        """Whether it was started; then it has a log."""
        return self.state.running is not None or self.last_end is not None or self.restart_count > 0

    @property
    def has_failed(self) -> bool:
        """Whether its last run has ended with another exit code than 0."""
        return self.last_end is not None and self.last_end.exit_code != 0


class PodCondition(View, frozen=True, gc=False, kw_only=True):
    """A condition of a pod."""

    type: Shared = ""
    status: Shared = ""
    reason: Shared = ""
    message: str = ""
    last_transition_time: Shared | None = None


class ContainerView(View, frozen=True, gc=False, kw_only=True):
    """A container as its pod asks for it; ``restartPolicy`` only init containers have."""

    name: Shared = ""
    restart_policy: Shared = ""


class NamedObject(View, frozen=True, gc=False, kw_only=True):
    """A Secret or ConfigMap that a volume shows."""

    name: Shared = ""
    secret_name: Shared = ""
    optional: bool = False


class Claim(View, frozen=True, gc=False, kw_only=True):
    """The claim of a volume."""

    claim_name: Shared = ""


class VolumeView(View, frozen=True, gc=False, kw_only=True):
    """The object that a volume of a pod needs, if it is one of these kinds."""

    secret: NamedObject | None = None
    config_map: NamedObject | None = None
    persistent_volume_claim: Claim | None = None

    @property
    def needed(self) -> str:
        """Kind and name of the object without which the pod does not start; empty if none."""
        if self.secret is not None and not self.secret.optional:
            return f"Secret {self.secret.secret_name}"
        if self.config_map is not None and not self.config_map.optional:
            return f"ConfigMap {self.config_map.name}"
        if self.persistent_volume_claim is not None:
            return f"PersistentVolumeClaim {self.persistent_volume_claim.claim_name}"
        return ""


class PodSpecView(View, frozen=True, gc=False, kw_only=True):
    """The part of a pod's spec by which it is placed, started and ended."""

    node_name: Shared = ""
    scheduler_name: Shared = ""
    containers: tuple[ContainerView, ...] = ()
    init_containers: tuple[ContainerView, ...] = ()
    volumes: tuple[VolumeView, ...] = ()
    restart_policy: Shared = "Always"
    active_deadline_seconds: int | None = None


class PodStatusView(View, frozen=True, gc=False, kw_only=True):
    """The status of a pod."""

    phase: Shared = "Pending"
    reason: Shared = ""
    message: str = ""
    conditions: Annotated[tuple[PodCondition, ...], SHARED] = ()
    init_container_statuses: Annotated[tuple[ContainerStatus, ...], SHARED] = ()
    container_statuses: Annotated[tuple[ContainerStatus, ...], SHARED] = ()


class ObservedPod(ChildView, frozen=True, gc=False, kw_only=True):
    """A pod of the job, owned by it or by its Job or StatefulSet."""

    spec: Annotated[PodSpecView, SHARED] = field(default_factory=PodSpecView)
    status: PodStatusView = field(default_factory=PodStatusView)

    @property
    def finished(self) -> bool:
        """Whether the pod has ended and holds no resources any more."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def active(self) -> bool:
        """Whether the pod holds resources; a terminating pod still does."""
        return not self.finished

    @property
    def running(self) -> bool:
        """Whether the pod is running and not terminating."""
        return self.status.phase == "Running" and self.metadata.deletion_timestamp is None

    def condition(self, kind: str) -> PodCondition | None:
        """Return a condition of the pod if it is true."""
        for condition in self.status.conditions:
            if condition.type == kind and condition.status == "True":
                return condition
        return None

    @property
    def ready(self) -> bool:
        """Whether the pod is ready and not terminating."""
        return self.metadata.deletion_timestamp is None and self.condition("Ready") is not None

    @property
    def restarts(self) -> int:
        """The number of restarts of this pod's containers."""
        statuses = (*self.status.init_container_statuses, *self.status.container_statuses)
        return sum(status.restart_count for status in statuses)
