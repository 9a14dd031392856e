"""OpenAPI v3: one document per group and version, for ``kubectl explain``, ``create`` and apply."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values.codec import encode
from traincrew.local.apiserver.values.errors import qualified

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import Registry, ResourceType
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["OpenApiDocuments", "resource_paths"]


def _parameter(name: str, kind: str = "string") -> Document:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


_FIELD_PARAMETERS = [
    _parameter("dryRun"),
    _parameter("fieldManager"),
    _parameter("fieldValidation"),
]
_FORCE = _parameter("force", "boolean")


def _base(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _operation(
    resource: ResourceType, action: str, reference: str, parameters: list[Document]
) -> Document:
    content = {"application/json": {"schema": {"$ref": reference}}}
    operation: Document = {
        "operationId": action + resource.kind,
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
    if action in {"post", "put"}:
        operation["requestBody"] = {"content": content, "required": True}
    if action == "patch":
        patch = {"schema": {"type": "object"}}
        formats = ["json-patch+json", "merge-patch+json", "apply-patch+yaml"]
        if resource.custom is None:
            formats.append("strategic-merge-patch+json")
        body = {f"application/{name}": patch for name in formats}
        operation["requestBody"] = {"content": body, "required": True}
    return operation


def resource_paths(resource: ResourceType, definitions: Document) -> Document:
    """Return the paths of a resource and their operations.

    Args:
        resource: the resource.
        definitions: its OpenAPI v3 definitions.
    """
    reference = _reference(resource, definitions)
    base = _base(resource.group, resource.version)
    if resource.namespaced:
        base += "/namespaces/{namespace}"
    collection: Document = {}
    single: Document = {}
    for verb, item, action, parameters in (
        ("list", collection, "list", []),
        ("create", collection, "post", _FIELD_PARAMETERS),
        ("deletecollection", collection, "deletecollection", []),
        ("get", single, "get", []),
        ("update", single, "put", _FIELD_PARAMETERS),
        ("patch", single, "patch", [*_FIELD_PARAMETERS, _FORCE]),
        ("delete", single, "delete", []),
    ):
        if verb in resource.verbs:
            method = {"list": "get", "deletecollection": "delete"}.get(action, action)
            item[method] = _operation(resource, action, reference, list(parameters))
    paths = {f"{base}/{resource.plural}": collection}
    if single:
        paths[f"{base}/{resource.plural}/{{name}}"] = single
    return paths


class OpenApiDocuments:
    """Generates the documents from the registry, and caches them.

    Args:
        registry: the served resources.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents: dict[tuple[str, str], tuple[list[ResourceType], bytes]] = {}

    def _resources(self, group: str, version: str) -> list[ResourceType]:
        return self._registry.groups().get(group, {}).get(version, [])

    def document(self, group: str, version: str) -> bytes | None:
        """Return the encoded document of a group and version; None when there is none."""
        resources = self._resources(group, version)
        if not resources:
            return None
        known = self._documents.get((group, version))
        if known is not None and known[0] == resources:
            return known[1]
        schemas: Document = {}
        paths: Document = {}
        for resource in resources:
            definitions = resource.schema.open_api()
            schemas |= definitions
            paths |= resource_paths(resource, definitions)
        body = encode(
            {
                "openapi": "3.0.0",
                "info": {"title": "traincrew", "version": "unversioned"},
                "paths": paths,
                "components": {"schemas": schemas},
            }
        )
        self._documents[group, version] = (resources, body)
        return body

    def index(self) -> Document:
        """Return the document of ``GET /openapi/v3``."""
        paths: Document = {}
        for group, versions in self._registry.groups().items():
            for version, resources in versions.items():
                path = _base(group, version)[1:]
                digest = _fingerprint(resources)
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}


def _reference(resource: ResourceType, definitions: Document) -> str:
    wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    for name, schema in definitions.items():
        if wanted in schema.get("x-kubernetes-group-version-kind", ()):
            return f"#/components/schemas/{name}"
    raise LookupError(f"no OpenAPI schema of {qualified(resource.plural, resource.group)}")


def _fingerprint(resources: list[ResourceType]) -> str:
    """Return a hash that changes with the document, without generating the document."""
    digest = hashlib.sha256()
    for resource in resources:
        digest.update(f"{resource.api_version} {resource.kind} {resource.plural}\n".encode())
        if resource.custom is not None:
            digest.update(encode(resource.custom.get("schema")))
    return digest.hexdigest()[:32].upper()
