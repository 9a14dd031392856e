"""OpenAPI v2: the definitions of all kinds in one document, for clients that do not know v3.

Definitions only: what clients do with this document is looking up kinds. Nothing asks for its
paths, and the protobuf form, which kubectl prefers, is not served: kubectl does without.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from .codec import encode

if TYPE_CHECKING:
    from .registry import Registry

__all__ = ["SwaggerDocument"]

Document = dict[str, Any]

_V3_REFERENCE = "#/components/schemas/"
_V2_REFERENCE = "#/definitions/"
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_KIND = "x-kubernetes-group-version-kind"


class SwaggerDocument:
    """Makes the document from the registry, anew when definitions have come or gone.

    Args:
        registry: what is served.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: tuple[int, bytes, str] | None = None

    def get(self) -> tuple[bytes, str]:
        """The encoded document and its entity tag, quotes included."""
        generation = self._registry.generation
        if self._made is None or self._made[0] != generation:
            body = encode(self._make())
            tag = hashlib.sha256(body).hexdigest()[:32].upper()
            self._made = (generation, body, f'"{tag}"')
        return self._made[1], self._made[2]

    def _make(self) -> Document:
        definitions: Document = {}
        for resource in self._registry:
            for name, schema in resource.schema.open_api().items():
                if name not in definitions:
                    definitions[name] = _definition(schema, custom=resource.custom is not None)
        return {
            "swagger": "2.0",
            "info": {"title": "traincrew", "version": "unversioned"},
            "paths": {},
            "definitions": definitions,
        }


def _definition(schema: Document, *, custom: bool) -> Document:
    if custom and _KIND in schema and schema.get(_PRESERVE):
        # With properties beside it kubectl would refuse all others.
        return {"type": "object", _KIND: schema[_KIND]}
    return _converted(schema)


def _converted(schema: Document) -> Document:
    """A schema without what version 2 cannot say, by upstream's rules (``ToStructuralOpenAPIV2``).

    Nullable and unknown things lose their type, because kubectl would hold it against them.
    """
    result = dict(schema)
    joined, *_ = [result.pop(key, None) for key in _JUNCTORS]
    if joined and len(joined) == 1 and "$ref" in joined[0]:
        # Version 3 needs this detour for a description beside a reference.
        result["$ref"] = joined[0]["$ref"]
    reference = result.get("$ref")
    if isinstance(reference, str):
        result["$ref"] = reference.replace(_V3_REFERENCE, _V2_REFERENCE)
    if schema.get("format") == "int-or-string":
        result["type"] = "string"
    nullable = result.pop("nullable", False)
    if nullable or result.get(_PRESERVE):
        for key in ("items", "properties"):
            result.pop(key, None)
        if nullable or result.get("type") in {"array", "object"}:
            result.pop("type", None)
    if "properties" in result:
        fields: Document = result["properties"]
        result["properties"] = {name: _converted(field) for name, field in fields.items()}
        if required := result.pop("required", None):
            kept = [name for name in required if not fields.get(name, {}).get("nullable")]
            result |= {"required": kept} if kept else {}
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _converted(result[key])
    return result
