"""Metrics of the API server, under upstream's names (``apiserver/pkg/endpoints/metrics``)."""

from __future__ import annotations

import asyncio
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

from aiohttp import web

from traincrew.engine.observability.metrics import Distribution, Family, Histogram, Number
from traincrew.local.apiserver.requests import is_true, parse_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from traincrew.local.apiserver.registry import Registry
    from traincrew.local.apiserver.storage import Storage

__all__ = ["RequestMetrics"]

_LABELS = (
    "verb",
    "dry_run",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
)
_SHORT = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
_BUCKETS = (*_SHORT, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0)
_SAMPLES = 500
"""Samples whose text is written at once: some 15 ms."""
_VERBS = {"DELETE": "DELETE", "GET": "GET", "PATCH": "PATCH", "POST": "POST", "PUT": "PUT"}
_METHODS = frozenset({*_VERBS, "HEAD"})
_SCOPES = ("cluster", "namespace", "resource")
_STREAMS = frozenset({"attach", "exec", "portforward", "proxy"})


_Key = tuple[str, str, str, str, str, int, bool, bool]
"""Method, group, version, resource, subresource, index of the scope, watch, dry run."""


def _is_watch(query: str) -> bool:
    values = [value for name, value in parse_qsl(query, keep_blank_values=True) if name == "watch"]
    return bool(values) and is_true(values[0])


class _Series:
    """The series of one kind of request, looked up once.

    Args:
        family: the counter, whose last label is the code.
        labels: the values of the other labels.
        durations: the series of the histogram.
    """

    __slots__ = ("_codes", "_family", "_labels", "durations")

    def __init__(self, family: Family, labels: tuple[str, ...], durations: Distribution) -> None:
        self._family = family
        self._labels = labels
        self._codes: dict[int, Number] = {}
        self.durations = durations

    def total(self, code: int) -> Number:
        """Return the counter of the responses with a code."""
        number = self._codes.get(code)
        if number is None:
            number = self._codes[code] = self._family.labels(*self._labels, str(code))
        return number


class RequestMetrics:
    """Counts requests and objects.

    All values of labels are those of served resources, so that clients cannot make up new series.

    Args:
        storage: holds the objects.
        registry: the served resources.
    """

    def __init__(self, storage: Storage, registry: Registry) -> None:
        self._storage = storage
        self._registry = registry
        self._series: dict[_Key, _Series] = {}
        self._writing = asyncio.Lock()
        self._total = Family(
            "counter",
            "apiserver_request_total",
            "Counter of apiserver requests broken out for each verb, dry run value, group, "
            "version, resource, scope, component, and HTTP response code.",
            [*_LABELS, "code"],
        )
        self._duration = Histogram(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds for each verb, dry run value, group, "
            "version, resource, subresource, scope and component.",
            _LABELS,
            _BUCKETS,
        )

    def observe(
        self, method: str, segments: list[str], query: str, *, code: int, seconds: float
    ) -> None:
        """Count a request.

        Args:
            method: upper case.
            segments: segments of the path.
            query: the raw query.
            code: of the response; 0 if the connection was cut.
            seconds: how long it took, streams included.
        """
        target = parse_path(segments)
        if target is None:
            key: _Key = (method if method in _METHODS else "other", "", "", "", "", 0, False, False)
        else:
            scope = 2 if target.name is not None else 1 if target.namespace is not None else 0
            place = (target.group, target.version, target.plural, target.subresource or "")
            watched = "watch=" in query and _is_watch(query)
            key = (method, *place, scope, watched, "dryRun=All" in query)
        series = self._series.get(key) or self._series_of(key)
        series.total(code).inc()
        series.durations.observe(seconds)

    def _series_of(self, key: _Key) -> _Series:
        """Return the series of a kind of request; those of unknown resources share theirs."""
        method, group, version, plural, subresource, scope, watched, dry_run = key
        resource = self._registry.find(group, version, plural)
        if resource is None:
            labels = (method if method in _METHODS else "other", *[""] * 6, "apiserver")
            return self._remembered(key if not plural else None, labels)
        known = subresource in resource.subresource_index or subresource in _STREAMS
        verb = _VERBS.get(method, "other")
        if subresource in _STREAMS:
            verb = "CONNECT"
        elif method == "GET" and not subresource and (watched or scope < 2):
            verb = "WATCH" if watched else "LIST"
        elif method == "DELETE" and scope < 2:
            verb = "DELETECOLLECTION"
        shown = "resource" if method == "POST" else _SCOPES[scope]
        place = (group, version, plural, subresource if known else "")
        labels = (verb, "All" if dry_run else "", *place, shown, "apiserver")
        kept = (known or not subresource) and verb != "other"
        return self._remembered(key if kept else None, labels)

    def _remembered(self, key: _Key | None, labels: tuple[str, ...]) -> _Series:
        series = _Series(self._total, labels, self._duration.labels(*labels))
        if key is not None:
            self._series[key] = series
        return series

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; implements prometheus-client's ``Collector``."""
        objects = Family(
            "gauge",
            "apiserver_storage_objects",
            "Number of stored objects at the time of last check split by kind.",
            ["resource"],
        )
        for identifier in self._storage.resources():
            objects.labels(identifier).set(self._storage.count(identifier))
        for family in (self._total, self._duration, objects):
            yield from family.collect()

    async def respond(self) -> web.Response:
        """Answer ``GET /metrics``: these metrics, and those of the process.

        Writing the text takes five times as long as collecting the numbers, up to a second, so
        other requests go on in between. One text is written at a time.
        """
        from prometheus_client import CollectorRegistry, ProcessCollector

        async with self._writing:
            of_process = ProcessCollector(registry=CollectorRegistry()).collect()
            parts = []
            for part in chain.from_iterable(map(_parts, [*self.collect(), *of_process])):
                parts.append(_text(part))
                await asyncio.sleep(0)
        return web.Response(body=b"".join(parts), content_type="text/plain", charset="utf-8")


class _Part(NamedTuple):
    """Some samples of a metric; implements prometheus-client's ``Collector``."""

    metric: Metric
    start: int

    def collect(self) -> Iterator[Metric]:
        found = copy(self.metric)
        found.samples = self.metric.samples[self.start : self.start + _SAMPLES]
        yield found


def _parts(metric: Metric) -> Iterator[_Part]:
    """Yield all samples of a metric, a few at a time."""
    for start in range(0, max(len(metric.samples), 1), _SAMPLES):
        yield _Part(metric, start)


def _text(part: _Part) -> bytes:
    """Return samples in Prometheus's text format; the first ones after the metric's description."""
    from prometheus_client import generate_latest

    text: bytes = generate_latest(part)
    return text.split(b"\n", 2)[2] if part.start else text  # after HELP and TYPE
