"""The fields of ``metadata`` that belong to the server."""

from __future__ import annotations

import os
import random
import time
from typing import Any
from uuid import UUID

__all__ = ["generate_name", "mark_deleting", "meta_of", "new_uid", "timestamp"]

Document = dict[str, Any]

# Upstream's alphabet: no vowels and no look-alikes, so that no words come out.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC, whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def new_uid() -> str:
    """A random UUID."""
    return str(UUID(bytes=os.urandom(16), version=4))


def generate_name(base: str) -> str:
    """A name made of a base and five random characters."""
    suffix = "".join(random.choices(_ALPHABET, k=5))  # noqa: S311 - unique, not secret
    return base[:_LONGEST_BASE] + suffix


def meta_of(obj: Document) -> Document:
    """The object's metadata, made when missing."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        metadata = obj["metadata"] = {}
    return metadata


def mark_deleting(metadata: Document, now: float, grace_seconds: int) -> None:
    """Say that the object is going, and when; this is a change of the wanted state."""
    if metadata.get("deletionTimestamp") is None and metadata.get("generation"):
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = timestamp(now + grace_seconds)
    metadata["deletionGracePeriodSeconds"] = grace_seconds
