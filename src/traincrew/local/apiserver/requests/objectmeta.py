"""The fields of ``metadata`` that the server sets."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

from traincrew.engine.times import format_time

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["generate_name", "mark_deleting", "meta_of", "new_uid", "timestamp"]

# Upstream's alphabet: without vowels and look-alikes, so that no words are generated.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MAX_BASE_LENGTH = 58


def timestamp(seconds: float) -> str:
    """Format seconds since the epoch as RFC 3339 in UTC, in whole seconds.

    What is later than the last moment that the format has becomes that one.
    """
    return _timestamp(int(min(seconds, _LAST)))


# Many objects are written within a second, and each has the time twice.
@lru_cache(maxsize=16)
def _timestamp(seconds: int) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


_LAST = 253402300799  # 9999-12-31T23:59:59Z


def new_uid() -> str:
    """Return a random UUID."""
    return str(UUID(bytes=os.urandom(16), version=4))


def generate_name(base: str) -> str:
    """Generate a name from a base and five random characters."""
    suffix = "".join(random.choices(_ALPHABET, k=5))  # noqa: S311 - unique, not secret
    return base[:_MAX_BASE_LENGTH] + suffix


def meta_of(obj: Document) -> Document:
    """Return the object's metadata; add it when it is missing."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        metadata = obj["metadata"] = {}
    return metadata


def mark_deleting(metadata: Document, now: float, grace_seconds: int) -> None:
    """Set the deletion timestamp and grace period, and raise the generation."""
    if metadata.get("deletionTimestamp") is None and metadata.get("generation"):
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = timestamp(now + grace_seconds)
    metadata["deletionGracePeriodSeconds"] = grace_seconds
