"""The kinds of jobs that are shown: those of the plans, and those that only others run. Pure.

A view needs less of a kind than the operator does: its names, its reasons, and which pods belong to
which role. `JobKind` is that part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from traincrew.api.kind import Manager, Project
from traincrew.api.reasons import Cause, Reasons
from traincrew.plan.kinds import KINDS
from traincrew.plan.shared.kind import PodPlace, labelled_place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["BATCH_JOB", "RAY_JOB", "JobKind", "OtherKind", "shown"]


class Names(Protocol):
    """What a kind is called, its reasons, and who runs its jobs: see `traincrew.api.kind.Kind`."""

    # ruff: noqa: D102 - the attributes are those of `Kind` and `PlannedKind`
    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def short_names(self) -> tuple[str, ...]: ...
    @property
    def api_version(self) -> str: ...
    @property
    def reasons(self) -> Reasons: ...
    @property
    def manager(self) -> Manager: ...
    @property
    def project(self) -> Project | None: ...


class JobKind(Protocol):
    """A kind of jobs as views know it; `traincrew.plan.shared.kind.PlannedKind` has all of it."""

    @property
    def definition(self) -> Names: ...
    @property
    def label(self) -> str: ...
    @property
    def selector(self) -> str: ...
    @property
    def roles(self) -> Callable[[dict[str, Any]], dict[str, int]]: ...
    @property
    def place(self) -> Callable[[Mapping[str, str]], PodPlace]: ...
    @property
    def decides(self) -> tuple[str, ...]: ...


class OtherNames(Struct, frozen=True, kw_only=True):
    """The names of a kind that this project does not run."""

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    reasons: Reasons = Reasons()
    manager: Manager = Manager()
    project: Project | None = None

    @property
    def api_version(self) -> str:
        """Group and version as in manifests."""
        return f"{self.group}/{self.version}"


class OtherKind(Struct, frozen=True, kw_only=True):
    """A kind that this project shows and does not run.

    Attributes:
        definition: Its names.
        label: Label of its pods whose value is the name of the job.
        roles: Returns the number of pods of each role that a ``spec`` asks for.
        place: Returns the place of a pod with these labels.
    """

    definition: OtherNames
    label: str
    selector: str = ""
    roles: Callable[[dict[str, Any]], dict[str, int]]
    place: Callable[[Mapping[str, str]], PodPlace] = labelled_place
    decides: tuple[str, ...] = ()


_JOB_NAME = "batch.kubernetes.io/job-name"
_POD, _SUBMITTER = "pod", "submitter"


def _of(role: str) -> Callable[[Mapping[str, str]], PodPlace]:
    """Return a function that gives all pods one role, and the completion index as their rank."""
    return lambda labels: labelled_place(labels)._replace(role=role)


def _number(found: object, default: int) -> int:
    return found if isinstance(found, int) else default


def _batch_roles(spec: dict[str, Any]) -> dict[str, int]:
    at_once = _number(spec.get("parallelism"), 1)
    return {_POD: min(at_once, _number(spec.get("completions"), at_once))}


BATCH_JOB = OtherKind(
    definition=OtherNames(group="batch", version="v1", kind="Job", plural="jobs"),
    label=_JOB_NAME,
    roles=_batch_roles,
    place=_of(_POD),
)
"""A Job of Kubernetes. Its pods have an index if it has ``completionMode: Indexed``."""
RAY_JOB = OtherKind(
    definition=OtherNames(
        group="ray.io",
        version="v1",
        kind="RayJob",
        plural="rayjobs",
        reasons=Reasons(
            {
                Cause.INVALID: "ValidationFailed",
                Cause.PROGRAM: "AppFailed",
            }
        ),
        manager=Manager(here="ray.io/kuberay-operator"),
        project=Project(name="KubeRay", deployments="app.kubernetes.io/name=kuberay-operator"),
    ),
    label=_JOB_NAME,
    roles=lambda _spec: {_SUBMITTER: 1},
    place=_of(_SUBMITTER),
)
"""A RayJob of KubeRay. Its pod is that of the Job that submits it, whose log has the output of the
program; the pods of the RayCluster are not shown."""


def shown() -> tuple[JobKind, ...]:
    """Return the kinds of training jobs, those of the plans first."""
    return (*KINDS, RAY_JOB)
