"""Decode lists and watch events straight into typed views.

The common case takes one pass per event. Only what does not fit the type (a bookmark for a type
with required fields, an ``ERROR`` status, an object with a ``null`` where the type has a list)
takes a second, slower one.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import force_setattr

from traincrew.engine.cache.sharing import sharer
from traincrew.engine.decoding import shallow
from traincrew.engine.objects import HasMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.resources import Resource

T = TypeVar("T", bound=HasMetadata)
_D = TypeVar("_D")


class _Event(Struct, Generic[T], gc=False):
    type: str
    object: T


class RawEvent(Struct, gc=False):
    """A watch event whose object is not decoded yet."""

    type: str = ""
    object: Raw = field(default_factory=Raw)


class ListMeta(Struct, gc=False, rename="camel"):
    """``metadata`` of a list."""

    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class _List(Struct, Generic[T]):
    metadata: ListMeta = field(default_factory=ListMeta)
    items: list[T] = field(default_factory=list)


class _RawList(Struct):
    metadata: ListMeta = field(default_factory=ListMeta)
    items: list[Raw] | None = None


class BookmarkMeta(Struct, gc=False, rename="camel"):
    """``metadata`` of the object of a bookmark."""

    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Bookmark(Struct, gc=False):
    """Object of a ``BOOKMARK`` event."""

    metadata: BookmarkMeta = field(default_factory=BookmarkMeta)


class ViewDecoder(Generic[T]):
    """Decodes objects of one resource into one view type.

    Args:
        resource: Where ``kind`` and ``apiVersion`` come from: items of a list do not have them.
        type: The view.
    """

    def __init__(self, resource: Resource, type: type[T]) -> None:  # noqa: A002
        self.type = type
        self._event = msgspec.json.Decoder(_Event[type])  # type: ignore[valid-type]
        self._object = msgspec.json.Decoder(type)
        self._list = msgspec.json.Decoder(_List[type])  # type: ignore[valid-type]
        self._raw_event = msgspec.json.Decoder(RawEvent)
        self._raw_list = msgspec.json.Decoder(_RawList)
        self._bookmark = msgspec.json.Decoder(Bookmark)
        self._finish = _finisher(resource, type)
        self._share = sharer(type)

    def event(self, line: bytes) -> tuple[str, T | Raw]:
        """Decode one line of a watch.

        Returns:
            The event type and the object; `Raw` for anything that does not fit the view.

        Raises:
            msgspec.DecodeError: The line is not a watch event.
        """
        try:
            event = _decode(self._event, line)
        except msgspec.ValidationError:
            raw = _decode(self._raw_event, line)
            return raw.type, raw.object
        if event.type in {"BOOKMARK", "ERROR"}:
            raw = _decode(self._raw_event, line)
            return raw.type, raw.object
        if event.type == "MODIFIED":
            self._complete(event.object, self._share.changed)
        else:
            self._complete(event.object)
        return event.type, event.object

    def object(self, raw: Raw | bytes) -> T:
        """Decode one object, tolerating ``null`` for anything that has a default.

        Raises:
            msgspec.ValidationError: It does not fit the type.
        """
        try:
            obj = _decode(self._object, raw)
        except msgspec.ValidationError:
            obj = msgspec.convert(_without_nulls(_decode(_ANYTHING, raw)), self.type)
        self._complete(obj)
        return obj

    def page(self, body: bytes) -> tuple[list[T], list[Raw], ListMeta]:
        """Decode one page of a list.

        Returns:
            The objects, those that need the slower `object`, and the metadata of the list.
        """
        try:
            page = _decode(self._list, body)
        except msgspec.ValidationError:
            raw = _decode(self._raw_list, body)
            return [], raw.items or [], raw.metadata
        for item in page.items:
            self._complete(item)
        return page.items, [], page.metadata

    def _complete(self, obj: T, share: Callable[[Any], Any] | None = None) -> None:
        """Fill in what a list leaves out; share what others have, at once, or a list needs more."""
        if self._finish is not None:
            self._finish(obj)
        (share or self._share.whole)(obj)

    def bookmark(self, raw: Raw) -> Bookmark:
        """Decode the object of a bookmark."""
        return _decode(self._bookmark, raw)


_ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def _decode(decoder: msgspec.json.Decoder[_D], data: Raw | bytes) -> _D:
    """Decode JSON, without what is nested too deeply for the decoder.

    Raises:
        msgspec.DecodeError: It is no JSON, or no UTF-8.
        msgspec.ValidationError: It does not fit the type.
    """
    try:
        try:
            return decoder.decode(data)
        except RecursionError:
            return decoder.decode(shallow(bytes(data)))
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"JSON is not UTF-8 text (at byte {error.start})") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def _finisher(resource: Resource, type: type[Any]) -> Callable[[Any], None] | None:  # noqa: A002
    """Return a function that fills in kind and API version, if the type has either."""
    fields = type.__struct_fields__
    kind = intern(resource.kind) if "kind" in fields else None
    api_version = intern(resource.api_version) if "api_version" in fields else None

    if kind is None and api_version is None:
        return None

    def finish(obj: Any) -> None:
        if kind is not None:
            force_setattr(obj, "kind", kind)
        if api_version is not None:
            force_setattr(obj, "api_version", api_version)

    return finish
