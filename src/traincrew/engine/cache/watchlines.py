"""Reads fields of objects of a watch that are not decoded."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from traincrew.engine.cache.views import Bookmark
from traincrew.engine.errors import ApiError


def undecoded(obj: object) -> Raw:
    """Return the undecoded object of a bookmark or error."""
    assert isinstance(obj, Raw)
    return obj


def status_error(raw: Raw) -> ApiError:
    """Return the error of an ``ERROR`` event."""
    try:
        status = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        status = None
    if not isinstance(status, dict):
        status = {}
    code = status.get("code")
    return ApiError.from_status(code if isinstance(code, int) else 500, status)


def version_of(raw: Raw) -> str:
    """Return the ``resourceVersion`` of an undecoded object; empty if it has none."""
    try:
        return msgspec.json.decode(raw, type=Bookmark).metadata.resource_version
    except msgspec.DecodeError:
        return ""


def describe(raw: Raw) -> str:
    """Return namespace and name of an undecoded object, for logs."""
    try:
        metadata = msgspec.json.decode(raw).get("metadata") or {}
    except (msgspec.DecodeError, AttributeError):
        return "?"
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '?')}"
