"""OpenAPI v3 definitions for ``/openapi/v3``, which ``kubectl explain`` and ``create`` read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .builtin import META, builtin_definitions, builtin_descriptions

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["builtin", "custom"]

_OWN_KEYWORDS = frozenset({"x-go-type", "x-go-zero", "x-omit-empty"})
"""Keywords that our definitions have beyond the published ones."""


def _published(schema: Document) -> Document:
    """Return a definition without our own keywords."""
    schema = {key: value for key, value in schema.items() if key not in _OWN_KEYWORDS}
    if "properties" in schema:
        properties = schema["properties"].items()
        schema["properties"] = {key: _published(item) for key, item in properties}
    return schema


def _describe(schema: Document, texts: Document | None) -> Document:
    """Restore the descriptions of a published schema; a reference gets them beside ``allOf``."""
    if not texts:
        return schema
    result: Document = {}
    if "description" in texts:
        result["description"] = texts["description"]
    if "$ref" in schema:
        # In OpenAPI 3.0, siblings of $ref are ignored.
        result["allOf"] = [{"$ref": schema["$ref"]}]
        return result | {key: value for key, value in schema.items() if key != "$ref"}
    result |= schema
    inner = texts.get("properties", {})
    if inner:
        result["properties"] = {
            key: _describe(item, inner.get(key)) for key, item in schema["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if key in texts:
            result[key] = _describe(schema[key], texts[key])
    return result


def _references(schema: Any, found: list[str]) -> None:
    if isinstance(schema, dict):
        target = schema.get("$ref")
        if isinstance(target, str):
            found.append(target.rsplit("/", 1)[1])
        for value in schema.values():
            _references(value, found)
    elif isinstance(schema, list):
        for value in schema:
            _references(value, found)


def builtin(name: str) -> Document:
    """Return a published definition and all definitions it refers to, by name."""
    definitions, texts = builtin_definitions(), builtin_descriptions()
    result: Document = {}
    pending = [name]
    while pending:
        current = pending.pop()
        if current not in result:
            schema = definitions[current]
            _references(schema, pending)
            result[current] = _describe(_published(schema), texts.get(current))
    return result


_DROPPED = {"x-kubernetes-validations"}
_META_REFERENCE = f"#/components/schemas/{META}.ObjectMeta"
_VERSION_TEXT = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should"
    " convert recognized schemas to the latest internal value, and may reject unrecognized values."
)
_KIND_TEXT = (
    "Kind is a string value representing the REST resource this object represents. Servers may"
    " infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase."
)


def custom(schema: Document, group: str, version: str, kind: str) -> Document:
    """Return the schema of a custom resource under upstream's name, and ObjectMeta's."""
    reversed_group = ".".join(reversed(group.split(".")))
    name = f"{reversed_group}.{version}.{kind}"
    own = {key: value for key, value in schema.items() if key not in _DROPPED}
    own.setdefault("type", "object")
    texts = {"apiVersion": _VERSION_TEXT, "kind": _KIND_TEXT}
    own["properties"] = schema.get("properties", {}) | {
        **{key: {"type": "string", "description": text} for key, text in texts.items()},
        "metadata": {
            "allOf": [{"$ref": _META_REFERENCE}],
            "description": "Standard object's metadata.",
        },
    }
    own["x-kubernetes-group-version-kind"] = [{"group": group, "kind": kind, "version": version}]
    return {name: own} | builtin(f"{META}.ObjectMeta")
