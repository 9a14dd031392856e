"""The view model: what is shown of one job, and how it is derived from API objects.

All texts are printable: a program, a message of an event or a name cannot change the terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from traincrew.cli.display.programs import program
from traincrew.cli.display.states import DELETED, NOT_SEEN
from traincrew.cli.display.text import one_line
from traincrew.cli.jobview.behind import behind
from traincrew.cli.jobview.events import Warned, event_filter, warnings_about
from traincrew.cli.jobview.jobstate import job_state, ready_pods
from traincrew.cli.jobview.pods import by_role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traincrew.cli.display.objects import Event, Job, Ranks, Workload
    from traincrew.cli.jobview.kinds import JobKind
    from traincrew.cli.jobview.pods import KnownPod

__all__ = [
    "Condition",
    "JobSummary",
    "JobView",
    "PodView",
    "RankView",
    "RanksView",
    "Reported",
    "RoleView",
    "summary",
    "view",
]


class Plain(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the model: frozen, with the field names of the API in JSON."""


class JobSummary(Plain, frozen=True, kw_only=True):
    """One job of a list.

    Attributes:
        kind: Its kind.
        api_version: Group and version.
        namespace: Its namespace.
        name: Its name.
        phase: Its phase; ``Pending`` while no operator has seen it.
        ready: Number of ready pods.
        desired: Number of pods that its spec asks for.
        restarts: Number of restarts of its pods and containers.
        percentage: How much of the training is done, if its program has reported it.
        remaining_seconds: How long it will still take, if its program has reported it.
        created_at: Creation time, RFC 3339.
        started_at: Start of this execution, if it has started.
        ended_at: Its end, if it has ended.
        reason: Reason of the phase, one word.
        message: The same for people.
        warning: Why a running job does not advance, reason and message; empty if it does, or if
            nothing says so.
    """

    kind: str
    api_version: str
    namespace: str
    name: str
    phase: str
    ready: int
    desired: int
    restarts: int
    percentage: int | None
    remaining_seconds: int | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    reason: str
    message: str
    warning: str


class Condition(Plain, frozen=True, kw_only=True):
    """A condition, with the time of its last transition."""

    type: str
    status: str
    reason: str
    message: str
    since: str | None


class PodView(Plain, frozen=True, kw_only=True):
    """One pod: an attempt of one place of a job.

    Attributes:
        name: Its name.
        uid: Its UID.
        rank: Its number within the role, from 0.
        attempt: 1 for the first pod of this place that still exists, 2 for the next one.
        node: Name of its node, if it has one.
        state: Its state in a few plain words (`traincrew.cli.display.podstates.pod_state`).
        detail: The reason as reported by the cluster, or empty.
        tone: ``good``, ``busy``, ``bad`` or ``plain``.
        ready: Whether it is ready.
        restarts: Number of restarts of its containers.
        started_at: When its first container started, if known.
        ended_at: When its last container ended, if all have.
        exit_code: The exit code of its program, if that has ended.
        behind: How far its rank is, if that is the one that the others wait for; else empty.
    """

    name: str
    uid: str
    rank: int
    attempt: int
    node: str
    state: str
    detail: str
    tone: str
    ready: bool
    restarts: int
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    behind: str


class RoleView(Plain, frozen=True, kw_only=True):
    """The pods of one role, by rank and attempt."""

    name: str
    desired: int
    ready: int
    pods: tuple[PodView, ...]


class RankView(Plain, frozen=True, kw_only=True):
    """How far one rank is.

    Attributes:
        rank: Its number in the training, from 0.
        pod: Name of its pod.
        percentage: How much of its work is done.
        advanced_at: When it has last advanced, if that is known.
    """

    rank: int
    pod: str
    percentage: float
    advanced_at: str | None


class RanksView(Plain, frozen=True, kw_only=True):
    """How far the ranks are: their number, their median, and the slowest of them."""

    count: int
    median: float
    slowest: tuple[RankView, ...]


class Reported(Plain, frozen=True, kw_only=True):
    """The last report of the training program.

    Attributes:
        percentage: How much of the training is done, if reported.
        remaining_seconds: How long it will still take, if reported.
        metrics: Values by name, as it wrote them.
        at: When the operator got the report.
        advanced_at: When a report has last advanced, if that is known.
        ranks: How far the ranks are, if they report it.
    """

    percentage: int | None
    remaining_seconds: int | None
    metrics: dict[str, str]
    at: str
    advanced_at: str | None
    ranks: RanksView | None


class JobView(Plain, frozen=True, kw_only=True):
    """Everything that is shown of one job."""

    job: JobSummary
    progress: Reported | None
    conditions: tuple[Condition, ...]
    roles: tuple[RoleView, ...]
    warnings: tuple[Warned, ...]


def summary(kind: JobKind, job: Job) -> JobSummary:
    """Return a job as a row of a list."""
    status, metadata, progress = job.status, job.metadata, job.status.progress
    state = job_state(job)
    return JobSummary(
        kind=kind.definition.kind,
        api_version=kind.definition.api_version,
        namespace=metadata.namespace,
        name=metadata.name,
        phase=state.phase or NOT_SEEN,
        ready=ready_pods(kind, job),
        desired=sum(kind.roles(job.spec).values()),
        restarts=status.restarts,
        percentage=None if progress is None else progress.percentage,
        remaining_seconds=None if progress is None else progress.estimated_remaining_seconds,
        created_at=metadata.creation_timestamp,
        started_at=status.start_time,
        ended_at=status.ended_at,
        reason=state.reason,
        message=state.message,
        warning=state.warning,
    )


def view(
    kind: JobKind,
    job: Job,
    pods: Sequence[KnownPod],
    events: Iterable[Event] = (),
    children: Iterable[Workload] = (),
) -> JobView:
    """Return the model of a job.

    Args:
        kind: Its kind.
        job: The job.
        pods: Its pods, in any order, those that are gone as far as somebody remembers them.
        events: Events of its namespace; those about others are left out.
        children: Its Jobs and StatefulSets, as far as they are known.
    """
    conditions = tuple(
        Condition(
            type=one.type,
            status=one.status,
            reason=one_line(one.reason),
            message=one_line(one.message),
            since=one.last_transition_time,
        )
        for one in job.status.conditions
    )
    short = summary(kind, job)
    return JobView(
        job=short,
        progress=_reported(job),
        conditions=conditions,
        roles=_roles(kind, job, pods),
        warnings=warnings_about(event_filter(job, [one.pod for one in pods], children), events),
    )


def _reported(job: Job) -> Reported | None:
    progress = job.status.progress
    if progress is None:
        return None
    return Reported(
        percentage=progress.percentage,
        remaining_seconds=progress.estimated_remaining_seconds,
        metrics={one_line(one.name): one_line(one.value) for one in progress.metrics},
        at=progress.last_update_time,
        advanced_at=progress.last_advance_time or None,
        ranks=_ranks(progress.ranks) if progress.ranks is not None else None,
    )


def _ranks(ranks: Ranks) -> RanksView:
    return RanksView(
        count=ranks.count,
        median=ranks.median,
        slowest=tuple(
            RankView(
                rank=one.rank,
                pod=one_line(one.pod),
                percentage=one.percentage,
                advanced_at=one.last_advance_time or None,
            )
            for one in ranks.slowest
        ),
    )


def _roles(kind: JobKind, job: Job, pods: Sequence[KnownPod]) -> tuple[RoleView, ...]:
    ordered = sorted(pods, key=_age)
    late = behind(job)
    # Of those of this name, the newest.
    named = [one for one in ordered if late is not None and one.pod.metadata.name == late.pod]
    roles = []
    for name, role in by_role(kind, job, ordered).items():
        attempts: dict[int, int] = {}
        views = []
        for place, one in role.pods:
            attempts[place.rank] = attempts.get(place.rank, 0) + 1
            words = late.words if late is not None and named and one is named[-1] else ""
            views.append(_pod(one, place.rank, attempts[place.rank], words))
        views.sort(key=lambda one: (one.rank, one.attempt))
        ready = sum(one.ready for one in views)
        roles.append(RoleView(name=name, desired=role.desired, ready=ready, pods=tuple(views)))
    return tuple(roles)


def _age(one: KnownPod) -> tuple[str, str]:
    return one.pod.metadata.creation_timestamp, one.pod.metadata.name


def _pod(one: KnownPod, rank: int, attempt: int, words: str) -> PodView:
    pod, state, status = one.pod, one.state, one.pod.status
    starts, ends = [], []
    own = program(pod)
    for container in status.container_statuses:
        running, ended = container.state.running, container.state.terminated
        if running is not None and running.started_at:
            starts.append(running.started_at)
        if ended is not None:
            starts += [ended.started_at] if ended.started_at else []
            ends += [ended.finished_at] if ended.finished_at else []
    end = own.state.terminated if own is not None else None
    done = [one for one in status.container_statuses if one.state.terminated is not None]
    finished = bool(done) and len(done) == len(pod.spec.containers)
    shown = PodView(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        rank=rank,
        attempt=attempt,
        node=pod.spec.node_name,
        state=one_line(state.word),
        detail=one_line(state.detail),
        tone=state.tone,
        ready=status.true("Ready") is not None,
        restarts=status.restarts,
        started_at=min(starts, default=None),
        ended_at=max(ends, default=None) if finished else None,
        exit_code=end.exit_code if end is not None else None,
        behind=words,
    )
    if not one.gone:
        return shown
    return structs.replace(
        shown,
        state=DELETED.word,
        tone=DELETED.sign.tone,
        ready=False,
        detail=shown.state,
        behind="",
    )
