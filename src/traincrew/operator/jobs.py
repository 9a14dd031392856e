"""Writes the jobs themselves: their status, what a contract wants in ``spec``, their deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Request
from traincrew.engine.errors import NotFoundError
from traincrew.operator.children import FIELD_MANAGER

if TYPE_CHECKING:
    from traincrew.api.meta import CustomObject
    from traincrew.engine.client import Client
    from traincrew.engine.controller import WriteTracker
    from traincrew.engine.resources import Resource


class JobGoneError(Exception):
    """The job was deleted while it was reconciled."""


class JobWriter:
    """Writes the jobs of one kind.

    Args:
        client: The API server.
        resource: The kind.
        tracker: Where writes are noted.
    """

    def __init__(self, client: Client, resource: Resource, tracker: WriteTracker) -> None:
        self._client = client
        self._resource = resource
        self._tracker = tracker

    async def patch(
        self, job: CustomObject, patch: dict[str, Any], *, subresource: str | None = None
    ) -> str:
        """Patch a job, if it has not changed since it was observed; return its new version.

        Raises:
            JobGoneError: It does not exist any more.
            ConflictError: It has changed.
            ApiError: The request failed.
        """
        metadata = job.metadata
        try:
            written = await self._client.patch(
                self._resource,
                metadata.name,
                metadata.namespace,
                patch={"metadata": {"resourceVersion": metadata.resource_version}, **patch},
                subresource=subresource,
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError as error:
            raise JobGoneError from error
        self._tracker.note(self._resource, written, request_of(job))
        version: str = written["metadata"]["resourceVersion"]
        return version

    async def delete(self, job: CustomObject, version: str) -> None:
        """Delete a job, unless it has changed, for example to a longer time to live.

        Raises:
            JobGoneError: It does not exist any more.
            ConflictError: It has another version.
            ApiError: The request failed.
        """
        metadata = job.metadata
        try:
            await self._client.delete(
                self._resource,
                metadata.name,
                metadata.namespace,
                uid=metadata.uid,
                resource_version=version,
            )
        except NotFoundError as error:
            raise JobGoneError from error

    def reference(self, job: CustomObject) -> dict[str, Any]:
        """Return a reference to a job, for its events."""
        return reference_of(self._resource, job)


def reference_of(resource: Resource, job: CustomObject) -> dict[str, Any]:
    """Return a reference to a job, for its events."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": job.metadata.namespace,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "resourceVersion": job.metadata.resource_version,
    }


def request_of(job: CustomObject) -> Request:
    """Return the request to reconcile a job."""
    return Request(job.metadata.namespace, job.metadata.name)
