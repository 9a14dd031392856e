"""The newest report of each job, and which jobs may be reported on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from prometheus_client.metrics_core import Metric

    from traincrew.api.meta import CustomObject
    from traincrew.engine.controller import Request
    from traincrew.engine.resources import Resource
    from traincrew.plan.shared.progress import ReportedProgress

_LABELS = ("kind", "namespace", "name")


class Target(NamedTuple):
    """A kind of jobs that reports are about.

    Attributes:
        resource: The kind.
        find: Returns a job that exists.
        owns: Returns whether a pod, by UID, is one of a job.
        enqueue: Requests a reconcile of a job.
    """

    resource: Resource
    find: Callable[[Request], CustomObject | None]
    owns: Callable[[CustomObject, str], bool]
    enqueue: Callable[[Request], None]


class _Entry(NamedTuple):
    uid: str
    progress: ReportedProgress


class Reports:
    """Keeps the newest report of each job, in memory: the plan decides what is stored.

    Args:
        metrics: Names of reported metrics that are shown to Prometheus as well.
    """

    def __init__(self, metrics: Collection[str] = ()) -> None:
        self._metrics = frozenset(metrics)
        self._targets: dict[tuple[str, str, str], Target] = {}
        self._newest: dict[tuple[Resource, Request], _Entry] = {}

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
        self._newest[target.resource, request] = _Entry(job.metadata.uid, progress)
        target.enqueue(request)

    def newest(
        self, resource: Resource, request: Request, job: CustomObject
    ) -> ReportedProgress | None:
        """Return the newest report of this very job."""
        found = self._newest.get((resource, request))
        return found.progress if found is not None and found.uid == job.metadata.uid else None

    def forget(self, resource: Resource, request: Request) -> None:
        """Drop the report of a job that does not exist any more."""
        self._newest.pop((resource, request), None)

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
        for (resource, request), entry in self._newest.items():
            labels = (resource.kind, request.namespace or "", request.name)
            progress = entry.progress
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
