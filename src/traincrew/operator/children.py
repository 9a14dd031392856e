"""Writes of children: made if absent, changed where they differ, deleted as they were seen.

What the API refuses for good or for now is an answer for the plan, which tells the user; an error
of any other sort is raised, and the job is looked at again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from traincrew.engine.errors import (
    AlreadyExistsError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from traincrew.operator.patches import json_patch
from traincrew.plan.model import ChildKey, Patch, Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping

    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource

T = TypeVar("T")

FIELD_MANAGER = "traincrew"
REFUSED = (InvalidError, BadRequestError, ForbiddenError)
"""Errors with which the API says that it will not have what it is asked to store."""
_CONCURRENT_WRITES = 32
_NEW_KIND = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping"
"""What the admission plugin OwnerReferencesPermissionEnforcement says of a kind that is new to it.
It looks for new kinds every 30 s, so the first jobs after an installation would have to wait."""


class ChildWriter:
    """Writes the children of the jobs of one kind.

    Args:
        client: The API server.
        resources: Resource of each kind of child.
    """

    def __init__(self, client: Client, resources: Mapping[str, Resource]) -> None:
        self._client = client
        self._resources = resources
        self._limit = asyncio.Semaphore(_CONCURRENT_WRITES)

    async def together(self, writes: Iterable[Awaitable[T]]) -> list[T]:
        """Several writes at a time; all have come to an end before an error is raised."""

        async def bounded(write: Awaitable[T]) -> T:
            async with self._limit:
                return await write

        results = await asyncio.gather(*map(bounded, writes), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    async def create(self, document: dict[str, Any]) -> tuple[ChildKey, dict[str, Any] | Refusal]:
        """Create a child; what is stored, or why it is not.

        Raises:
            ApiError: The API cannot answer; the child may exist or not.
        """
        key = key_of(document)
        resource = self._resources[key.kind]
        try:
            return key, await self._post(resource, document)
        except AlreadyExistsError as error:
            return key, await self._in_the_way(resource, document, error.message)
        except (InvalidError, BadRequestError) as error:
            return key, Refusal(error.message, permanent=True)
        except ForbiddenError as error:
            return key, Refusal(error.message)

    async def _post(self, resource: Resource, document: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._client.create(resource, document, field_manager=FIELD_MANAGER)
        except ForbiddenError as error:
            if _NEW_KIND not in error.message:
                raise
            free = _not_blocking(document)
            return await self._client.create(resource, free, field_manager=FIELD_MANAGER)

    async def _in_the_way(
        self, resource: Resource, document: dict[str, Any], message: str
    ) -> dict[str, Any] | Refusal:
        """What to make of an object that has the name of a child."""
        metadata = document["metadata"]
        existing = await self._client.get(resource, metadata["name"], metadata["namespace"])
        (ours,) = metadata["ownerReferences"]
        for owner in existing["metadata"].get("ownerReferences", []):
            if owner.get("controller") and owner.get("uid") == ours["uid"]:
                return existing  # made before, by a reconcile whose answer got lost
            if owner.get("kind") == ours["kind"] and owner.get("name") == ours["name"]:
                return Refusal(f"{message}; it is of an earlier job and will be deleted")
        return Refusal(message, foreign=True)

    async def patch(
        self, patch: Patch, version: str
    ) -> tuple[ChildKey, dict[str, Any] | Refusal | None]:
        """Replace fields of a child, if it is still the version that was looked at.

        Returns:
            What is stored now, why it is not, or None if the child has gone: the next look, at a
            newer view, makes it again.

        Raises:
            ConflictError: The child is another version now.
            ApiError: The API cannot answer.
        """
        try:
            return patch.key, await self._client.patch(
                self._resources[patch.key.kind],
                patch.key.name,
                patch.namespace,
                patch=json_patch(patch.values, version),
                kind="json",
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError:
            return patch.key, None
        except REFUSED as error:
            return patch.key, Refusal(error.message)

    async def delete(
        self, key: ChildKey, namespace: str, uid: str, version: str | None
    ) -> ChildKey | None:
        """Delete a child.

        Args:
            key: The child.
            namespace: Where it is.
            uid: Its incarnation; a successor of the name stays.
            version: The version that was looked at; any if None.

        Returns:
            What was deleted, if it was still there.

        Raises:
            ConflictError: There is another version or incarnation of it.
            ApiError: The API cannot answer.
        """
        try:
            await self._client.delete(
                self._resources[key.kind], key.name, namespace, uid=uid, resource_version=version
            )
        except NotFoundError:
            return None
        return key


def key_of(document: Mapping[str, Any]) -> ChildKey:
    """Kind and name of a child."""
    return ChildKey(document["kind"], document["metadata"]["name"])


def _not_blocking(document: dict[str, Any]) -> dict[str, Any]:
    """A child that a foreground deletion of its owner does not wait for; it goes all the same."""
    metadata = document["metadata"]
    owners = [
        {key: value for key, value in owner.items() if key != "blockOwnerDeletion"}
        for owner in metadata["ownerReferences"]
    ]
    return {**document, "metadata": {**metadata, "ownerReferences": owners}}
