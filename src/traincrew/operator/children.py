"""Writes children: creates missing ones, patches fields that differ, deletes observed versions.

If the API refuses a write, permanently or not, the plan reports it to the user; any other error is
raised, and the job is requeued.
"""
# Over 400 lines: each write has its refusals beside it: create, patch, key pairs, delete, dry run.

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from traincrew.engine.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    is_namespace_terminating,
)
from traincrew.engine.resources import PODS
from traincrew.operator import keypairs
from traincrew.operator.patches import json_patch
from traincrew.plan.shared.model import ChildKey, Patch, Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Coroutine, Iterable, Mapping, Sequence

    from traincrew.engine.client import Client
    from traincrew.engine.gate import Gate
    from traincrew.engine.resources import Resource
    from traincrew.plan.shared.model import Observed, Write

T = TypeVar("T")

FIELD_MANAGER = "traincrew"
REFUSED = (InvalidError, BadRequestError, ForbiddenError)
"""Errors by which the API refuses to store an object."""
_UNAUTHORIZED = 'cannot create resource "pods"'
"""Distinguishes a refusal by authorization from one by admission."""
_NO_DRY_RUN = "does not support dry run"
"""Message about an admission webhook with side effects: it says nothing about the object."""
_CONCURRENT_WRITES = 32
_CONCURRENT_LATE_WRITES = 8
"""Of those that nothing waits for."""
_UNKNOWN_OWNER_KIND = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping"
"""Message of the admission plugin OwnerReferencesPermissionEnforcement for a kind new to it. It
refreshes its kinds every 30 s, so the first jobs after an installation would have to wait."""


class NamespaceTerminatingError(Exception):
    """The namespace is terminating: nothing can be created in it, and the job will be deleted."""


class WriteResult(Struct, frozen=True):
    """The result of a write.

    Attributes:
        key: The child.
        result: The stored object, the refusal, or None if the child no longer exists.
        new: Whether the child was created by this write.
    """

    key: ChildKey
    result: dict[str, Any] | Refusal | None
    new: bool = False


class ChildWriter:
    """Writes the children of the jobs of one kind.

    Args:
        client: The API server.
        resources: Resource of each kind of child.
        gate: Defers other requests during urgent writes.
        unwatched: Resources of which nothing but metadata is read or returned, and nothing is
            changed except for the keys of a Secret.
    """

    def __init__(
        self,
        client: Client,
        resources: Mapping[str, Resource],
        gate: Gate,
        *,
        unwatched: Collection[Resource] = (),
    ) -> None:
        self._client = client
        self._unwatched = unwatched
        self.resources = resources
        self._gate = gate
        self._limit = asyncio.Semaphore(_CONCURRENT_WRITES)
        self._late_limit = asyncio.Semaphore(_CONCURRENT_LATE_WRITES)

    async def together(
        self, writes: Iterable[Coroutine[Any, Any, T]], *, urgent: bool = True
    ) -> list[T]:
        """Run writes concurrently; all of them finish before an error is raised.

        Args:
            writes: The writes.
            urgent: Whether other requests are deferred; otherwise few are sent at a time.
        """
        everything = list(writes)

        async def bounded(write: Awaitable[T]) -> T:
            if not urgent:
                async with self._late_limit:
                    return await write
            with self._gate.urgent():
                async with self._limit:
                    return await write

        try:
            results = await asyncio.gather(*map(bounded, everything), return_exceptions=True)
        finally:
            for write in everything:  # not started, because we were cancelled
                if inspect.getcoroutinestate(write) == inspect.CORO_CREATED:
                    write.close()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    async def write(
        self, stage: Sequence[Write], observed: Observed, *, urgent: bool = True
    ) -> list[WriteResult]:
        """Send the writes of a stage; see `together`, `create` and `patch`."""
        writes = [
            self.create(
                write.create,
                key_pair=write.key_pair,
                retires=write.retires,
                expected=write.expected,
            )
            for write in stage
            if write.create is not None
        ]
        for write in stage:
            if (patch := write.patch) is not None:
                version = observed.children[patch.key].metadata.resource_version
                writes.append(self.patch(patch, version))
        return await self.together(writes, urgent=urgent)

    async def create(
        self,
        document: dict[str, Any],
        *,
        key_pair: bool = False,
        retires: bool = False,
        expected: bool = False,
    ) -> WriteResult:
        """Create a child.

        If it already exists and is managed by the job, restore its missing labels, without which it
        is not in our caches.

        Args:
            document: The child.
            key_pair: Whether it is a Secret that gets a new pair of ssh keys. They go nowhere else.
                If it exists with a pair of an earlier generation, that is replaced.
            retires: Whether a Secret that exists with this generation loses earlier pairs.
            expected: Whether the child is looked for before it is created.

        Raises:
            AlreadyExistsError: An object of this name was deleted and created meanwhile.
            NamespaceTerminatingError: The namespace is terminating.
            ApiError: The request failed; the child may exist or not.
        """
        key = ChildKey.of(document)
        resource = self.resources[key.kind]
        if expected:
            name = f'{resource.plural} "{key.name}"'
            found = await self._handle_existing(resource, document, f"{name} already exists")
            if found is not None:
                return WriteResult(key, found)
        complete = keypairs.with_key_pair(document) if key_pair else document
        try:
            try:
                return WriteResult(key, await self._post(resource, complete), new=True)
            except AlreadyExistsError as error:
                found = await self._handle_existing(resource, document, error.message)
                if key_pair and found is not None and not isinstance(found, Refusal):
                    found = await self._rotate(resource, document, found, retires=retires)
                if found is not None:
                    return WriteResult(key, found)
            return WriteResult(key, await self._post(resource, complete), new=True)
        except (InvalidError, BadRequestError) as error:
            return WriteResult(key, Refusal(error.message, permanent=True))
        except ForbiddenError as error:
            if is_namespace_terminating(error):
                raise NamespaceTerminatingError from error
            return WriteResult(key, Refusal(error.message))

    async def foresee(self, key: ChildKey, documents: Iterable[dict[str, Any]]) -> Refusal | None:
        """Return how the API would refuse to create a child now; None if it would not.

        This is a dry run. What cannot be found out by it is found out when the child is created.

        Args:
            key: The child.
            documents: The child, and pods that its controller creates, under names of their own.
        """
        for document in documents:
            resource = self.resources[document["kind"]]
            own = ChildKey.of(document) == key
            try:
                await self._post(resource, document, dry_run=True)
            except AlreadyExistsError as error:
                if own:
                    found = await self._handle_existing(resource, document, error.message)
                    if isinstance(found, Refusal):
                        return found
            except (InvalidError, BadRequestError) as error:
                if _NO_DRY_RUN not in error.message:
                    return Refusal(error.message, permanent=own)
            except ForbiddenError as error:
                if own or _UNAUTHORIZED not in error.message:
                    return Refusal(error.message)
            except ApiError:
                continue
        return None

    async def refusal_of(
        self, pod: dict[str, Any], *, owners: Collection[str] | None = None
    ) -> Refusal | None:
        """Return why the API refuses a pod now; None if it would be accepted.

        This is a dry run. A quota, a LimitRange or a security policy refuses every client; that the
        operator itself may not create pods does not matter, because other controllers create them.

        Args:
            pod: The pod.
            owners: UIDs of the possible controllers of a pod of exactly this name; None if the
                controller chooses another name.
        """
        try:
            await self._client.create(PODS, pod, field_manager=FIELD_MANAGER, dry_run=True)
        except AlreadyExistsError as error:
            return await self._foreign(pod, owners, error.message) if owners is not None else None
        except (ForbiddenError, InvalidError) as error:
            ours = _UNAUTHORIZED in error.message or is_namespace_terminating(error)
            return None if ours else Refusal(error.message)
        except ApiError:
            return None
        return None

    async def _foreign(
        self, pod: dict[str, Any], owners: Collection[str], message: str
    ) -> Refusal | None:
        """Return the refusal of a pod whose name somebody else's pod has; None if it is ours."""
        metadata = pod["metadata"]
        try:
            found = await self._client.get(
                PODS, metadata["name"], metadata["namespace"], metadata_only=True
            )
        except ApiError:
            return None
        if _controller_of(found) in owners:
            return None  # the cache does not have it yet, or it has lost its labels
        return Refusal(message, foreign=True, owner=_controller_name(found))

    async def _post(
        self, resource: Resource, document: dict[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        try:
            stored = await self._client.create(
                resource, document, field_manager=FIELD_MANAGER, dry_run=dry_run
            )
        except ForbiddenError as error:
            if _UNKNOWN_OWNER_KIND not in error.message:
                raise
            stored = await self._client.create(
                resource, _not_blocking(document), field_manager=FIELD_MANAGER, dry_run=dry_run
            )
        return {"metadata": stored["metadata"]} if resource in self._unwatched else stored

    async def _handle_existing(
        self, resource: Resource, document: dict[str, Any], message: str
    ) -> dict[str, Any] | Refusal | None:
        """Handle an existing object with the name of a child; None if it no longer exists."""
        metadata = document["metadata"]
        unwatched = resource in self._unwatched
        try:
            existing = await self._client.get(
                resource, metadata["name"], metadata["namespace"], metadata_only=unwatched
            )
        except NotFoundError:
            return None
        if not metadata.get("ownerReferences"):  # it outlives the job, and others use it again
            if "deletionTimestamp" in existing["metadata"]:
                return Refusal(f"{message}; it is being deleted", leftover=True)
            return existing
        (ours,) = metadata["ownerReferences"]
        controller = ""
        for owner in existing["metadata"].get("ownerReferences", []):
            if owner.get("controller") and owner.get("uid") == ours["uid"]:
                # Created by an earlier request whose response got lost; or it has lost its labels.
                if unwatched:
                    return existing
                return await self._label(resource, existing, metadata.get("labels") or {})
            if _qualified(owner) == _qualified(ours):
                text = f"{message}; it is of an earlier job and will be deleted"
                return Refusal(text, leftover=True)
            if owner.get("controller"):
                controller = " ".join(_qualified(owner))
        return Refusal(message, foreign=True, owner=controller)

    async def _rotate(
        self, resource: Resource, secret: dict[str, Any], found: dict[str, Any], *, retires: bool
    ) -> dict[str, Any] | None:
        """Rotate the keys of a Secret, if that is due; None if it no longer exists."""
        if not keypairs.is_due(found, secret, retires=retires):
            return found
        name, namespace = secret["metadata"]["name"], secret["metadata"]["namespace"]
        try:
            stored = await self._client.get(resource, name, namespace)
            values = keypairs.changes(stored, secret, retires=retires)
            if not values:
                return found
            # If it is another Secret by now, it has another version.
            patch = json_patch(values, found["metadata"]["resourceVersion"])
            patched = await self._client.patch(
                resource, name, namespace, patch=patch, kind="json", field_manager=FIELD_MANAGER
            )
        except NotFoundError as error:
            _ensure_about(error, name)
            return None
        return {"metadata": patched["metadata"]}

    async def restore_labels(
        self,
        key: ChildKey,
        namespace: str,
        labels: Mapping[str, str],
        *,
        uid: str | None = None,
        owner: str | None = None,
    ) -> dict[str, Any] | None:
        """Restore the labels of an object that is not in our caches, if it exists.

        Args:
            key: The child or pod.
            namespace: Its namespace.
            labels: The labels it should have.
            uid: UID it must have; any if None.
            owner: UID of its controller; any if None.

        Returns:
            The stored object; None if it does not exist.

        Raises:
            ApiError: The request failed, or the object has changed meanwhile.
        """
        resource = self.resources[key.kind]
        try:
            existing = await self._client.get(resource, key.name, namespace)
            if uid not in {None, existing["metadata"]["uid"]}:
                return None
            if owner not in {None, _controller_of(existing)}:
                return None
            return await self._label(resource, existing, labels)
        except NotFoundError as error:
            _ensure_about(error, key.name)
            return None

    async def _label(
        self, resource: Resource, existing: dict[str, Any], labels: Mapping[str, str]
    ) -> dict[str, Any]:
        """Add missing labels to an object; return the stored object."""
        metadata = existing["metadata"]
        there = metadata.get("labels") or {}
        missing = {name: value for name, value in labels.items() if there.get(name) != value}
        if not missing or "deletionTimestamp" in metadata:
            return existing
        version = metadata["resourceVersion"]
        return await self._client.patch(
            resource,
            metadata["name"],
            metadata["namespace"],
            patch={"metadata": {"labels": missing, "resourceVersion": version}},
            field_manager=FIELD_MANAGER,
        )

    async def patch(self, patch: Patch, version: str) -> WriteResult:
        """Replace fields of a child, if its resourceVersion is still the observed one.

        A child that no longer exists is recreated by the next reconcile.

        Raises:
            ConflictError: The child has changed meanwhile.
            ApiError: The request failed.
        """
        try:
            stored = await self._client.patch(
                self.resources[patch.key.kind],
                patch.key.name,
                patch.namespace,
                patch=json_patch(patch.values, version),
                kind="json",
                field_manager=FIELD_MANAGER,
            )
            return WriteResult(patch.key, stored)
        except NotFoundError as error:
            _ensure_about(error, patch.key.name)
            return WriteResult(patch.key, None)
        except REFUSED as error:
            return WriteResult(patch.key, Refusal(error.message))

    async def delete(
        self,
        key: ChildKey,
        namespace: str,
        uid: str,
        version: str | None,
        *,
        foreground: bool = False,
        grace_seconds: int | None = None,
    ) -> ChildKey | None:
        """Delete a child.

        Args:
            key: The child.
            namespace: Its namespace.
            uid: Its UID; a successor of the same name is not deleted.
            version: The observed resourceVersion; any if None.
            foreground: Whether it stays until what it owns is gone.
            grace_seconds: Grace period of a pod; its own if None.

        Returns:
            The child, if it still existed.

        Raises:
            ConflictError: It has another resourceVersion or UID.
            ApiError: The request failed.
        """
        try:
            await self._client.delete(
                self.resources[key.kind],
                key.name,
                namespace,
                uid=uid,
                resource_version=version,
                propagation="Foreground" if foreground else "Background",
                grace_period=grace_seconds if key.kind == PODS.kind else None,
            )
        except NotFoundError as error:
            _ensure_about(error, key.name)
            return None
        return key


def _ensure_about(error: NotFoundError, name: str) -> None:
    """Raise the error unless it is about this very object.

    A server that does not serve the kind at the moment responds with 404 as well.
    """
    if not error.is_about(name):
        raise error


def _controller_of(document: Mapping[str, Any]) -> str | None:
    owners = document["metadata"].get("ownerReferences") or []
    return next((owner["uid"] for owner in owners if owner.get("controller")), None)


def _controller_name(document: Mapping[str, Any]) -> str:
    """Return kind and name of the controller of an object; empty if it has none."""
    owners = document["metadata"].get("ownerReferences") or []
    return next((" ".join(_qualified(owner)) for owner in owners if owner.get("controller")), "")


def _qualified(owner: Mapping[str, Any]) -> tuple[str, str]:
    """Return kind and name of an owner, the kind with its group as kubectl writes it."""
    group = owner.get("apiVersion", "").rpartition("/")[0]
    return f"{owner.get('kind', '')}.{group}".rstrip("."), owner.get("name", "")


def _not_blocking(document: dict[str, Any]) -> dict[str, Any]:
    """Return the child without blockOwnerDeletion; it is garbage collected nevertheless."""
    metadata = document["metadata"]
    owners = [
        {key: value for key, value in owner.items() if key != "blockOwnerDeletion"}
        for owner in metadata["ownerReferences"]
    ]
    return {**document, "metadata": {**metadata, "ownerReferences": owners}}
