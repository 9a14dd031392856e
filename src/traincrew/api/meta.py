"""The Kubernetes types every kind shares: metadata, owner references, conditions.

Only the fields that decisions depend on are declared; decoding skips the rest. Objects decoded here
are therefore never sent back to the API.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, field

SHARED = Meta(extra={"shared": True})
"""Marks what repeats in many objects: a cache keeps one copy of each distinct value.

That is a string, or a tuple or struct of values that can be hashed.
"""
Shared = Annotated[str, SHARED]
"""A string that repeats in many objects."""


class View(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """Base of decoded views: camelCase in JSON, immutable."""


class OwnerReference(View, frozen=True, gc=False, kw_only=True):
    """``metadata.ownerReferences[]``."""

    api_version: Shared = ""
    kind: Shared = ""
    name: Shared = ""
    uid: Shared = ""
    controller: bool = False


class ObjectMeta(View, frozen=True, gc=False, kw_only=True):
    """The part of ``metadata`` that decisions depend on."""

    name: str = ""
    namespace: Shared = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, Shared] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: Annotated[tuple[OwnerReference, ...], SHARED] = ()
    creation_timestamp: Shared = ""
    deletion_timestamp: str | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object: the one reference with ``controller: true``."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class CustomObject(View, frozen=True, gc=False, kw_only=True):
    """A training job as stored: typed metadata, plain ``spec`` and ``status``.

    ``spec`` stays plain data here so that one job that cannot be decoded does not hide the others
    from the operator: that job fails with the decoder's message.
    """

    api_version: Shared = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


class Condition(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """One entry of ``status.conditions``: `metav1.Condition`, and the Job API's probe time.

    ``last_transition_time`` changes exactly when ``status`` does.
    """

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None

    @property
    def is_true(self) -> bool:
        """Whether the condition holds."""
        return self.status == "True"


class Problem(NamedTuple):
    """Why a job cannot run, or what of it is not honored."""

    field: str
    """Path of the field, such as ``spec.backend``."""
    message: str
    """What is wrong, and what to write instead."""
    event: str | None = None
    """Message of the event, if the contract prescribes one; else the whole text."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Owner(View, frozen=True, gc=False, kw_only=True):
    """The training job that owns a child."""

    api_version: str
    kind: str
    name: str
    namespace: str
    uid: str
    labels: dict[str, str] = field(default_factory=dict)

    def owner_reference(self) -> dict[str, Any]:
        """Return the controller reference of every child, for garbage collection."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 timestamp as Kubernetes writes it.

    Raises:
        ValueError: The text is not a timestamp.
    """
    return datetime.fromisoformat(text).astimezone(UTC)


def format_time(moment: datetime) -> str:
    """Format a timestamp as `metav1.Time` does: UTC, whole seconds, ``Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
