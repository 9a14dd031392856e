"""Nodes of custom resources, from the schemas of their CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

import msgspec

from traincrew.local.apiserver.values.regex import StoredPattern

from .builtin import object_meta
from .node import ANY, SchemaNode, set_list_type

__all__ = ["crd_node"]

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
        set_list_type(node, schema)
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
