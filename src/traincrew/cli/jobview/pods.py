"""The pods of a job: what is known of each, its role and rank, and which one explains a failure.

The same for every view, and pure. Role and rank are those of the job's kind, and which pod explains
a failure is the rule of the plans, `traincrew.plan.shared.failing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.display.podstates import PodState, pod_state
from traincrew.cli.display.states import RUNNING
from traincrew.cli.jobview.failures import Failure, failure_of
from traincrew.cli.jobview.kinds import shown
from traincrew.engine.objects import controller_of
from traincrew.plan.shared import failing
from traincrew.plan.shared.kind import PodPlace, labelled_place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.cli.display.objects import Job, Pod, Workload
    from traincrew.cli.jobview.kinds import JobKind

__all__ = [
    "KnownPod",
    "Role",
    "by_role",
    "explaining",
    "is_running",
    "kind_of",
    "known",
    "place_of",
]

_KINDS = {(kind.definition.api_version, kind.definition.kind): kind for kind in shown()}


class KnownPod(NamedTuple):
    """What is known of a pod.

    Attributes:
        pod: Its last state.
        state: The same in plain words.
        failure: How it has failed last, also if it runs again, is being deleted or is gone.
        gone: Whether it has been deleted.
    """

    pod: Pod
    state: PodState
    failure: Failure | None = None
    gone: bool = False


class Role(NamedTuple):
    """The pods of one role.

    Attributes:
        desired: How many the job asks for.
        pods: Those that are known, with their places.
    """

    desired: int
    pods: list[tuple[PodPlace, KnownPod]]


def known(pod: Pod, before: KnownPod | None = None, *, gone: bool = False) -> KnownPod:
    """Return what is known of a pod.

    Args:
        pod: Its state; when it is gone, the last one.
        before: What was known before.
        gone: Whether it has been deleted.
    """
    failure = failure_of(pod) or (before.failure if before is not None else None)
    return KnownPod(pod, pod_state(pod), failure, gone)


def is_running(one: KnownPod) -> bool:
    """Return whether a pod runs, as far as is known."""
    return not one.gone and one.state.word == RUNNING.word


def kind_of(job: Job) -> JobKind | None:
    """Return the kind of a training job; None for a Job, a Pod and other objects."""
    return _KINDS.get((job.api_version, job.kind))


def place_of(kind: JobKind | None, pod: Pod) -> PodPlace:
    """Return role and rank of a pod, as its kind has them."""
    return (labelled_place if kind is None else kind.place)(pod.metadata.labels)


def by_role(
    kind: JobKind | None,
    job: Job,
    pods: Iterable[KnownPod],
    children: Iterable[Workload] = (),
) -> dict[str, Role]:
    """Return the pods of a job by role.

    Args:
        kind: Its kind; None for a Job, a Pod and other objects: what owns a pod is its role then.
        job: The job.
        pods: Its pods, in the order in which a role has them.
        children: Its Jobs and StatefulSets, which only objects without a kind need.
    """
    if kind is not None:
        found = {name: Role(desired, []) for name, desired in kind.roles(job.spec).items()}
        for one in pods:
            place = kind.place(one.pod.metadata.labels)
            if place.role not in found:
                found[place.role] = Role(0, [])
            found[place.role].pods.append((place, one))
        return found
    uid, beginning = job.metadata.uid, f"{job.metadata.name}-"
    found = {}
    for child in children:
        owner = controller_of(child)
        if owner is not None and owner.uid == uid:
            found[child.metadata.name.removeprefix(beginning)] = Role(child.wanted, [])
    for one in pods:
        owner = controller_of(one.pod)
        of_child = owner is not None and owner.uid != uid
        name = owner.name if owner is not None and of_child else one.pod.metadata.name
        label = name.removeprefix(beginning)
        role = found.get(label, Role(1, []))
        role.pods.append((PodPlace(label, len(role.pods)), one))
        found[label] = role._replace(desired=max(role.desired, 1))
    return found


def explaining(kind: JobKind | None, job: Job, pods: Iterable[KnownPod]) -> KnownPod | None:
    """Return the pod that explains why a job has failed; None if none does.

    Args:
        kind: Its kind; None for a Job, a Pod and other objects.
        job: The job.
        pods: Its pods; of those that were created in the same second, the newer ones last.
    """
    pods = sorted(pods, key=lambda one: one.pod.metadata.creation_timestamp)
    said = job.status.true("Failed") or job.status
    by_name = {one.pod.metadata.name: one for one in pods}
    name = failing.named(said.message, by_name)
    if name is not None:
        return by_name[name]
    failed = []
    for one in pods:
        if one.failure is not None:
            place = place_of(kind, one.pod)
            created = one.pod.metadata.creation_timestamp
            ended = one.failure.at or failing.UNKNOWN
            failed.append(failing.Failed(one, *place, created, ended))
    return failing.explaining(failed, kind.decides if kind is not None else ())
