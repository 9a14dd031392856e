"""How responses and watch events show objects: whole, metadata only, or as rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.values.codec import decode, encode

from .versions import convert, convert_all

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests.negotiation import Format
    from traincrew.local.apiserver.storage import Entry
    from traincrew.local.apiserver.values.documents import Document

    from .lists import Page

__all__ = ["Representation"]


def _untyped(entries: list[Entry], resource: ResourceType) -> list[bytes]:
    """Encode the items of a list of a built-in kind: without ``kind`` and ``apiVersion``.

    Upstream's typed objects have neither inside of a list; custom resources, which have no Go
    types, keep both.
    """
    kind = b'"kind":%b' % encode(resource.kind)
    version = b'"apiVersion":%b' % encode(resource.api_version)
    heads = (b"{%b,%b," % (version, kind), b"{%b,%b," % (kind, version))
    size = len(heads[0])
    return [
        # As almost every client sends them: in front, so that nothing has to be decoded.
        b"{" + entry.data[size:] if entry.data.startswith(heads) else _decoded_untyped(entry)
        for entry in entries
    ]


def _decoded_untyped(entry: Entry) -> bytes:
    obj = entry.obj
    return encode({key: obj[key] for key in obj if key not in {"kind", "apiVersion"}})


class Representation:
    """Encodes the objects of one resource in one negotiated format.

    Args:
        resource: the resource in the served version.
        form: the negotiated format.
        include: what a table row contains besides the cells: ``None``, ``Metadata``, ``Object``.
        clock: returns seconds since the epoch, for ages in tables.
    """

    def __init__(
        self, resource: ResourceType, form: Format, include: str, clock: Callable[[], float]
    ) -> None:
        self._resource = resource
        self._form = form
        self._include = include or "Metadata"
        self._clock = clock
        self.key: Hashable = (resource.api_version, form.shape, form.version, self._include)
        """Representations with the same key encode the same bytes."""
        self.content_type = "application/yaml" if form.yaml else "application/json"

    def of(self, resource: ResourceType) -> Representation:
        """Return the same for a resource that is bound to the answers of a conversion webhook."""
        if resource is self._resource:
            return self
        return Representation(resource, self._form, self._include, self._clock)

    def _metadata(self, obj: Document) -> Document:
        return {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{self._form.version}",
            "metadata": obj["metadata"],
        }

    def _columns(self) -> list[Document]:
        from traincrew.local.apiserver.kinds import table

        return table.columns(self._resource)

    def _row(self, obj: Document) -> Document:
        from traincrew.local.apiserver.kinds import table

        cells = table.row(self._resource, obj, self._clock())
        row: Document = {"cells": cells}
        if self._include == "Object":
            row["object"] = obj
        elif self._include != "None":
            row["object"] = self._metadata(obj)
        return row

    def _table(self, metadata: Document, columns: bool, objects: list[Document]) -> Document:
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{self._form.version}",
            "metadata": metadata,
            "columnDefinitions": self._columns() if columns else None,
            "rows": [self._row(obj) for obj in objects],
        }

    def _finish(self, document: Document) -> bytes:
        if not self._form.yaml:
            return encode(document)
        from traincrew.local.apiserver.values.yaml import to_yaml

        return to_yaml(document)

    def single(self, entry: Entry) -> bytes:
        """Encode the response for one object."""
        entry = convert(self._resource, entry)
        if self._form.shape == "object":
            return self._finish(entry.obj) if self._form.yaml else entry.data
        if self._form.shape == "partial":
            return self._finish(self._metadata(entry.obj))
        metadata = {"resourceVersion": entry.obj["metadata"].get("resourceVersion", "")}
        return self._finish(self._table(metadata, columns=True, objects=[entry.obj]))

    def page(self, page: Page) -> bytes:
        """Encode the response for a list."""
        metadata: Document = {"resourceVersion": str(page.revision)}
        if page.token:
            metadata["continue"] = page.token
            if page.remaining is not None:
                metadata["remainingItemCount"] = page.remaining
        entries = convert_all(self._resource, page.entries)
        form = self._form
        if form.shape == "object":
            head = {
                "kind": self._resource.list_kind,
                "apiVersion": self._resource.api_version,
                "metadata": metadata,
            }
            if self._resource.custom is None:
                items = _untyped(entries, self._resource)
            else:
                items = [entry.data for entry in entries]
            body = b'%b,"items":[%b]}' % (encode(head)[:-1], b",".join(items))
            return self._finish(decode(body)) if form.yaml else body
        if form.shape == "partial":
            return self._finish(
                {
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": f"meta.k8s.io/{form.version}",
                    "metadata": metadata,
                    "items": [self._metadata(entry.obj) for entry in entries],
                }
            )
        objects = [entry.obj for entry in entries]
        return self._finish(self._table(metadata, columns=True, objects=objects))

    def event_object(self, entry: Entry, *, first: bool) -> bytes:
        """Encode the ``object`` of a watch event.

        Args:
            entry: the state to show.
            first: whether this is the watcher's first event; a table defines its columns there.
        """
        entry = convert(self._resource, entry)
        if self._form.shape == "object":
            return entry.data
        if self._form.shape == "partial":
            return encode(self._metadata(entry.obj))
        metadata = {"resourceVersion": str(entry.revision)}
        return encode(self._table(metadata, columns=first, objects=[entry.obj]))

    def bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        """Encode the ``object`` of a BOOKMARK event."""
        metadata: Document = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: Document = {
            "kind": self._resource.kind,
            "apiVersion": self._resource.api_version,
            "metadata": metadata,
        }
        if self._form.shape == "partial":
            obj = self._metadata(obj)
        elif self._form.shape == "table":
            version = f"meta.k8s.io/{self._form.version}"
            obj["metadata"] = {"creationTimestamp": None, **metadata}
            obj = {
                "kind": "Table",
                "apiVersion": version,
                "metadata": {"resourceVersion": str(revision)},
                "columnDefinitions": None,
                "rows": [{"cells": [], "object": obj}] if initial_end else [],
            }
        return encode(obj)

    @property
    def tabular(self) -> bool:
        """Whether objects are shown as tables, where the first event differs from the others."""
        return self._form.shape == "table"
