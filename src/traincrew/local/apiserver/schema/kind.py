"""The schema of one kind and its operations."""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values import causes as why

from .builtin import builtin_kinds, builtin_node
from .checks import check
from .complete import complete
from .custom import crd_node
from .prune import Pruned, fill_defaults, prune, prune_and_check

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.values.paths import Path

    from .node import SchemaNode

__all__ = ["ObjectSchema", "from_crd", "load_builtin"]

_STATUS: dict[str, Any] = {"f:status": {}}
_SPEC: dict[str, Any] = {"f:spec": {}}


class ObjectSchema:
    """The schema of the objects of one kind.

    Attributes:
        group: API group, empty for the core group.
        version: such as ``v1``.
        kind: such as ``Pod``.
        node: the compiled schema that typed operations walk.
        custom: whether it comes from a CustomResourceDefinition.
    """

    def __init__(
        self,
        group: str,
        version: str,
        kind: str,
        *,
        definition: str = "",
        open_api_v3_schema: Document | None = None,
        status_subresource: bool = True,
        reset_by_status: tuple[str, ...] = (),
    ) -> None:
        self.group = group
        self.version = version
        self.kind = kind
        self.custom = open_api_v3_schema is not None
        self._definition = definition
        self._source = open_api_v3_schema or {}
        self._status_subresource = status_subresource
        self._reset_by_status = reset_by_status

    @cached_property
    def node(self) -> SchemaNode:
        """The compiled schema."""
        return crd_node(self._source) if self.custom else builtin_node(self._definition)

    @cached_property
    def has_status(self) -> bool:
        """Whether ``status`` is written through its own subresource only."""
        return self._status_subresource and (self.custom or "status" in self.node.fields)

    def reset_fields(self, subresource: str) -> dict[str, Any]:
        """Return the fields a write to a (sub)resource does not change and gives no ownership of.

        Returns:
            A field set; everything below a member belongs to it.
        """
        if subresource != "status":
            return _STATUS if self.has_status and not subresource else {}
        if self.custom:
            return {"f:metadata": {}, "f:spec": {}}
        if not self._reset_by_status:
            return _SPEC
        return _SPEC | {"f:metadata": {f"f:{name}": {} for name in self._reset_by_status}}

    def prune(self, obj: Document, emptied: list[tuple[Path, Any]] | None = None) -> list[str]:
        """Remove unknown fields and null fields, in place.

        Args:
            obj: the document.
            emptied: see `prune.prune`.

        Returns:
            Paths of the unknown fields, such as ``spec.template.spec.containers[0].imag``.
        """
        return prune(self.node, obj, emptied)

    def prune_and_check(self, obj: Document, emptied: list[tuple[Path, Any]]) -> Pruned:
        """Remove unknown fields and null fields, in place, and check the others.

        Custom resources are only pruned: they are checked with their defaults, just before they
        are stored. See `prune.prune_and_check`.
        """
        if self.custom:
            return Pruned(prune(self.node, obj, emptied), valid=False)
        return prune_and_check(self.node, obj, emptied)

    def default(self, obj: Document) -> None:
        """Fill in the defaults of a custom resource's schema, in place; built-in ones have none."""
        if self.custom and self.node.has_defaults:
            fill_defaults(self.node, obj)

    def complete(self, obj: Document) -> None:
        """Bring an object of a built-in kind into the form Go writes, in place."""
        if not self.custom:
            complete(self.node, obj)

    @cached_property
    def empty(self) -> Document:
        """Return an object before anything is written into it; not to be changed.

        The owned fields of a new object are those that differ from it. A Go struct that is not a
        pointer always exists, so nobody owns ``f:spec`` of a built-in kind; custom resources have
        no such fields, so their ``f:spec`` is owned.
        """
        if self.custom:
            return {}
        empty: Document = complete(self.node, {})
        return empty

    def validate(self, obj: Document) -> list[Cause]:
        """Check an object against its schema: types, ranges, formats, required and repeated items.

        Rules beyond it are in `kinds`: a strategy has those of its built-in kind,
        `kinds.custom` those of custom resources.

        Args:
            obj: the document, pruned and defaulted.
        """
        found = why.Causes()
        check(self.node, obj, None, found)
        return found

    @cached_property
    def cel_rules(self) -> Any:
        """Return the compiled ``x-kubernetes-validations``; falsy when there are none."""
        from traincrew.local.apiserver import cel

        return cel.compile_rules(self._source)

    def open_api(self) -> Document:
        """Return the definitions for ``components.schemas`` of an OpenAPI v3 document, by name.

        Descriptions are included. The schema of the kind itself is the one with its
        ``x-kubernetes-group-version-kind``.
        """
        from . import openapi

        if self.custom:
            return openapi.custom(self._source, self.group, self.version, self.kind)
        return openapi.builtin(self._definition)


@cache
def load_builtin(
    group: str, version: str, kind: str, *, reset_by_status: tuple[str, ...] = ()
) -> ObjectSchema:
    """Return the schema of a built-in kind.

    Args:
        group: API group, empty for the core group.
        version: such as ``v1``.
        kind: such as ``Pod``.
        reset_by_status: metadata that updates of the status do not change.

    Raises:
        KeyError: this server does not know the kind.
    """
    name = builtin_kinds().get((group, version, kind))
    if name is None:
        raise KeyError(f"no schema of kind {kind} in {group or 'core'}/{version}")
    return ObjectSchema(group, version, kind, definition=name, reset_by_status=reset_by_status)


def from_crd(
    open_api_v3_schema: Document,
    group: str,
    version: str,
    kind: str,
    *,
    status_subresource: bool = True,
) -> ObjectSchema:
    """Return the schema of a custom resource.

    Args:
        open_api_v3_schema: as in the definition, already checked to be structural.
        group: API group of the definition.
        version: the version this schema belongs to.
        kind: kind of the objects.
        status_subresource: whether the version declares the status subresource.
    """
    return ObjectSchema(
        group,
        version,
        kind,
        open_api_v3_schema=open_api_v3_schema,
        status_subresource=status_subresource,
    )
