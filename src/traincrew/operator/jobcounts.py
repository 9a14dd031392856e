"""The number of jobs in each phase, as a metric: read from the caches when it is scraped."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from traincrew.engine.cache import Store

NAME = "traincrew_jobs"
LABELS = ("kind", "namespace", "phase")
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
        """Yield the gauge. A phase that no job is in has no series."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        family = GaugeMetricFamily(NAME, "Training jobs in each phase", labels=LABELS)
        counts = Counter(
            (kind, job.metadata.namespace, str(job.status.get("phase") or _UNKNOWN))
            for kind, store in self._stores
            for job in store.list()
        )
        for labels, count in sorted(counts.items()):
            family.add_metric(labels, count)
        yield family
