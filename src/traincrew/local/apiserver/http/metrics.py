"""Metrics of the API server, under upstream's names (``apiserver/pkg/endpoints/metrics``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from traincrew.engine.observability.metrics import Family, Histogram
from traincrew.local.apiserver.authorization import request_attributes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import CollectorRegistry
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
# The verb of authorization -> that of metrics.
_VERBS = {
    "create": "POST",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
    "get": "GET",
    "list": "LIST",
    "patch": "PATCH",
    "update": "PUT",
    "watch": "WATCH",
}
_STREAMS = frozenset({"attach", "exec", "portforward", "proxy"})


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
        self._exposed: CollectorRegistry | None = None
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
        self, method: str, segments: Sequence[str], query: str, *, code: int, seconds: float
    ) -> None:
        """Count a request.

        Args:
            method: upper case.
            segments: segments of the path.
            query: the raw query.
            code: of the response; 0 if the connection was cut.
            seconds: how long it took, streams included.
        """
        labels = self._labels(method, segments, query)
        self._total.labels(*labels, str(code)).inc()
        self._duration.labels(*labels).observe(seconds)

    def _labels(self, method: str, segments: Sequence[str], query: str) -> tuple[str, ...]:
        """Return the values of `_LABELS`; those of the resource are empty for other paths."""
        attributes = request_attributes(method, segments, query)
        verb = _VERBS.get(attributes.verb, "")
        version, resource = "", None
        if attributes.is_resource:
            version = segments[2 if attributes.group else 1]
            resource = self._registry.find(attributes.group, version, attributes.resource)
        if resource is None:
            known = method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} else ""
            return (known or "other", "", "", "", "", "", "", "apiserver")
        subresource = attributes.subresource
        if subresource not in resource.subresource_index and subresource not in _STREAMS:
            subresource = ""
        if subresource in _STREAMS:
            verb = "CONNECT"
        scope = "cluster"
        if attributes.name or attributes.verb == "create":
            scope = "resource"
        elif attributes.namespace:
            scope = "namespace"
        dry_run = "All" if "dryRun=All" in query else ""
        place = (attributes.group, version, attributes.resource, subresource)
        return (verb or "other", dry_run, *place, scope, "apiserver")

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

    def respond(self) -> web.Response:
        """Answer ``GET /metrics``: these metrics, and those of the process."""
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        if self._exposed is None:
            self._exposed = CollectorRegistry()
            self._exposed.register(self)
            ProcessCollector(registry=self._exposed)
        text = generate_latest(self._exposed)
        return web.Response(body=text, content_type="text/plain", charset="utf-8")
