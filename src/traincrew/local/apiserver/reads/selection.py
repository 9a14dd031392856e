"""The objects that a list, a watch or a deletecollection selects."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values import selectors
from traincrew.local.apiserver.values.errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.storage import Entry, Key

__all__ = ["Selection"]

_labels = lru_cache(maxsize=512)(selectors.label_selector)


class Selection:
    """A namespace, a label selector and a field selector.

    Attributes:
        namespace: the namespace; None means all.
        everything: whether the selectors match every object.
        only: the one key that can match, when the field selector names it.
    """

    __slots__ = ("_by_field", "_by_label", "everything", "namespace", "only")

    def __init__(self, call: Call, resource: ResourceType) -> None:
        """Parse the selectors of a request.

        Raises:
            StatusError: 400 for an invalid selector or an unsupported field.
        """
        target = call.target
        self.namespace = target.namespace
        self._by_label: Callable[[dict[str, str]], bool] | None = None
        self._by_field: Callable[[dict[str, Any]], bool] | None = None
        self.only: Key | None = None
        try:
            if text := call.text("labelSelector"):
                self._by_label = _labels(text)
            if text := call.text("fieldSelector"):
                self._by_field = selectors.field_selector(text, _selectable(resource))
                self.only = self._only_key(text, resource)
        except selectors.SelectorError as error:
            raise bad_request(str(error)) from None
        if target.name is not None:  # watch of a single object
            self.only = (target.namespace or "", target.name)
            name = target.name
            self._by_field = lambda obj: obj["metadata"]["name"] == name
        self.everything = self._by_label is None and self._by_field is None

    def _only_key(self, text: str, resource: ResourceType) -> Key | None:
        """Return the only key that a selector such as ``metadata.name=x`` can match."""
        for term in text.split(","):
            field, sign, name = term.partition("=")
            if field == "metadata.name" and sign and name and not name.startswith("="):
                if not resource.namespaced:
                    return ("", name)
                if self.namespace is not None:
                    return (self.namespace, name)
        return None

    def matches(self, entry: Entry) -> bool:
        """Return whether an object is selected."""
        if self.namespace is not None and entry.key[0] != self.namespace:
            return False
        if self.everything:
            return True
        if self.only is not None and entry.key != self.only:
            return False
        obj = entry.obj
        if self._by_label is not None and not self._by_label(obj["metadata"].get("labels") or {}):
            return False
        return self._by_field is None or self._by_field(obj)


def _selectable(resource: ResourceType) -> selectors.FieldLabels:
    """Return the fields by which objects of a resource can be selected."""
    if resource.custom is None:
        return resource.strategy.selectable
    declared = resource.custom.get("selectableFields") or ()
    return selectors.FieldLabels.of(*(each["jsonPath"].lstrip(".") for each in declared))
