"""Reads fields of objects of a watch that are not decoded."""

from __future__ import annotations

from msgspec import Raw

from traincrew.engine.cache.views import Bookmark
from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.engine.errors import ApiError


def undecoded(obj: object) -> Raw:
    """Return the undecoded object of a bookmark or error."""
    assert isinstance(obj, Raw)
    return obj


def status_error(raw: Raw) -> ApiError:
    """Return the error of an ``ERROR`` event."""
    try:
        status = decode_json(raw)
    except UndecodableError:
        status = None
    if not isinstance(status, dict):
        status = {}
    code = status.get("code")
    return ApiError.from_status(code if isinstance(code, int) else 500, status)


def version_of(raw: Raw) -> str:
    """Return the ``resourceVersion`` of an undecoded object; empty if it has none."""
    try:
        return decode_json(raw, type=Bookmark).metadata.resource_version
    except UndecodableError:
        return ""


def describe(raw: Raw) -> str:
    """Return namespace and name of an undecoded object, for logs."""
    try:
        metadata = decode_json(raw).get("metadata") or {}
    except (UndecodableError, AttributeError):
        return "?"
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '?')}"
