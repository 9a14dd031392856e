"""Stored objects in the version that a client asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests.conversions import ConversionNeeded
from traincrew.local.apiserver.storage import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.values.documents import Document

    from .selection import Selection

__all__ = ["convert", "convert_all", "selected"]


def convert(resource: ResourceType, entry: Entry) -> Entry:
    """Convert a stored object to the served version of a resource.

    Raises:
        ConversionNeeded: a webhook has to do it first.
    """
    if resource.from_storage is None:
        return entry
    return Entry(entry.key, entry.revision, resource.from_storage(entry.copy()))


def convert_all(resource: ResourceType, entries: Sequence[Entry]) -> list[Entry]:
    """Convert stored objects to the served version of a resource.

    Raises:
        ConversionNeeded: a webhook has to convert some of them first; it names all of these.
    """
    if resource.from_storage is None:
        return list(entries)
    converted: list[Entry] = []
    needed: list[Document] = []
    for entry in entries:
        try:
            converted.append(convert(resource, entry))
        except ConversionNeeded as error:
            needed += error.documents
    if needed:
        raise ConversionNeeded(needed, resource.api_version)
    return converted


def selected(resource: ResourceType, selection: Selection, entries: Sequence[Entry]) -> list[Entry]:
    """Return the stored objects that are selected.

    A webhook may convert labels and fields, so the selectors see what it returns.

    Raises:
        ConversionNeeded: a webhook has to convert some of them first.
    """
    if selection.everything or resource.conversion is None:
        return [entry for entry in entries if selection.matches(entry)]
    shown = convert_all(resource, entries)
    pairs = zip(entries, shown, strict=True)
    return [entry for entry, seen in pairs if selection.matches(seen)]
