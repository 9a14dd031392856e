"""Nodes of the kinds that Kubernetes defines, from the OpenAPI definitions that it publishes."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from traincrew.local import quantity
from traincrew.local.apiserver.values import times

from .node import ANY, NO_FIELDS, SchemaNode, set_list_type
from .packed import unpacked

__all__ = [
    "META",
    "builtin_definitions",
    "builtin_descriptions",
    "builtin_kinds",
    "builtin_node",
    "object_meta",
]

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TIMES = {f"{META}.Time": times.canonical, f"{META}.MicroTime": times.canonical_micro}
_FREE = {f"{META}.FieldsV1", "io.k8s.apimachinery.pkg.runtime.RawExtension"}


def _load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(unpacked(name))
    return document


@cache
def builtin_definitions() -> dict[str, Any]:
    """Return the published definitions by name, without descriptions."""
    return _load("schemas")


@cache
def builtin_descriptions() -> dict[str, Any]:
    """Return the descriptions of the definitions, as trees that mirror them."""
    return _load("descriptions")


@cache
def builtin_kinds() -> dict[tuple[str, str, str], str]:
    """Return the name of the definition of each group, version and kind."""
    return {
        (entry["group"], entry["version"], entry["kind"]): name
        for name, schema in builtin_definitions().items()
        for entry in schema.get("x-kubernetes-group-version-kind", ())
    }


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
    separate rules, see ``kinds``.
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
        node.zero = schema.get("x-go-zero", NO_FIELDS)
    elif node.type == "array":
        node.items = _property(schema["items"])
        set_list_type(node, schema)
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
        # A default here only identifies list items; a strategy fills in the rest.
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
