"""Metrics under the names that dashboards for controller-runtime and client-go already use.

The hot path only adds to plain numbers. ``prometheus-client`` is imported when the metrics are
first scraped, so that a one-shot run never pays for it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    class Collector(Protocol):
        """Yields metrics when they are scraped, as collectors of prometheus-client do."""

        def collect(self) -> Iterable[Metric]:
            """Yield the metrics."""
            ...


Labels = tuple[str, ...]

# Of controller-runtime's internal/controller/metrics and of its workqueue metrics.
_RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_QUEUE_BUCKETS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)


class Number:
    """One time series: a number that is added to, or set."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        """Add."""
        self.value += amount

    def set(self, value: float) -> None:
        """Set the value; for gauges."""
        self.value = value


class Family:
    """A counter or gauge with its time series, one per combination of label values."""

    def __init__(
        self, kind: Literal["counter", "gauge"], name: str, text: str, labels: Sequence[str]
    ) -> None:
        self.kind = kind
        self.name = name
        self.text = text
        self.label_names = tuple(labels)
        self._series: dict[Labels, Number] = {}
        self._computed: dict[Labels, Callable[[], float]] = {}

    def labels(self, *values: str) -> Number:
        """Return the series of these label values; keep the result where it is used often."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = Number()
        return series

    def inc(self, values: Labels, amount: float = 1.0) -> None:
        """Add to the series of these label values."""
        self.labels(*values).inc(amount)

    def compute(self, values: Labels, function: Callable[[], float]) -> None:
        """Compute the series whenever it is read; for gauges."""
        self._computed[values] = function

    def value(self, *values: str) -> float:
        """Return the current value of a series; 0 if there is none."""
        if values in self._computed:
            return self._computed[values]()
        series = self._series.get(values)
        return series.value if series else 0.0

    def collect(self) -> Iterator[Metric]:
        """Convert for prometheus-client."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        kind = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = kind(self.name, self.text, labels=self.label_names)
        for values in self._series | self._computed:
            family.add_metric(values, self.value(*values))
        yield family


class Distribution:
    """One histogram time series."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class Histogram:
    """A histogram with its time series."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self.name = name
        self.text = text
        self.label_names = tuple(labels)
        self._bounds = tuple(bounds)
        self._series: dict[Labels, Distribution] = {}

    def labels(self, *values: str) -> Distribution:
        """Return the series of these label values; keep the result where it is used often."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = Distribution(self._bounds)
        return series

    def count(self, *values: str) -> int:
        """Return the number of observations; 0 if there is no such series."""
        series = self._series.get(values)
        return sum(series.counts) if series else 0

    def collect(self) -> Iterator[Metric]:
        """Convert for prometheus-client."""
        from prometheus_client.metrics_core import HistogramMetricFamily

        family = HistogramMetricFamily(self.name, self.text, labels=self.label_names)
        for values, series in self._series.items():
            buckets: list[tuple[str, float]] = []
            running = 0
            for bound, count in zip((*self._bounds, None), series.counts, strict=True):
                running += count
                buckets.append(("+Inf" if bound is None else repr(bound), running))
            family.add_metric(values, buckets=buckets, sum_value=series.total)
        yield family


class Metrics:
    """All metrics of one `Manager`; nothing is global, so several can live in one process."""

    def __init__(self) -> None:
        # Over 60 lines: a table of the metrics.
        controller = ["controller"]
        queue = ["name"]
        self.reconciles = Family(
            "counter",
            "controller_runtime_reconcile_total",
            "Reconciles by controller and result: success, error, requeue_after, terminal_error",
            ["controller", "result"],
        )
        self.reconcile_errors = Family(
            "counter",
            "controller_runtime_reconcile_errors_total",
            "Reconciles that failed",
            controller,
        )
        self.terminal_errors = Family(
            "counter",
            "controller_runtime_terminal_reconcile_errors_total",
            "Reconciles that failed and are not retried",
            controller,
        )
        self.reconcile_time = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a reconcile",
            controller,
            _RECONCILE_BUCKETS,
        )
        self.active_workers = Family(
            "gauge", "controller_runtime_active_workers", "Workers reconciling now", controller
        )
        self.max_concurrent = Family(
            "gauge",
            "controller_runtime_max_concurrent_reconciles",
            "Workers of the controller",
            controller,
        )
        self.queue_depth = Family("gauge", "workqueue_depth", "Requests waiting", queue)
        self.queue_adds = Family("counter", "workqueue_adds_total", "Requests added", queue)
        self.queue_retries = Family("counter", "workqueue_retries_total", "Requests retried", queue)
        self.queue_wait = Histogram(
            "workqueue_queue_duration_seconds", "Wait for a worker", queue, _QUEUE_BUCKETS
        )
        self.queue_work = Histogram(
            "workqueue_work_duration_seconds", "Time with a worker", queue, _QUEUE_BUCKETS
        )
        self.queue_unfinished = Family(
            "gauge",
            "workqueue_unfinished_work_seconds",
            "Seconds of work in progress that work_duration does not show yet",
            queue,
        )
        self.queue_longest = Family(
            "gauge",
            "workqueue_longest_running_processor_seconds",
            "Age of the oldest reconcile in progress",
            queue,
        )
        self.rest_requests = Family(
            "counter",
            "rest_client_requests_total",
            "Requests by status code, host and method",
            ["code", "host", "method"],
        )
        self.leader = Family(
            "gauge", "leader_election_master_status", "1 while this process leads", ["name"]
        )
        self.terms_lost = Family(
            "counter",
            "traincrew_leadership_lost_total",
            "Times this process led and could not renew its Lease in time",
            [],
        )
        self.terms_lost.labels()  # so that it is shown before the first one
        self.relists = Family(
            "counter",
            "traincrew_watch_relists_total",
            "Times a cache was rebuilt, first time included",
            ["resource"],
        )
        self.watch_errors = Family(
            "counter", "traincrew_watch_errors_total", "Lists and watches that failed", ["resource"]
        )
        self.undecodable = Family(
            "counter",
            "traincrew_undecodable_objects_total",
            "Objects that do not fit the type of their cache",
            ["resource"],
        )
        self.events_dropped = Family(
            "counter",
            "traincrew_events_dropped_total",
            "Events that were not written",
            ["reason"],
        )
        self.stale_reconciles = Family(
            "counter",
            "stale_sync_skips_total",
            "Reconciles postponed until a cache shows our own last write",
            ["resource"],
        )

        self._others: list[Collector] = []

    def add(self, collector: Collector) -> None:
        """Expose the metrics of a collector as well."""
        self._others.append(collector)

    def names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of this class's metrics with the names of their labels."""
        return {family.name: family.label_names for family in self._families()}

    def _families(self) -> Iterator[Family | Histogram]:
        return (each for each in vars(self).values() if isinstance(each, Family | Histogram))

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics; implements prometheus-client's ``Collector``."""
        for family in (*self._families(), *self._others):
            yield from family.collect()

    def registry(self) -> CollectorRegistry:
        """Return a separate registry that exposes these metrics and the process."""
        from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        return registry
