"""Deletes the content of a terminating namespace, pods first, and then finalizes it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.engine.controller import Controller, Request, Result, own_key
from traincrew.engine.errors import ApiError, ConflictError, NotFoundError, ServerError
from traincrew.engine.resources import NAMESPACES, PODS
from traincrew.local.controllers.common import FIELD_MANAGER, set_condition
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext
from traincrew.local.controllers.informers import informer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.engine.resources import Resource
    from traincrew.local.controllers.garbage.graph import Item
    from traincrew.local.controllers.garbage.watches import Watches

FINALIZER = "kubernetes"
REQUEUE_SECONDS = 5.0
"""Seconds until a namespace with content is reconciled again, if nothing is deleted before."""
_NEEDED = frozenset({"list", "delete"})


class DeletionFailures(NamedTuple):
    """What prevented the deletion of a namespace's content; empty if nothing did.

    Attributes:
        discovery: Why discovery failed.
        content: Why some objects could not be listed or deleted.
    """

    discovery: str = ""
    content: tuple[str, ...] = ()


def remaining_conditions(
    namespace: AnyObject,
    remaining: dict[str, list[dict[str, Any]]],
    now: float,
    failures: DeletionFailures = DeletionFailures(),  # noqa: B008 - immutable
) -> list[dict[str, Any]]:
    """Return the conditions that report what a namespace still waits for.

    Args:
        namespace: The namespace as cached.
        remaining: `plural.group` -> metadata of the remaining objects.
        now: Seconds since the epoch.
        failures: What failed.
    """
    # Over 60 lines: one condition after the other.
    counts = ", ".join(
        f"{name} has {len(items)} resource instances" for name, items in sorted(remaining.items())
    )
    finalizers: dict[str, int] = {}
    for items in remaining.values():
        for metadata in items:
            for finalizer in metadata.get("finalizers") or ():
                finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
    held = ", ".join(
        f"{name} in {number} resource instances" for name, number in sorted(finalizers.items())
    )
    discovery, content = failures
    conditions = set_condition(
        namespace.status.get("conditions"),
        "NamespaceDeletionDiscoveryFailure",
        bool(discovery),
        "DiscoveryFailed" if discovery else "ResourcesDiscovered",
        discovery or "All resources successfully discovered",
        now=now,
    )
    conditions = set_condition(
        conditions,
        "NamespaceDeletionGroupVersionParsingFailure",
        False,
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
        now=now,
    )
    conditions = set_condition(
        conditions,
        "NamespaceDeletionContentFailure",
        bool(content),
        "ContentDeletionFailed" if content else "ContentDeleted",
        f"Failed to delete all resource types, {len(content)} remaining: "
        + ", ".join(sorted(content))
        if content
        else "All content successfully deleted, may be waiting on finalization",
        now=now,
    )
    conditions = set_condition(
        conditions,
        "NamespaceContentRemaining",
        bool(remaining),
        "SomeResourcesRemain" if remaining else "ContentRemoved",
        f"Some resources are remaining: {counts}"
        if remaining
        else "All content successfully removed",
        now=now,
    )
    return set_condition(
        conditions,
        "NamespaceFinalizersRemaining",
        bool(held),
        "SomeFinalizersRemain" if held else "ContentHasNoFinalizers",
        f"Some content in the namespace has finalizers remaining: {held}"
        if held
        else "All content-preserving finalizers finished",
        now=now,
    )


class NamespaceReconciler:
    """Reconciles one namespace at a time."""

    def __init__(self, manager: Manager, events: EventRecorder, watches: Watches) -> None:
        self._namespaces = informer(manager, NAMESPACES)
        self._context = ControllerContext(
            manager.client, events.reporter("namespace-controller"), NAMESPACES
        )
        self._watches = watches
        self.controller = Controller("namespace", self.reconcile, workers=2)
        self.controller.watch(self._namespaces, own_key)

    def removed(self, item: Item) -> None:
        """Queue the namespace of a deleted object, which may have been the last in it."""
        namespace = self._namespaces.store.get(None, item.metadata.namespace)
        if namespace is not None and namespace.metadata.deletion_timestamp is not None:
            # Content is deleted in bulk: reconcile once for many objects.
            self.controller.enqueue(Request("", item.metadata.namespace), after=0.02)

    async def reconcile(self, request: Request) -> Result | None:
        """Delete the content of one namespace, and finalize it once it is empty."""
        namespace = self._namespaces.store.get(None, request.name)
        if namespace is None:
            self._context.forget(request)
            return None
        if namespace.metadata.deletion_timestamp is None:
            return None
        if not self._context.is_current(request):
            return NOT_CURRENT
        if FINALIZER not in (namespace.spec.get("finalizers") or ()):
            return None
        return await self._empty(request, namespace)

    async def _empty(self, request: Request, namespace: AnyObject) -> Result | None:
        """Delete the content; once there is none, finalize the namespace.

        Discovery is repeated each time, since a kind may have been added meanwhile. While a part of
        it fails, the rest of the content is deleted, and the namespace stays.

        Raises:
            ApiError: Something could not be listed or deleted; the status reports it, too.
        """
        try:
            discovery = await self._watches.refresh()
        except ApiError as refusal:
            await self._report(request, namespace, [], DeletionFailures(discovery=str(refusal)))
            raise
        resources = [item for item in discovery.preferred(_NEEDED) if item.namespaced]
        remaining, errors = await self._content(request.name, resources)
        # Upstream's order: as long as there are pods, everything they may need stays.
        pods = [each for each in remaining if each[0] == PODS]
        doomed = [
            resource
            for resource, items in pods or remaining
            if any(not item.get("deletionTimestamp") for item in items)
        ]
        if doomed:
            # Elsewhere deletion follows ownership; here everything is deleted at once.
            errors += await self._context.run_all(
                self._delete_all(resource, request.name) for resource in doomed
            )
            remaining, unlisted = await self._content(
                request.name, [resource for resource, _ in remaining]
            )
            errors += unlisted
        for error in errors:
            if not isinstance(error, ApiError) or isinstance(error, ConflictError):
                raise error
        failed = _failed_discovery(discovery.failed)
        if remaining or errors or failed:
            failures = DeletionFailures(failed, tuple({str(error) for error in errors}))
            await self._report(request, namespace, remaining, failures)
        for error in errors:
            raise error
        if failed:
            raise ServerError(failed)
        if remaining:
            return Result(requeue_after=REQUEUE_SECONDS)
        await self._finalize(request.name)
        return None

    async def _content(
        self, namespace: str, resources: list[Resource]
    ) -> tuple[list[tuple[Resource, list[dict[str, Any]]]], list[Exception]]:
        """Return the content, and the errors of resources that could not be listed.

        It is read from the server: a cache might not contain the newest object.
        """
        found: dict[Resource, list[dict[str, Any]]] = {}

        async def check(resource: Resource) -> None:
            found[resource] = await self._list(resource, namespace)

        errors = await self._context.run_all(check(resource) for resource in resources)
        return [(item, found[item]) for item in resources if found.get(item)], errors

    async def _list(self, resource: Resource, namespace: str) -> list[dict[str, Any]]:
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        with _outdated(resource):
            found = await self._context.client.request_object(
                "GET", resource.path(namespace), accept=accept
            )
        items = found.get("items") or []
        return [item["metadata"] for item in items]

    async def _delete_all(self, resource: Resource, namespace: str) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        with _outdated(resource):
            await self._context.client.request("DELETE", resource.path(namespace), body=options)

    async def _report(
        self,
        request: Request,
        namespace: AnyObject,
        remaining: list[tuple[Resource, list[dict[str, Any]]]],
        failures: DeletionFailures,
    ) -> None:
        names = {f"{resource.plural}.{resource.group}": items for resource, items in remaining}
        conditions = remaining_conditions(namespace, names, self._context.now(), failures)
        status = {**namespace.status, "phase": "Terminating", "conditions": conditions}
        await self._context.write_status(
            request, self._namespaces, namespace, namespace.status, status
        )

    async def _finalize(self, name: str) -> None:
        client = self._context.client
        try:
            live = await client.get(NAMESPACES, name)
            kept = [item for item in live["spec"].get("finalizers") or () if item != FINALIZER]
            live["spec"]["finalizers"] = kept
            await client.replace(
                NAMESPACES, live, subresource="finalize", field_manager=FIELD_MANAGER
            )
        except NotFoundError:
            return
        except ApiError as error:
            if error.code == 409:
                raise ConflictError(error.message, code=409) from error
            raise


def _failed_discovery(failed: Iterable[tuple[str, str]]) -> str:
    """Return upstream's message about groups whose discovery failed; empty if there are none."""
    names = sorted(f"{group}/{version}" if group else version for group, version in failed)
    if not names:
        return ""
    each = ", ".join(f"{name}: stale GroupVersion discovery: {name}" for name in names)
    return (
        f"Discovery failed for some groups, {len(names)} failing: unable to retrieve the complete "
        f"list of server APIs: {each}"
    )


@contextmanager
def _outdated(resource: Resource) -> Iterator[None]:
    """Raise an error if a collection is not found, so that the reconcile is retried.

    It is no longer served in this version; its objects may be served in another one.
    """
    try:
        yield
    except NotFoundError as error:
        raise ConflictError(
            f"{resource.plural} are no longer served in {resource.api_version}"
        ) from error
