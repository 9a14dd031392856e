"""Typed views of API objects, as the caches hold them.

A view declares only the fields a controller reads; the decoder skips the rest. A view is therefore
never sent back to the server: fields that it does not declare would be lost.

All views are frozen (a shared cache cannot be modified by accident) and invisible to the cycle
collector (``gc=False``: decoded JSON cannot form cycles, and a cache of many thousand tracked
objects would stop the world at every full collection).
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct, field

SHARED = Meta(extra={"shared": True})
"""Marks what many objects repeat: the cache keeps one copy of each distinct value.

That is a string, or a tuple or struct of values that can be hashed.
"""
Shared = Annotated[str, SHARED]
"""A string that many objects repeat."""


class View(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """Base of typed views: camelCase in JSON, frozen, not tracked by the cycle collector.

    These class options are inherited, except ``kw_only``, which msgspec applies per class.
    """


class OwnerReference(View, frozen=True, gc=False, kw_only=True):
    """``metadata.ownerReferences[]``."""

    api_version: Shared = ""
    kind: Shared = ""
    name: Shared = ""
    uid: Shared = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(View, frozen=True, gc=False, kw_only=True):
    """The part of ``metadata`` most controllers need."""

    name: str = ""
    namespace: Shared = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, Shared] = field(default_factory=dict)
    owner_references: Annotated[tuple[OwnerReference, ...], SHARED] = ()
    creation_timestamp: Shared = ""
    deletion_timestamp: str | None = None


class FullObjectMeta(ObjectMeta, frozen=True, gc=False, kw_only=True):
    """All of ``metadata`` but ``managedFields``."""

    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: list[str] = field(default_factory=list)
    generate_name: str = ""
    deletion_grace_period_seconds: int | None = None


class HasMetadata(Protocol):
    """The protocol that an informer requires of the type it caches."""

    @property
    def metadata(self) -> ObjectMeta:
        """Identity, version and owners of the object."""
        ...


class MetadataOnly(View, frozen=True, gc=False, kw_only=True):
    """An object of which only the metadata is needed."""

    api_version: Shared = ""
    kind: Shared = ""
    metadata: FullObjectMeta = field(default_factory=FullObjectMeta)


class AnyObject(View, frozen=True, gc=False, kw_only=True):
    """An object of any kind, body included, for controllers that need everything.

    ``spec``, ``status`` and the other bodies are plain JSON data; treat them as read-only.
    """

    api_version: Shared = ""
    kind: Shared = ""
    metadata: FullObjectMeta = field(default_factory=FullObjectMeta)
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    data: Any = None
    binary_data: dict[str, str] = field(default_factory=dict)
    type: str = ""
    immutable: bool = False
    revision: int = 0
    subsets: list[dict[str, Any]] = field(default_factory=list)
    address_type: str = ""
    endpoints: list[dict[str, Any]] = field(default_factory=list)
    ports: list[dict[str, Any]] = field(default_factory=list)
    rules: list[dict[str, Any]] | None = None
    aggregation_rule: dict[str, Any] | None = None
    subjects: list[dict[str, Any]] = field(default_factory=list)
    role_ref: dict[str, Any] = field(default_factory=dict)
    secrets: list[dict[str, Any]] = field(default_factory=list)
    image_pull_secrets: list[dict[str, Any]] = field(default_factory=list)


def controller_of(obj: HasMetadata) -> OwnerReference | None:
    """Return the owner reference with ``controller: true``, if there is one."""
    for reference in obj.metadata.owner_references:
        if reference.controller:
            return reference
    return None
