"""The number of jobs in each phase, as a metric: read from the caches when it is scraped.

And of those whose program reports, but does not advance, or has a rank that is behind.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from traincrew.plan.shared.lifecycle import PROGRESSING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from traincrew.engine.cache import Store

NAME = "traincrew_jobs"
LABELS = ("kind", "namespace", "phase")
NOT_PROGRESSING = "traincrew_jobs_not_progressing"
REASON_LABELS = ("kind", "namespace", "reason")
_UNKNOWN = "Pending"
"""Phase of a job without a status: the operator has not written one yet."""


class JobCounts:
    """Counts the jobs of all kinds; a collector of prometheus-client."""

    def __init__(self) -> None:
        self._stores: list[tuple[str, Store[Any]]] = []

    def add(self, kind: str, store: Store[Any]) -> None:
        """Count the jobs of a cache; several caches may have jobs of one kind."""
        self._stores.append((kind, store))

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges. A phase or reason that no job has, has no series."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        family = GaugeMetricFamily(NAME, "Training jobs in each phase", labels=LABELS)
        stalled = GaugeMetricFamily(
            NOT_PROGRESSING,
            "Running training jobs whose condition Progressing is false",
            labels=REASON_LABELS,
        )
        counts: Counter[tuple[str, str, str]] = Counter()
        reasons: Counter[tuple[str, str, str]] = Counter()
        for kind, store in self._stores:
            for job in store.list():
                namespace, status = job.metadata.namespace, job.status
                counts[kind, namespace, str(status.get("phase") or _UNKNOWN)] += 1
                if reason := _not_progressing(status):
                    reasons[kind, namespace, reason] += 1
        for gauge, found in ((family, counts), (stalled, reasons)):
            for labels, count in sorted(found.items()):
                gauge.add_metric(labels, count)
            yield gauge


def _not_progressing(status: Mapping[str, Any]) -> str:
    """Return why a job does not progress; empty if it does, or if nothing is known of it."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == PROGRESSING and condition.get("status") == "False":
            return str(condition.get("reason", ""))
    return ""
