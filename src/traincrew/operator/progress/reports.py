"""The newest report of each job, and which jobs may be reported on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from traincrew.operator.progress.positions import Positions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import datetime

    from prometheus_client.metrics_core import Metric

    from traincrew.api.meta import CustomObject
    from traincrew.engine.controller import Request
    from traincrew.engine.resources import Resource
    from traincrew.operator.progress.protocol import RankReport
    from traincrew.plan.shared.progress import ReportedProgress
    from traincrew.plan.shared.ranks import Position

_LABELS = ("kind", "namespace", "name")
POSITIONS_SECONDS = 10.0
"""Seconds after which a position has its job reconciled, if nothing else has."""


class Enqueue(Protocol):
    """Requests a reconcile of a job, not before so many seconds have passed."""

    def __call__(self, request: Request, *, after: float = 0.0) -> None:
        """Request it."""


class Target(NamedTuple):
    """A kind of jobs that reports are about.

    Attributes:
        resource: The kind.
        find: Returns a job that exists.
        pod: Returns the name of a pod of a job by its UID; None if it is none of its pods.
        enqueue: Requests a reconcile of a job.
    """

    resource: Resource
    find: Callable[[Request], CustomObject | None]
    pod: Callable[[CustomObject, str], str | None]
    enqueue: Enqueue


class _Reported:
    """What one job has reported.

    Args:
        uid: UID of the job, because a later one may have its name.
    """

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.newest: ReportedProgress | None = None
        self.positions = Positions()


class Reports:
    """Keeps the newest report of each job, in memory: the plan decides what is stored.

    Args:
        metrics: Names of reported metrics that are shown to Prometheus as well.
    """

    def __init__(self, metrics: Collection[str] = ()) -> None:
        self._metrics = frozenset(metrics)
        self._targets: dict[tuple[str, str, str], Target] = {}
        self._jobs: dict[tuple[Resource, Request], _Reported] = {}

    def add(self, target: Target) -> None:
        """Accept reports about the jobs of a kind."""
        resource = target.resource
        self._targets[resource.group, resource.version, resource.plural] = target

    def target(self, group: str, version: str, plural: str) -> Target | None:
        """Return a kind; None if its jobs are not reported on."""
        return self._targets.get((group, version, plural))

    def put(
        self, target: Target, request: Request, job: CustomObject, progress: ReportedProgress
    ) -> None:
        """Keep a report of a job, and have the job reconciled."""
        found = self._found(target.resource, request, job)
        found.newest = progress
        self._jobs[target.resource, request] = found
        target.enqueue(request)

    def put_rank(
        self,
        target: Target,
        request: Request,
        job: CustomObject,
        report: RankReport,
        *,
        pod: tuple[str, str],
        now: datetime,
    ) -> None:
        """Keep the position of a rank, and have the job reconciled some time.

        Args:
            target: The kind.
            request: The job.
            job: The same.
            report: The position.
            pod: Name and UID of the pod that reports it.
            now: When.

        Raises:
            TooManyReportsError: It is not kept.
        """
        found = self._found(target.resource, request, job)
        found.positions.add(report, *pod, now)
        self._jobs[target.resource, request] = found
        target.enqueue(request, after=POSITIONS_SECONDS)

    def positions(
        self, resource: Resource, request: Request, job: CustomObject
    ) -> tuple[Position, ...]:
        """Return the positions of the ranks of this very job."""
        return self._found(resource, request, job).positions.all()

    def newest(
        self, resource: Resource, request: Request, job: CustomObject
    ) -> ReportedProgress | None:
        """Return the newest report of this very job."""
        return self._found(resource, request, job).newest

    def forget(self, resource: Resource, request: Request) -> None:
        """Drop the reports of a job that does not exist any more."""
        self._jobs.pop((resource, request), None)

    def clear(self) -> None:
        """Drop all reports: from now on, programs report to another process, or report again."""
        self._jobs.clear()

    def _found(self, resource: Resource, request: Request, job: CustomObject) -> _Reported:
        """Return what this very job has reported, not what an earlier one of its name has."""
        found = self._jobs.get((resource, request))
        uid = job.metadata.uid
        return found if found is not None and found.uid == uid else _Reported(uid)

    def collect(self) -> Iterator[Metric]:
        """Convert for prometheus-client: one series for each job that reports, and metric."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        percentage = GaugeMetricFamily(
            "traincrew_job_progress_percentage",
            "How much of a training job is done, as its program reported",
            labels=_LABELS,
        )
        remaining = GaugeMetricFamily(
            "traincrew_job_estimated_remaining_seconds",
            "Time left of a training job, as its program reported",
            labels=_LABELS,
        )
        values = GaugeMetricFamily(
            "traincrew_job_metric",
            "Metrics of a training job, as its program reported",
            labels=(*_LABELS, "metric"),
        )
        for (resource, request), found in self._jobs.items():
            labels = (resource.kind, request.namespace or "", request.name)
            progress = found.newest
            if progress is None:
                continue
            if progress.percentage is not None:
                percentage.add_metric(labels, progress.percentage)
            if progress.estimated_remaining_seconds is not None:
                remaining.add_metric(labels, progress.estimated_remaining_seconds)
            for metric in progress.metrics:
                if metric.name in self._metrics and (value := _number(metric.value)) is not None:
                    values.add_metric((*labels, metric.name), value)
        yield from (percentage, remaining, values)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
