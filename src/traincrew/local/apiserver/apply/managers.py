"""The entries of ``metadata.managedFields``: who wrote which fields, when, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from .fieldorder import in_order
from .fieldsets import FieldSet, difference, union

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "APPLY",
    "UPDATE",
    "Entry",
    "Identity",
    "all_fields",
    "cap",
    "entry",
    "identity",
    "printed",
    "readable",
    "sort",
    "without",
]

Entry = dict[str, Any]
APPLY = "Apply"
UPDATE = "Update"
_MAX_UPDATERS = 10
_OLD_UPDATES = "ancient-changes"


class Identity(NamedTuple):
    """The identity of an entry; appliers keep theirs when the API version changes.

    Attributes:
        manager: the field manager.
        operation: ``Apply`` or ``Update``.
        subresource: the subresource written to; empty for the object itself.
        version: API version of the writes; empty for appliers.
    """

    manager: str
    operation: str
    subresource: str
    version: str


def identity(item: Entry) -> Identity:
    """Return the identity of an entry."""
    operation = item["operation"]
    version = "" if operation == APPLY else item.get("apiVersion", "")
    return Identity(item.get("manager", ""), operation, item.get("subresource", ""), version)


def printed(who: Identity) -> bytes:
    """Return the identity as upstream encodes it; conflicts are sorted by it.

    (``managedfields/internal/managers.go``, ``BuildManagerIdentifier``.)
    """
    parts = {
        "manager": who.manager,
        "operation": who.operation,
        "apiVersion": who.version,
        "subresource": who.subresource,
    }
    return msgspec.json.encode({name: text for name, text in parts.items() if text})


def entry(who: Identity, fields: FieldSet, *, api_version: str, time: str | None) -> Entry:
    """Return a new entry, with its keys in upstream's order.

    Args:
        who: the manager.
        fields: the fields it owns, in order.
        api_version: API version of the write.
        time: of the write; None for none.
    """
    result: Entry = {
        "manager": who.manager,
        "operation": who.operation,
        "apiVersion": api_version,
    }
    if time is not None:
        result["time"] = time
    result["fieldsType"] = "FieldsV1"
    result["fieldsV1"] = fields
    if who.subresource:
        result["subresource"] = who.subresource
    return result


def readable(items: Any) -> list[Entry] | None:
    """Return the entries if all are well-formed; None if there are none or any is malformed."""
    if type(items) is not list or not items:
        return None
    for item in items:
        if (
            type(item) is not dict
            or item.get("operation") not in (APPLY, UPDATE)
            or not item.get("apiVersion")
            or item.get("fieldsType") != "FieldsV1"
            or not _is_field_set(item.get("fieldsV1"))
        ):
            return None
    return items


def _is_field_set(value: Any) -> bool:
    """Return whether a value has the structure of ``fieldsV1``: objects in objects."""
    return type(value) is dict and all(map(_is_field_set, value.values()))


def without(item: Entry, *gone: FieldSet) -> Entry | None:
    """Return the entry without some fields: the same object if it had none, None if now empty."""
    fields = item["fieldsV1"]
    rest = fields
    for each in gone:
        rest = difference(rest, each)
    if rest is fields:
        return item
    return {**item, "fieldsV1": rest} if rest else None


def sort(items: list[Entry]) -> list[Entry]:
    """Sort entries: applied ones first, then by time, name, version and subresource."""
    if len(items) > 1:
        items.sort(
            key=lambda item: (
                item["operation"],
                item.get("time") or "",
                item.get("manager", ""),
                item.get("apiVersion", ""),
                item.get("subresource", ""),
            )
        )
    return items


def cap(items: list[Entry]) -> list[Entry]:
    """Merge the oldest updaters into one entry per API version once there are more than ten."""
    updaters = [item for item in items if item["operation"] == UPDATE]
    excess = len(updaters) - _MAX_UPDATERS
    if excess <= 0:
        return items
    updaters.sort(key=lambda item: (item.get("time") or "", item.get("manager", "")))
    buckets: dict[str, Entry] = {}
    merged: set[int] = set()
    for item in updaters:
        if excess <= 0:
            break
        version = item.get("apiVersion", "")
        bucket = buckets.get(version)
        if bucket is None:
            buckets[version] = item
            continue
        fields = in_order(union(bucket["fieldsV1"], item["fieldsV1"]))
        merged |= {id(bucket), id(item)}
        ancient = Identity(_OLD_UPDATES, UPDATE, "", version)
        buckets[version] = entry(ancient, fields, api_version=version, time=item.get("time"))
        excess -= 1
    kept = [item for item in items if id(item) not in merged]
    return kept + [
        item
        for item in buckets.values()
        if item["manager"] == _OLD_UPDATES and all(item is not other for other in kept)
    ]


def all_fields(items: Iterable[Entry]) -> FieldSet:
    """Return the fields of all entries."""
    result: FieldSet = {}
    for item in items:
        result = union(result, item["fieldsV1"])
    return result
