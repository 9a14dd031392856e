"""The verbs of the Kubernetes API: plain dictionaries in, plain dictionaries out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from traincrew.engine.client.bounds import Pages
from traincrew.engine.client.requester import Parameters, Requester, as_object
from traincrew.engine.errors import BadAnswerError, ConflictError, GoneError, NotFoundError

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncGenerator, Awaitable

    from traincrew.engine.resources import Resource

T = TypeVar("T")

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY_TYPE = "application/apply-patch+yaml"
_METADATA_TYPE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Client(Requester):
    """The API of one server; see `Requester` for its arguments and for how requests are sent.

    Every verb raises `ApiError` or a subclass of it.
    """

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        metadata_only: bool = False,
    ) -> dict[str, Any]:
        """Read one object, or only its metadata; ``namespace`` defaults to the configuration's."""
        path = resource.path(self._namespace(resource, namespace), name, subresource)
        accept = _METADATA_TYPE if metadata_only else None
        return as_object(await self.request("GET", path, accept=accept))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
    ) -> dict[str, Any]:
        """Read all pages of a collection.

        Args:
            resource: What to list.
            namespace: ``None`` means all namespaces.
            label_selector: In the server's syntax, such as ``app=x,tier in (a,b)``.
            field_selector: In the server's syntax.
            limit: Objects per page.

        Returns:
            A list object with all ``items`` and the ``resourceVersion`` of the list.
        """
        path = resource.path(namespace)
        params: dict[str, str | int | None] = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": limit,
        }
        items: builtins.list[Any] = []
        pages = Pages()
        body = await self.request("GET", path, params=params)
        while True:
            page = as_object(body)
            found, token = _items(page), _continue(page)
            pages.add(len(found), token, size=len(body))
            items += found
            if not token:
                return page | {"items": items}
            try:
                body = await self.request("GET", path, params=params | {"continue": token})
            except GoneError:
                # The continue token has expired: list everything in one page, as client-go does.
                body = await self.request("GET", path, params=params | {"limit": None})
                items, pages = [], Pages()

    async def create(
        self,
        resource: Resource,
        obj: dict[str, Any],
        namespace: str | None = None,
        *,
        field_manager: str | None = None,
        subresource: str | None = None,
        name: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """POST an object; with ``name`` and ``subresource``, to that subresource (``binding``)."""
        target = self._namespace(resource, namespace, obj)
        path = resource.path(target, name, subresource)
        params: Parameters = {
            "fieldManager": field_manager,
            "dryRun": "All" if dry_run else None,
        }
        return as_object(await self.request("POST", path, params=params, body=obj))

    async def apply(
        self,
        resource: Resource,
        obj: dict[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Apply an object server-side; name and namespace are taken from the object."""
        path = resource.path(self._namespace(resource, None, obj), _name(obj), subresource)
        params: Parameters = {
            "fieldManager": field_manager,
            "force": force,
            "dryRun": "All" if dry_run else None,
        }
        body = await self.request("PATCH", path, params=params, body=obj, content_type=_APPLY_TYPE)
        return as_object(body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        patch: dict[str, Any] | builtins.list[Any],
        kind: Literal["merge", "json", "strategic"] = "merge",
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> dict[str, Any]:
        """Patch an object."""
        path = resource.path(self._namespace(resource, namespace), name, subresource)
        params = {"fieldManager": field_manager}
        content_type = _PATCH_TYPES[kind]
        return as_object(
            await self.request("PATCH", path, params=params, body=patch, content_type=content_type)
        )

    async def replace(
        self,
        resource: Resource,
        obj: dict[str, Any],
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> dict[str, Any]:
        """PUT a whole object, which must be the complete dictionary that was read.

        Never build it from a typed view: fields that the view does not declare would be lost.
        """
        path = resource.path(self._namespace(resource, None, obj), _name(obj), subresource)
        params = {"fieldManager": field_manager}
        return as_object(await self.request("PUT", path, params=params, body=obj))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = "Background",
        grace_period: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> dict[str, Any]:
        """Delete one object.

        Args:
            resource: Its resource.
            name: Its name.
            namespace: Its namespace; the configuration's by default.
            propagation: What happens to its dependents. None leaves that to an earlier deletion,
                and else to the server: some kinds are deleted without them.
            grace_period: Seconds; ``None`` leaves the object's own.
            uid: Delete only this incarnation; another one gives `ConflictError`.
            resource_version: Delete only this version.

        Returns:
            The object, or a ``Status``.
        """
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        preconditions = {
            key: value
            for key, value in (("uid", uid), ("resourceVersion", resource_version))
            if value is not None
        }
        if preconditions:
            options["preconditions"] = preconditions
        path = resource.path(self._namespace(resource, namespace), name)
        return as_object(await self.request("DELETE", path, body=options))

    async def is_gone(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str
    ) -> bool:
        """Return whether the server confirms that exactly this object does not exist (any more).

        An object that is missing from a cache or a list may still exist; call this before doing
        anything irreversible about its absence.

        Args:
            resource: Its resource, in a version that is served.
            name: Its name.
            namespace: Its namespace; the configuration's by default.
            uid: Its UID, since another object may have that name now. Empty for any object.

        Raises:
            ApiError: The server gave no clear answer.
        """
        try:
            live = await self.get(resource, name, namespace)
        except NotFoundError as error:
            if error.is_about(name):
                return True
            raise
        return bool(uid) and live.get("metadata", {}).get("uid") != uid

    async def unless_gone(
        self,
        write: Awaitable[T],
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str,
    ) -> T | None:
        """Return the answer to a write to exactly this object, or None if the object is gone.

        The server answers with a conflict when another object has the name by now, and also when
        the write lost a race. In the second case the object still exists, and the error is raised.

        Args:
            write: The request, with `uid` as its precondition.
            resource: The object's resource.
            name: Its name.
            namespace: Its namespace; the configuration's by default.
            uid: Its UID.

        Raises:
            ApiError: The server refused.
        """
        try:
            return await write
        except NotFoundError:
            return None
        except ConflictError:
            if await self.is_gone(resource, name, namespace, uid=uid):
                return None
            raise

    async def server_version(self) -> dict[str, Any]:
        """GET ``/version``: major, minor, gitVersion."""
        return as_object(await self.request("GET", "/version"))

    async def logs(
        self,
        name: str,
        namespace: str | None = None,
        *,
        container: str | None = None,
        follow: bool = False,
        tail: int | None = None,
        since_time: datetime | str | None = None,
        timestamps: bool = False,
        previous: bool = False,
        limit_bytes: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the log of a container, in pieces of any size.

        Args:
            name: Pod.
            namespace: The configuration's by default.
            container: May be left out when the pod has only one.
            follow: Continue until the container ends.
            tail: Only the last lines.
            since_time: Only lines newer than this; RFC 3339 if a string.
            timestamps: Prefix each line with its time.
            previous: The log of the container's previous run.
            limit_bytes: Maximum length; the last line may be cut off. Of a server that sends more,
                the rest is not read.
        """
        if isinstance(since_time, datetime):
            since_time = since_time.astimezone(UTC).isoformat().replace("+00:00", "Z")
        from traincrew.engine.resources import PODS

        params: dict[str, str | int | None] = {
            "container": container,
            "follow": "true" if follow else None,
            "tailLines": tail,
            "sinceTime": since_time,
            "timestamps": "true" if timestamps else None,
            "previous": "true" if previous else None,
            "limitBytes": limit_bytes,
        }
        path = PODS.path(self._namespace(PODS, namespace), name, "log")
        left = limit_bytes
        async with self.stream(path, params, accept="*/*") as chunks:
            async for chunk in chunks:
                if left is not None:
                    if len(chunk) >= left:
                        yield chunk[:left]
                        return
                    left -= len(chunk)
                yield chunk

    def _namespace(
        self, resource: Resource, namespace: str | None, obj: dict[str, Any] | None = None
    ) -> str | None:
        if not resource.namespaced:
            return None
        if namespace is None and obj is not None:
            namespace = obj.get("metadata", {}).get("namespace")
        return namespace or self.config.namespace


def _name(obj: dict[str, Any]) -> str:
    name = obj.get("metadata", {}).get("name")
    if not name:
        raise ValueError(f"metadata.name is missing in {obj.get('kind') or 'the object'}")
    return str(name)


def _items(page: dict[str, Any]) -> list[Any]:
    items = page.get("items") or []
    if not isinstance(items, list):
        raise BadAnswerError(f"the server answered with a {type(items).__name__} of items")
    return items


def _continue(page: dict[str, Any]) -> str:
    metadata = page.get("metadata")
    token = metadata.get("continue") if isinstance(metadata, dict) else ""
    return token if isinstance(token, str) else ""
