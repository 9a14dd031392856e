"""The description of a kind, from which the operator, its RBAC rules and the CLI are derived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct

from traincrew.plan.shared.accelerators import NO_ACCELERATORS, Accelerators
from traincrew.plan.shared.model import (
    ChildView,
    ConfigMapView,
    JobView,
    PodView,
    RoleBindingView,
    RoleView,
    StatefulSetView,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from traincrew.api import kind as api
    from traincrew.plan.shared.model import ChildKey, Event, Observed, Plan

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
    object of the name exists, it is read, and changed only to rotate the keys in it."""


RBAC = "rbac.authorization.k8s.io"
NETWORKING = "networking.k8s.io"

SERVICE_ACCOUNTS = Child("", "v1", "serviceaccounts", "ServiceAccount")
SERVICES = Child("", "v1", "services", "Service")
SECRETS = Child("", "v1", "secrets", "Secret", watched=False)
CONFIG_MAPS = Child("", "v1", "configmaps", "ConfigMap", ConfigMapView)
PODS = Child("", "v1", "pods", "Pod", PodView)
ROLES = Child(RBAC, "v1", "roles", "Role", RoleView)
ROLE_BINDINGS = Child(RBAC, "v1", "rolebindings", "RoleBinding", RoleBindingView)
STATEFUL_SETS = Child("apps", "v1", "statefulsets", "StatefulSet", StatefulSetView)
JOBS = Child("batch", "v1", "jobs", "Job", JobView)
POD_DISRUPTION_BUDGETS = Child("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NETWORK_POLICIES = Child(NETWORKING, "v1", "networkpolicies", "NetworkPolicy")


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
    """

    helper_image: str
    git_image: str
    accelerators: Accelerators = NO_ACCELERATORS


class Kind(Struct, frozen=True, kw_only=True):
    """A kind of training job.

    Attributes:
        definition: Its definition at the API server.
        component: Source component of the events of its jobs.
        label: Label of children and pods whose value is the name of the job.
        selector: Selects the children and pods of all jobs; by default, those with the label.
        children: Resources of a job's children. Pods only if the kind creates them itself; they are
            watched anyway.
        deletes: Those of `children` that may have to be deleted before their job is.
        grants: Permissions of the pods of a job. The operator grants them, so it must hold them.
        plan: The decisions; see `traincrew.plan.shared.model`.
        written: Returns the events for children that were created or deleted, and for the job when
            its time to live is over; none by default.
        completes: Whether the plan stores computed defaults in the ``spec`` of jobs.
        mounts: Directories of containers in which the kind mounts volumes of its own.
        has_peers: Returns whether the pods of a job with this ``spec``, which may be invalid, need
            to find each other by name.
    """

    definition: api.Kind
    component: str
    label: str
    selector: str = ""
    children: tuple[Child, ...]
    deletes: tuple[Child, ...] = ()
    grants: tuple[Permission, ...] = ()
    plan: Callable[[Observed, datetime, Options], Plan]
    written: Callable[[Written, Sequence[ChildKey]], list[Event]] = lambda _what, _keys: []
    completes: bool = True
    mounts: tuple[str, ...] = ()
    has_peers: Callable[[dict[str, Any]], bool] = lambda _spec: True
