"""Protects the objects that jobs refer to, by a finalizer, as long as a job does.

The objects are watched by their metadata only. Which ones are used, the cache of jobs says; but the
finalizer of an object that is being deleted is removed only after the API server has listed the
jobs: a cache may not have the newest job yet, and nothing brings the object back.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from traincrew.api.meta import View
from traincrew.engine.controller import Controller, Request, Result
from traincrew.engine.errors import NotFoundError
from traincrew.engine.objects import FullObjectMeta  # noqa: TC001 - read by msgspec
from traincrew.operator.children import FIELD_MANAGER
from traincrew.plan.shared.kind import next_finalizers

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.api.meta import CustomObject
    from traincrew.engine.cache import Informer
    from traincrew.engine.client import Client
    from traincrew.engine.controller import Manager
    from traincrew.engine.resources import Resource
    from traincrew.operator.kind import OperatedKind
    from traincrew.operator.ownership import Ownership
    from traincrew.plan.shared.kind import Protection

USERS_INDEX = "users"
"""Index of the cache of jobs: by the object that each refers to."""


class _Protected(View, frozen=True, gc=False, kw_only=True):
    metadata: FullObjectMeta


def users_index(protection: Protection) -> Callable[[CustomObject], list[str]]:
    """Return the function that computes the index values of a job."""

    def values(job: CustomObject) -> list[str]:
        named = protection.named(job.spec)
        return [] if named is None else [f"{named.kind}/{named.name}"]

    return values


class Protector:
    """Protects the objects of one resource that the jobs of one kind refer to.

    Args:
        client: The API server.
        manager: Runs the watch and the controller.
        jobs: Watches the jobs.
        owner: Whether the kind is served here.
        resource: Resource of the objects.
        protection: How they are protected.
        namespace: Where the objects are; anywhere by default.
    """

    def __init__(
        self,
        client: Client,
        manager: Manager,
        jobs: Informer[Any],
        owner: Ownership,
        *,
        resource: Resource,
        protection: Protection,
        namespace: str | None = None,
    ) -> None:
        self._client, self._owner = client, owner
        self._jobs = jobs
        self._resource, self._protection = resource, protection
        self._objects: Informer[Any] = manager.informer(
            resource, _Protected, namespace=namespace, metadata_only=True
        )
        self.controller = Controller(resource.kind.lower(), self.reconcile, workers=1)
        self.controller.watch(self._objects, self._itself)
        self.controller.watch(self._jobs, self._named)
        manager.add(self.controller)

    def requests(self) -> list[Request]:
        """Return the requests for all objects."""
        return [each for found in self._objects.store.list() for each in self._itself(found)]

    def _itself(self, found: _Protected) -> list[Request]:
        return [Request(found.metadata.namespace, found.metadata.name)]

    def _named(self, job: CustomObject) -> list[Request]:
        """Return the request for the object that a job refers to."""
        named = self._protection.named(job.spec)
        if named is None or named.kind != self._resource.kind:
            return []
        return [Request(job.metadata.namespace if self._resource.namespaced else "", named.name)]

    async def reconcile(self, request: Request) -> Result | None:
        """Give one object the finalizer, or remove it."""
        found = self._objects.store.get(request.namespace, request.name)
        if found is None:
            return None
        if self._owner.why_not:  # `Ownership.serve` asks again
            return Result(self._owner.seconds_left)
        metadata, finalizer = found.metadata, self._protection.finalizer
        deleting = metadata.deletion_timestamp is not None
        used = self._is_used(request)
        wanted = next_finalizers(finalizer, metadata.finalizers, used=used, deleting=deleting)
        if wanted is None or (deleting and await self._is_named(request)):
            return None
        version = metadata.resource_version
        patch = {"metadata": {"resourceVersion": version, "finalizers": wanted}}
        with suppress(NotFoundError):  # deleted meanwhile
            await self._client.patch(
                self._resource,
                request.name,
                request.namespace or None,
                patch=patch,
                field_manager=FIELD_MANAGER,
            )
        return None

    def _is_used(self, request: Request) -> bool:
        """Return whether a job in the cache refers to an object."""
        users = self._jobs.store.by_index(USERS_INDEX, f"{self._resource.kind}/{request.name}")
        return any(self._named(job) == [request] for job in users)

    async def _is_named(self, request: Request) -> bool:
        """Return whether the API server has a job that refers to an object."""
        found = await self._client.list(self._jobs.resource, request.namespace or None)
        specs = (item.get("spec") for item in found["items"])
        name = (self._resource.kind, request.name)
        return any(self._protection.named(spec) == name for spec in specs if isinstance(spec, dict))


def protectors(
    client: Client,
    manager: Manager,
    jobs: Informer[Any],
    owner: Ownership,
    *,
    kind: OperatedKind,
    namespace: str | None = None,
) -> list[Protector]:
    """Return one protector for each resource that the jobs of a kind refer to.

    An operator of one namespace does not protect what is in none: it does not see who else uses it.
    """
    protection = kind.protection
    if protection is None:
        return []
    return [
        Protector(
            client,
            manager,
            jobs,
            owner,
            resource=resource,
            protection=protection,
            namespace=namespace,
        )
        for resource in kind.references
        if resource.namespaced or namespace is None
    ]
