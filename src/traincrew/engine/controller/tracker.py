"""Read your own writes: do not reconcile from a cache that lacks our own last write.

A reconcile that created a Pod may run again before the watch delivers that Pod, and would count one
too few. As KEP-5647 does for the built-in controllers, the version of our last write is remembered
per resource and request, and the next reconcile is postponed until the cache has caught up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.controller.requests import Request
from traincrew.engine.observability.logs import current_reconcile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.engine.cache import Informer
    from traincrew.engine.observability import Metrics
    from traincrew.engine.resources import Resource


class WriteTracker:
    """Remembers the version of our own last write per resource and request.

    Args:
        patience: Seconds after which a cache counts as up to date although it does not contain the
            write: the object may be outside the informer's selector, and a missed event must not
            stall a job for ever.
        clock: Source of time.
        metrics: Where postponed reconciles are counted, if anywhere.
    """

    def __init__(
        self,
        *,
        patience: float = 5.0,
        clock: Clock = SYSTEM_CLOCK,
        metrics: Metrics | None = None,
    ) -> None:
        self._patience = patience
        self._clock = clock
        self._metrics = metrics
        self._writes: dict[tuple[Resource, str, str], tuple[int, float]] = {}

    def note(
        self, resource: Resource, written: Mapping[str, Any], request: Request | None = None
    ) -> None:
        """Remember a write.

        Args:
            resource: What was written.
            written: The server's answer, whose ``resourceVersion`` counts. Answers without one (a
                ``Status``) are ignored.
            request: The request it was made for; by default the running reconcile's, else the
                object's own key.
        """
        metadata = written.get("metadata") or {}
        version = _number(metadata.get("resourceVersion"))
        if version is None:
            return
        if request is None:
            running = current_reconcile.get()
            if running is not None:
                request = Request(running.namespace, running.name)
            else:
                request = Request(metadata.get("namespace") or "", metadata.get("name") or "")
        key = (resource, request[0], request[1])
        noted = self._writes.get(key)
        if noted is not None and noted[0] > version:
            version = noted[0]
        self._writes[key] = (version, self._clock.monotonic() + self._patience)

    def stale(self, informer: Informer[Any], request: Request) -> bool:
        """Return whether the cache lacks a write made for this request.

        Never true for longer than ``patience`` after the last write.
        """
        key = (informer.resource, request[0], request[1])
        noted = self._writes.get(key)
        if noted is None:
            return False
        version, deadline = noted
        seen = _number(informer.store.resource_version)
        # Versions are ordered integers (KEP-5504); where they are not, waiting would not help.
        if seen is None or seen >= version or self._clock.monotonic() >= deadline:
            del self._writes[key]
            return False
        if self._metrics is not None:
            self._metrics.stale_reconciles.inc((informer.resource.plural,))
        return True

    def forget(self, request: Request) -> None:
        """Drop everything about a request whose object is gone."""
        for key in [key for key in self._writes if key[1:] == request]:
            del self._writes[key]

    def clear(self) -> None:
        """Drop everything: the caches will be filled again by lists that are newer."""
        self._writes.clear()


def _number(version: Any) -> int | None:
    try:
        return int(version)
    except (TypeError, ValueError):
        return None
