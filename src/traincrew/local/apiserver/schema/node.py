"""OpenAPI schemas compiled into the nodes that all typed operations walk.

A node holds everything a typed operation needs at a place in a document: its fields (pruning,
unknown fields), types (validation), defaults, the parts that are owned separately (server-side
apply) and how lists are merged (strategic merge patch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.apiserver.values.regex import StoredPattern

__all__ = ["ANY", "NO_FIELDS", "SchemaNode", "set_list_type"]

NO_FIELDS: dict[str, Any] = {}


class SchemaNode:
    """The schema of one place in a document.

    Attributes:
        type: ``string``, ``integer``, ``number``, ``boolean``, ``object``, ``array``,
            ``int-or-string``, ``quantity``, or empty when any type is allowed.
        fields: named fields of an object.
        values: schema of an object's other entries (``additionalProperties``).
        items: schema of a list's items.
        leaf: whether it is owned and replaced as a whole: scalars, atomic lists and maps.
        keys: fields that identify an item of a list of type ``map``.
        key_defaults: the values of absent key fields.
        is_set: whether it is a list whose scalar items are owned individually.
        preserve: whether entries that are not in ``fields`` are kept.
        embedded: whether the object is a Kubernetes object with kind and metadata.
        nullable: whether null is a valid value.
        null_is_absent: whether null means absent, as in Go types and so in built-in kinds.
        omit_empty: fields of a built-in kind that are omitted when empty, as in Go.
        go_type: name of a built-in kind's Go type, as used in messages.
        zero: fields of a built-in kind that Go always writes, and the values of unset ones.
        open: whether values of any type are allowed here or somewhere below.
        canonical: returns the form Go writes of a quantity or a time; raises ValueError.
        required: required fields.
        default: the value of an absent field; ``msgspec.UNSET`` without default.
        has_defaults: whether this node or one below it has a default.
        patch_strategy: the words of ``x-kubernetes-patch-strategy``.
        merge_key: the field by which strategic merge identifies list items.
        rules: constraints beyond the type, as in the source schema.
        schema: the source schema of a custom resource; empty for built-in kinds.
    """

    __slots__ = (
        "canonical",
        "default",
        "embedded",
        "fields",
        "go_type",
        "has_defaults",
        "is_set",
        "items",
        "key_defaults",
        "keys",
        "leaf",
        "merge_key",
        "null_is_absent",
        "nullable",
        "omit_empty",
        "open",
        "patch_strategy",
        "pattern",
        "preserve",
        "required",
        "rules",
        "schema",
        "type",
        "values",
        "zero",
    )

    def __init__(self, type_: str = "", *, leaf: bool = True) -> None:
        self.type = type_
        self.leaf = leaf
        self.fields: dict[str, SchemaNode] = NO_FIELDS
        self.values: SchemaNode | None = None
        self.items: SchemaNode | None = None
        self.keys: tuple[str, ...] = ()
        self.key_defaults: dict[str, Any] = NO_FIELDS
        self.is_set = False
        self.preserve = False
        self.open = False
        self.embedded = False
        self.nullable = False
        self.null_is_absent = False
        self.omit_empty: frozenset[str] = frozenset()
        self.canonical: Callable[[Any], str] | None = None
        self.go_type = ""
        self.zero: dict[str, Any] = NO_FIELDS
        self.required: tuple[str, ...] = ()
        self.default: Any = msgspec.UNSET
        self.has_defaults = False
        self.patch_strategy: frozenset[str] = frozenset()
        self.merge_key = ""
        self.rules: dict[str, Any] | None = None
        self.pattern: StoredPattern | None = None
        self.schema: dict[str, Any] = NO_FIELDS

    @property
    def associative(self) -> bool:
        """Whether this is a list whose items are owned individually."""
        return self.is_set or bool(self.keys)


# A place without a schema. Maps are owned entry by entry, lists as a whole
# (structured-merge-diff calls this "deduced").
ANY = SchemaNode(leaf=False)
ANY.preserve = True
ANY.open = True


def set_list_type(node: SchemaNode, schema: dict[str, Any]) -> None:
    """Copy what identifies the items of a list from its schema."""
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map" and node.items is not None:
        node.keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        fields = node.items.fields
        node.key_defaults = {
            key: fields[key].default
            for key in node.keys
            if key in fields and fields[key].default is not msgspec.UNSET
        }
        node.leaf = False
    elif kind == "set":
        node.is_set = True
        node.leaf = False
