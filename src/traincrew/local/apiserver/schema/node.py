"""OpenAPI schemas compiled into the nodes that all typed operations walk.

A node holds everything a typed operation needs at a place in a document: its fields (pruning,
unknown fields), types (validation), defaults, the parts that are owned separately (server-side
apply) and how lists are merged (strategic merge patch).
"""

from __future__ import annotations

import lzma
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.local import quantity
from traincrew.local.apiserver.values import times
from traincrew.local.apiserver.values.regex import StoredPattern

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ANY",
    "SchemaNode",
    "builtin_definitions",
    "builtin_descriptions",
    "builtin_kinds",
    "builtin_node",
    "crd_node",
    "object_meta",
]

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TIMES = {f"{META}.Time": times.canonical, f"{META}.MicroTime": times.canonical_micro}
_FREE = {f"{META}.FieldsV1", "io.k8s.apimachinery.pkg.runtime.RawExtension"}

_NO_FIELDS: dict[str, Any] = {}


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
        self.fields: dict[str, SchemaNode] = _NO_FIELDS
        self.values: SchemaNode | None = None
        self.items: SchemaNode | None = None
        self.keys: tuple[str, ...] = ()
        self.key_defaults: dict[str, Any] = _NO_FIELDS
        self.is_set = False
        self.preserve = False
        self.open = False
        self.embedded = False
        self.nullable = False
        self.null_is_absent = False
        self.omit_empty: frozenset[str] = frozenset()
        self.canonical: Callable[[Any], str] | None = None
        self.go_type = ""
        self.zero: dict[str, Any] = _NO_FIELDS
        self.required: tuple[str, ...] = ()
        self.default: Any = msgspec.UNSET
        self.has_defaults = False
        self.patch_strategy: frozenset[str] = frozenset()
        self.merge_key = ""
        self.rules: dict[str, Any] | None = None
        self.pattern: StoredPattern | None = None
        self.schema: dict[str, Any] = _NO_FIELDS

    @property
    def associative(self) -> bool:
        """Whether this is a list whose items are owned individually."""
        return self.is_set or bool(self.keys)


# A place without a schema. Maps are owned entry by entry, lists as a whole
# (structured-merge-diff calls this "deduced").
ANY = SchemaNode(leaf=False)
ANY.preserve = True
ANY.open = True


def _load(name: str) -> dict[str, Any]:
    packed = resources.files(__package__).joinpath("data", name).read_bytes()
    document: dict[str, Any] = msgspec.json.decode(lzma.decompress(packed))
    return document


@cache
def builtin_definitions() -> dict[str, Any]:
    """Return the published definitions by name, without descriptions."""
    return _load("schemas.json.xz")


@cache
def builtin_descriptions() -> dict[str, Any]:
    """Return the descriptions of the definitions, as trees that mirror them."""
    return _load("descriptions.json.xz")


@cache
def builtin_kinds() -> dict[tuple[str, str, str], str]:
    """Return the name of the definition of each group, version and kind."""
    return {
        (entry["group"], entry["version"], entry["kind"]): name
        for name, schema in builtin_definitions().items()
        for entry in schema.get("x-kubernetes-group-version-kind", ())
    }


def _map_keys(node: SchemaNode, schema: dict[str, Any]) -> None:
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


_BUILTIN: dict[str, SchemaNode] = {}


def builtin_node(name: str) -> SchemaNode:
    """Return the node of a published definition, created on first use."""
    found = _BUILTIN.get(name)
    if found is not None:
        return found
    if name in _FREE:
        node = SchemaNode("object", leaf=False)
        node.values = ANY
        node.open = True
        node.null_is_absent = True
    elif name == _QUANTITY:
        node = SchemaNode("quantity")
        node.canonical = quantity.canonical
    elif name == _INT_OR_STRING:
        node = SchemaNode("int-or-string")
    elif name in _TIMES:
        node = SchemaNode("string")
        node.rules = {"format": "date-time"}
        node.canonical = _TIMES[name]
    else:
        schema = builtin_definitions()[name]
        if "type" not in schema:  # JSON, JSONSchemaPropsOrArray and the like
            _BUILTIN[name] = ANY
            return ANY
        node = SchemaNode(schema["type"])
        _BUILTIN[name] = node  # before the fields: JSONSchemaProps contains itself
        _fill(node, schema)
        if not _REPORTED.search(name):
            node.required = _required_texts(node, schema)
    node.null_is_absent = True
    node.go_type = ".".join(name.split(".")[-2:])
    _BUILTIN[name] = node
    return node


# Parts of a status, which controllers write and upstream does not check.
_REPORTED = re.compile("Status|Condition|ContainerState|LoadBalancerIngress|NodeAddress")


def _required_texts(node: SchemaNode, schema: dict[str, Any]) -> tuple[str, ...]:
    """Return the required fields that hold a string.

    The published ``required`` only means that Go always writes the field. The server's validation
    requires strings (except values, which may be empty); for numbers, lists and objects it has
    separate rules, see ``validation``.
    """
    return tuple(
        key
        for key in schema.get("required", ())
        if node.fields[key].type == "string" and key not in ("value", "protocol")
    )


def _fill(node: SchemaNode, schema: dict[str, Any]) -> None:
    node.null_is_absent = True
    if node.type == "object":
        node.leaf = schema.get("x-kubernetes-map-type") == "atomic"
        properties = schema.get("properties")
        if properties is not None:
            node.fields = {key: _property(item) for key, item in properties.items()}
        extra = schema.get("additionalProperties")
        if extra is not None:
            node.values = _property(extra)
        node.omit_empty = frozenset(schema.get("x-omit-empty", ()))
        node.zero = schema.get("x-go-zero", _NO_FIELDS)
    elif node.type == "array":
        node.items = _property(schema["items"])
        _map_keys(node, schema)
    elif "format" in schema:
        node.rules = {"format": schema["format"]}


# Keywords beside a reference that change its target.
_OVERRIDING_KEYWORDS = frozenset(
    {"x-go-type", "x-kubernetes-map-type", "x-kubernetes-patch-strategy"}
)


def _go_type(node: SchemaNode) -> str:
    """Return the Go type of a node that has no named type."""
    if node.items is not None:
        return f"[]{node.items.go_type}"
    if node.values is not None:
        return f"map[string]{node.values.go_type}"
    scalars = {"string": "string", "boolean": "bool", "number": "float64"}
    return scalars.get(node.type) or (node.rules or {}).get("format", "")


def _property(schema: dict[str, Any]) -> SchemaNode:
    reference = schema.get("$ref")
    if reference is not None:
        target = builtin_node(reference.rsplit("/", 1)[1])
        if _OVERRIDING_KEYWORDS.isdisjoint(schema):
            return target
        node = SchemaNode(target.type, leaf=target.leaf)
        for slot in SchemaNode.__slots__:
            setattr(node, slot, getattr(target, slot))
        if schema.get("x-kubernetes-map-type") == "atomic":
            node.leaf = True
    else:
        node = SchemaNode(schema["type"])
        _fill(node, schema)
        # A default here only identifies list items; ``defaults`` fills in built-in kinds.
        node.default = schema.get("default", msgspec.UNSET)
        node.go_type = _go_type(node)
    if "x-go-type" in schema:
        node.go_type = schema["x-go-type"]
        _name_inner(node)
    node.patch_strategy = frozenset(
        filter(None, schema.get("x-kubernetes-patch-strategy", "").split(","))
    )
    node.merge_key = schema.get("x-kubernetes-patch-merge-key", "")
    return node


def _name_inner(node: SchemaNode) -> None:
    """Derive the Go types of items and values from the type of their list or map."""
    for prefix, inner in (("[]", node.items), ("map[string]", node.values)):
        if inner is not None and inner.type != "object" and node.go_type.startswith(prefix):
            inner.go_type = node.go_type.removeprefix(prefix).removeprefix("*")


@cache
def object_meta() -> SchemaNode:
    """Return the node of ``metadata``."""
    return builtin_node(f"{META}.ObjectMeta")


_RULES = [
    "format",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
]


def crd_node(schema: dict[str, Any], *, root: bool = True) -> SchemaNode:
    """Compile the ``openAPIV3Schema`` of a custom resource.

    The schema must be structural; ``structural.check`` has refused others before.
    """
    if schema.get("x-kubernetes-int-or-string"):
        node = SchemaNode("int-or-string")
    elif "type" in schema:
        node = SchemaNode(schema["type"])
    else:
        node = SchemaNode()
        node.leaf = False
    node.schema = schema
    node.preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    node.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    node.nullable = bool(schema.get("nullable"))
    node.required = tuple(schema.get("required", ()))
    node.default = schema.get("default", msgspec.UNSET)
    node.has_defaults = node.default is not msgspec.UNSET
    if node.type in ("object", ""):
        _fill_crd_object(node, schema, root=root)
    elif node.type == "array":
        node.items = crd_node(schema["items"], root=False) if "items" in schema else ANY
        node.has_defaults |= node.items.has_defaults
        node.open = node.items.open
        _map_keys(node, schema)
    rules = {key: schema[key] for key in _RULES if key in schema}
    if node.type == "int-or-string" and rules.get("anyOf") == _INT_OR_STRING_FORM:
        del rules["anyOf"]  # the type already implies it
    node.rules = rules or None
    if "pattern" in schema:
        node.pattern = StoredPattern(schema["pattern"])
    return node


_INT_OR_STRING_FORM = [{"type": "integer"}, {"type": "string"}]


def _fill_crd_object(node: SchemaNode, schema: dict[str, Any], *, root: bool) -> None:
    node.leaf = node.type == "object" and schema.get("x-kubernetes-map-type") == "atomic"
    fields = {key: crd_node(item, root=False) for key, item in schema.get("properties", {}).items()}
    if root or node.embedded:
        # The server defines these fields, whatever the definition declares for them.
        node.embedded = True
        fields["apiVersion"] = fields["kind"] = SchemaNode("string")
        declared = fields.get("metadata")
        fields["metadata"] = _metadata(declared)
    node.fields = fields
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        node.values = crd_node(extra, root=False)
        node.has_defaults |= node.values.has_defaults
    elif extra or node.preserve:
        node.values = ANY
    node.has_defaults |= any(field.has_defaults for field in fields.values())
    node.open = node.values is ANY or not node.type
    node.open |= any(field.open for field in fields.values())
    node.open |= node.values is not None and node.values.open


def _metadata(declared: SchemaNode | None) -> SchemaNode:
    """Return ObjectMeta with the rules a definition may add: those of name and generateName."""
    base = object_meta()
    if declared is None or not declared.fields:
        return base
    node = SchemaNode("object", leaf=False)
    for slot in SchemaNode.__slots__:
        setattr(node, slot, getattr(base, slot))
    node.fields = base.fields | {
        key: declared.fields[key] for key in ("name", "generateName") if key in declared.fields
    }
    node.schema = declared.schema
    return node
