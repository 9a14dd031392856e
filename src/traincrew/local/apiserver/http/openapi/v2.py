"""OpenAPI v2: all kinds in one document, as JSON and as protobuf.

All versions of kubectl read the protobuf form, whenever v3 does not have a schema: for a kind that
is not served, for ``kind: List``, and for the patches of ``apply``.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.values.codec import encode
from traincrew.local.apiserver.values.errors import not_acceptable

from . import v2_protobuf as openapi_v2_protobuf
from .documents import resource_paths

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import Registry
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["Swagger", "SwaggerDocument"]

_JSON = "application/json"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Clients request an invalid media type; upstream responds with the valid one above.
_PROTOBUF_NAMES = {_PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}

_V3_REFERENCE = "#/components/schemas/"
_V2_REFERENCE = "#/definitions/"
_COMBINATORS = ("allOf", "anyOf", "oneOf", "not")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_KIND = "x-kubernetes-group-version-kind"


class Swagger(NamedTuple):
    """The document in one encoding; `tag` is its entity tag, including the quotes."""

    body: bytes
    content_type: str
    tag: str


class SwaggerDocument:
    """Generates the document from the registry, and again after the registry has changed.

    Args:
        registry: the served resources.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._document: Document = {}
        self._tag = ""
        self._forms: dict[str, Swagger] = {}

    def get(self, accept: str) -> Swagger:
        """Return the document in the first encoding that an Accept header names; each is cached.

        Raises:
            StatusError: 406 when the header names none.
        """
        content_type = _content_type(accept)
        if self._generation != self._registry.generation:
            self._document = self._generate()
            self._forms = {}
            self._tag = ""
            self._generation = self._registry.generation
        form = self._forms.get(content_type)
        if form is None:
            form = self._encode(content_type)
            self._forms[content_type] = form
        return form

    def _encode(self, content_type: str) -> Swagger:
        if content_type == _PROTOBUF:
            body = openapi_v2_protobuf.encode(self._document)
        else:
            body = encode(self._document)
        # Both encodings have the same tag, as upstream: the response varies by Accept.
        self._tag = self._tag or f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"'
        return Swagger(body, content_type, self._tag)

    def _generate(self) -> Document:
        definitions: Document = {}
        paths: Document = {}
        for resource in self._registry:
            found = resource.schema.open_api()
            for name, schema in found.items():
                if name not in definitions:
                    definitions[name] = _definition(schema, custom=resource.custom is not None)
            for path, operations in resource_paths(resource, found).items():
                paths[path] = _path_item(path, operations)
        return {
            "swagger": "2.0",
            "info": {"title": "traincrew", "version": "unversioned"},
            "paths": paths,
            "definitions": definitions,
        }


def _content_type(accept: str) -> str:
    for clause in (accept or "*/*").split(","):
        media = clause.partition(";")[0].strip()
        if media in {"*/*", "application/*", _JSON}:
            return _JSON
        if media in _PROTOBUF_NAMES:
            return _PROTOBUF
    raise not_acceptable([_JSON, _PROTOBUF])


def _path_item(path: str, operations: Document) -> Document:
    """Convert a path item of version 3 to version 2."""
    item: Document = {method: _operation(operation) for method, operation in operations.items()}
    names = [each[1:-1] for each in path.split("/") if each.startswith("{")]
    if names:
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "type": "string", "uniqueItems": True}
            for name in names
        ]
    return item


def _operation(operation: Document) -> Document:
    parameters = [
        {"name": each["name"], "in": each["in"], **each["schema"]}
        for each in operation["parameters"]
    ]
    result = {key: value for key, value in operation.items() if key.startswith("x-")}
    result["operationId"] = operation["operationId"]
    result["produces"] = [_JSON]
    if "requestBody" in operation:
        content: Document = operation["requestBody"]["content"]
        result["consumes"] = list(content)
        schema = _to_v2(next(iter(content.values()))["schema"])
        body = {"name": "body", "in": "body", "required": True, "schema": schema}
        parameters.insert(0, body)
    result["parameters"] = parameters
    schema = _to_v2(operation["responses"]["200"]["content"][_JSON]["schema"])
    result["responses"] = {"200": {"description": "OK", "schema": schema}}
    return result


def _definition(schema: Document, *, custom: bool) -> Document:
    if custom and _KIND in schema and schema.get(_PRESERVE):
        # With properties next to it kubectl would reject all others.
        return {"type": "object", _KIND: schema[_KIND]}
    return _to_v2(schema)


def _to_v2(schema: Document) -> Document:
    """Convert a schema to version 2, by upstream's rules (``ToStructuralOpenAPIV2``).

    Nullable fields and those with unknown fields lose their type, because kubectl would reject
    valid values.
    """
    result = dict(schema)
    joined, *_ = [result.pop(key, None) for key in _COMBINATORS]
    if joined and len(joined) == 1 and "$ref" in joined[0]:
        # Version 3 needs this wrapper for a description next to a reference.
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
        result["properties"] = {name: _to_v2(field) for name, field in fields.items()}
        if required := result.pop("required", None):
            kept = [name for name in required if not fields.get(name, {}).get("nullable")]
            result |= {"required": kept} if kept else {}
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _to_v2(result[key])
    return result
