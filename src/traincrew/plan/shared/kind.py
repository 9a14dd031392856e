"""The description of a kind, from which the operator, its RBAC rules and the CLI are derived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct

from traincrew.plan.shared.templates.accelerators import NO_ACCELERATORS, Accelerators
from traincrew.plan.shared.views import (
    BatchJobView,
    ChildView,
    ConfigMapView,
    ObservedPod,
    RoleBindingView,
    RoleView,
    StatefulSetView,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from traincrew.api import kind as api
    from traincrew.plan.shared.model import ChildKey, Decision, Event, ObjectKey, Observed
    from traincrew.plan.shared.reporting import Endpoint

Written = Literal["Create", "Delete"]


class Child(NamedTuple):
    """A resource that jobs have as children, and the view that plans have of its objects."""

    group: str
    version: str
    plural: str
    kind: str
    view: type[ChildView] = ChildView
    watched: bool = True
    """Whether the operator caches the objects. Others are only created; if that fails because an
    object of the name exists, it is read."""
    has_keys: bool = False
    """Whether one that is not watched is changed nevertheless, to rotate the keys in it."""


RBAC = "rbac.authorization.k8s.io"
NETWORKING = "networking.k8s.io"

SERVICE_ACCOUNTS = Child("", "v1", "serviceaccounts", "ServiceAccount")
SERVICES = Child("", "v1", "services", "Service")
SECRETS = Child("", "v1", "secrets", "Secret", watched=False, has_keys=True)
CLAIMS = Child("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", watched=False)
CONFIG_MAPS = Child("", "v1", "configmaps", "ConfigMap", ConfigMapView)
PODS = Child("", "v1", "pods", "Pod", ObservedPod)
ROLES = Child(RBAC, "v1", "roles", "Role", RoleView)
ROLE_BINDINGS = Child(RBAC, "v1", "rolebindings", "RoleBinding", RoleBindingView)
STATEFUL_SETS = Child("apps", "v1", "statefulsets", "StatefulSet", StatefulSetView)
JOBS = Child("batch", "v1", "jobs", "Job", BatchJobView)
POD_DISRUPTION_BUDGETS = Child("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
HORIZONTAL_POD_AUTOSCALERS = Child(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"
)
NETWORK_POLICIES = Child(NETWORKING, "v1", "networkpolicies", "NetworkPolicy")


class Reference(NamedTuple):
    """A resource of objects that jobs refer to."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True


class Protection(NamedTuple):
    """How objects that jobs refer to are protected: nobody deletes one that is in use.

    Attributes:
        finalizer: The finalizer of objects in use.
        named: Returns the object that a job with this ``spec``, which may be invalid, refers to.
    """

    finalizer: str
    named: Callable[[dict[str, Any]], ObjectKey | None]


def next_finalizers(
    finalizer: str, found: Sequence[str], *, used: bool, deleting: bool
) -> list[str] | None:
    """Return the finalizers that an object should have; None if it has them.

    An object that is not used keeps the finalizer until somebody deletes it: most are used again.

    Args:
        finalizer: The finalizer of objects in use.
        found: The finalizers of the object.
        used: Whether a job refers to the object.
        deleting: Whether somebody has deleted the object: it gets no finalizer any more.
    """
    if finalizer not in found:
        return [*found, finalizer] if used and not deleting else None
    if deleting and not used:
        return [each for each in found if each != finalizer]
    return None


class PodPlace(NamedTuple):
    """The place of a pod in its job.

    Attributes:
        role: Name of the role, as in ``status.replicaStatuses``.
        rank: Number of the pod within its role, from 0.
    """

    role: str
    rank: int = 0


def labelled_place(labels: Mapping[str, str]) -> PodPlace:
    """Return the place of a pod by the labels that most kinds of jobs have."""
    role = next(
        (value for key, value in labels.items() if key == "role" or key.endswith("/role")), ""
    )
    for key in ("apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index"):
        if labels.get(key, "").isdecimal():
            return PodPlace(role, int(labels[key]))
    return PodPlace(role)


def place_by(role: str, index: str) -> Callable[[Mapping[str, str]], PodPlace]:
    """Return a function that reads the place of a pod from these two labels."""

    def place(labels: Mapping[str, str]) -> PodPlace:
        number = labels.get(index, "")
        return PodPlace(labels.get(role, ""), int(number) if number.isdecimal() else 0)

    return place


def replicas_in(spec: object, default: int = 1) -> int:
    """Return ``replicas`` as written in a part of a spec that may be invalid."""
    given = spec.get("replicas") if isinstance(spec, dict) else None
    return given if isinstance(given, int) else default


class Permission(NamedTuple):
    """A rule of a role: verbs on a resource, subresources written ``pods/exec``."""

    group: str
    resource: str
    verbs: tuple[str, ...]


class Options(Struct, frozen=True, kw_only=True):
    """Settings of the operator that affect all jobs.

    Attributes:
        helper_image: Image of the init containers; has kubectl at /usr/local/bin/kubectl.
        git_image: Image of the init containers that fetch code; has git and ssh.
        accelerators: What containers that use an accelerator are given.
        endpoint: Where training programs report their progress; None for nowhere.
    """

    helper_image: str
    git_image: str
    accelerators: Accelerators = NO_ACCELERATORS
    endpoint: Endpoint | None = None


class PlannedKind(Struct, frozen=True, kw_only=True):
    """A kind of training job.

    Attributes:
        definition: Its definition at the API server.
        component: Source component of the events of its jobs.
        label: Label of children and pods whose value is the name of the job.
        selector: Selects the children and pods of all jobs; by default, those with the label.
        children: Resources of a job's children. Pods only if the kind creates them itself; they are
            watched anyway.
        deletes: Those of `children` that may have to be deleted before their job is.
        descendants: Resources whose objects belong to children, and own the pods.
        references: Resources of the objects that jobs refer to, and plans ask for.
        protection: How those objects are protected as long as a job refers to them; not at all by
            default.
        grants: Permissions of the pods of a job. The operator grants them, so it must hold them.
        plan: The decisions; see `traincrew.plan.shared.model`.
        written: Returns the events for children that were created or deleted, and for the job when
            its time to live is over; none by default.
        writes_spec: Whether the plan writes a field into the ``spec`` of jobs.
        expires: Whether jobs are deleted when their time to live is over; else their children are.
        mounts: Directories of containers in which the kind mounts volumes of its own.
        has_peers: Returns whether the pods of a job with this ``spec``, which may be invalid, need
            to find each other by name.
        roles: Returns the number of pods of each role that a job with this ``spec``, which may be
            invalid, asks for, in the order in which they are shown.
        place: Returns the place of a pod of a job with these labels.
        decides: The roles whose pods decide whether the job fails; all if empty. See
            `traincrew.plan.shared.failing`.
    """

    definition: api.Kind
    component: str
    label: str
    selector: str = ""
    children: tuple[Child, ...]
    deletes: tuple[Child, ...] = ()
    descendants: tuple[Child, ...] = ()
    references: tuple[Reference, ...] = ()
    protection: Protection | None = None
    grants: tuple[Permission, ...] = ()
    plan: Callable[[Observed, datetime, Options], Decision]
    written: Callable[[Written, Sequence[ChildKey]], list[Event]] = lambda _what, _keys: []
    writes_spec: bool = False
    expires: bool = True
    mounts: tuple[str, ...] = ()
    has_peers: Callable[[dict[str, Any]], bool] = lambda _spec: True
    roles: Callable[[dict[str, Any]], dict[str, int]] = lambda _spec: {}
    place: Callable[[Mapping[str, str]], PodPlace] = labelled_place
    decides: tuple[str, ...] = ()
