"""Reads Services and pods, calls `plan`, and writes Endpoints and EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, own_key
from traincrew.engine.errors import is_namespace_terminating
from traincrew.engine.resources import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES
from traincrew.local.controllers.context import (
    NOT_CURRENT,
    ControllerContext,
)
from traincrew.local.controllers.endpoints.plan import (
    ENDPOINTS_MANAGER,
    MANAGED_ENDPOINTS,
    MANAGED_SLICE,
    SERVICE_NAME,
    SLICE_MANAGER,
    endpoints_document,
    endpoints_of,
    has_endpoints,
    relevant,
    slice_documents,
)
from traincrew.local.controllers.informers import NAMESPACE, informer
from traincrew.local.controllers.selectors import matches_map

if TYPE_CHECKING:
    from traincrew.engine.cache import Informer
    from traincrew.engine.controller import Manager, Result
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject

BATCH = 0.02
"""Seconds to wait for further changes: pods become ready together and need only one write."""


def add(manager: Manager, events: EventRecorder) -> None:
    """Keep Endpoints and EndpointSlices of Services."""
    reconciler = EndpointsReconciler(manager, events)
    manager.add(reconciler.controller)


class EndpointsReconciler:
    """Reconciles one Service at a time."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._services = informer(manager, SERVICES)
        self._pods = informer(manager, PODS)
        self._endpoints = informer(manager, ENDPOINTS)
        self._slices = informer(manager, ENDPOINT_SLICES)
        self._context = ControllerContext(
            manager.client, events.reporter("endpoint-controller"), SERVICES
        )
        self.controller = Controller("endpoints", self.reconcile, workers=4)
        self.controller.watch(self._services, own_key)
        self.controller.watch(self._endpoints, own_key)
        self.controller.watch(self._slices, _service_of)
        self.controller.informers.append(self._pods)
        self._pods.add_handler(self._pod_changed)

    def _pod_changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        if old is not None and new is not None and relevant(old) == relevant(new):
            return
        namespaces = {pod.metadata.namespace for pod in (old, new) if pod is not None}
        for namespace in namespaces:
            for service in self._services.store.by_index(NAMESPACE, namespace):
                selector = service.spec.get("selector")
                if any(
                    matches_map(selector, pod.metadata.labels)
                    for pod in (old, new)
                    if pod is not None
                ):
                    request = Request(namespace, service.metadata.name)
                    self.controller.enqueue(request, after=BATCH)

    async def reconcile(self, request: Request) -> Result | None:
        """Bring the endpoints of one Service up to date."""
        if not self._context.is_current(request):
            return NOT_CURRENT
        service = self._services.store.get(*request)
        slices = {
            item.metadata.name: item
            for item in self._slices.store.by_index(NAMESPACE, request.namespace)
            if item.metadata.labels.get(SERVICE_NAME) == request.name
            and item.metadata.labels.get(MANAGED_SLICE) == SLICE_MANAGER
        }
        existing = self._endpoints.store.get(*request)
        if service is None:
            self._context.forget(request)
            managed = existing is not None and (
                existing.metadata.labels.get(MANAGED_ENDPOINTS) == ENDPOINTS_MANAGER
            )
            if (
                existing is not None
                and managed
                # The pods may be newer than the cache of Services.
                and await self._context.client.is_gone(
                    SERVICES, request.name, request.namespace, uid=""
                )
            ):
                await self._context.delete(request, self._endpoints, existing)
            return None  # the slices are garbage collected with their owner
        if service.metadata.deletion_timestamp is not None or not has_endpoints(service):
            return None
        pods = self._pods.store.by_index(NAMESPACE, request.namespace)
        endpoints = endpoints_of(service, pods)
        document = endpoints_document(service, endpoints)
        documents = slice_documents(service, endpoints)
        writes = [self._write(request, self._endpoints, existing, document)]
        for name, wanted in documents.items():
            writes.append(self._write(request, self._slices, slices.pop(name, None), wanted))
        writes += [self._drop(request, item) for item in slices.values()]
        for error in await self._context.run_all(writes):
            if not is_namespace_terminating(error):
                raise error
        return None

    async def _write(
        self,
        request: Request,
        informer: Informer[AnyObject],
        existing: AnyObject | None,
        document: dict[str, Any],
    ) -> None:
        if existing is None:
            await self._context.create(request, informer, document)
            return
        patch: dict[str, Any] = {}
        labels = document["metadata"]["labels"]
        if existing.metadata.labels != labels:
            gone = dict.fromkeys(existing.metadata.labels.keys() - labels.keys())
            patch["metadata"] = {"labels": gone | labels}
        for field in ("subsets", "endpoints", "ports"):
            if field in document and getattr(existing, field) != document[field]:
                patch[field] = document[field]
        if patch:
            await self._context.patch(request, informer, existing, patch)

    async def _drop(self, request: Request, item: AnyObject) -> None:
        await self._context.delete(request, self._slices, item)


def _service_of(item: AnyObject) -> list[Request]:
    name = item.metadata.labels.get(SERVICE_NAME)
    return [Request(item.metadata.namespace, name)] if name else []
