"""Discovery of groups, versions and resources, plain and aggregated."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import Registry, ResourceType, Subresource
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["aggregated", "group", "group_list", "resource_list", "wanted_aggregation"]


def wanted_aggregation(accept: str) -> str:
    """Return the aggregated discovery version that an Accept header prefers; empty: plain JSON."""
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        if media != "application/json":
            continue
        options = dict(part.partition("=")[::2] for part in parameters)
        if options.get("as") == "APIGroupDiscoveryList" and (
            options.get("g") == "apidiscovery.k8s.io" and options.get("v") in {"v2", "v2beta1"}
        ):
            return options["v"]
        if "as" not in options:
            return ""
    return ""


def _group(name: str, versions: list[str]) -> Document:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def group_list(registry: Registry) -> Document:
    """Return the document of ``GET /apis``."""
    groups = [_group(name, list(versions)) for name, versions in registry.groups().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Document | None:
    """Return the document of ``GET /apis/GROUP``; None when there is no such group."""
    versions = registry.groups().get(name)
    if not versions or not name:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, list(versions))}


def _subresource_kind(resource: ResourceType, subresource: Subresource) -> Document:
    if subresource.group is None and subresource.version is None:
        return {}
    return {"group": subresource.group or "", "version": subresource.version or resource.version}


def resource_list(registry: Registry, name: str, version: str) -> Document | None:
    """Return the document of ``GET /api/v1`` or ``GET /apis/GROUP/VERSION``; None when missing."""
    resources = registry.groups().get(name, {}).get(version)
    if resources is None:
        return None
    entries: list[Document] = []
    for resource in sorted(resources, key=lambda each: each.plural):
        entry: Document = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        entries.append(entry)
        entries.extend(
            {
                "name": f"{resource.plural}/{subresource.name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                **_subresource_kind(resource, subresource),
                "kind": subresource.kind,
                "verbs": list(subresource.verbs),
            }
            for subresource in resource.subresources
        )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{version}" if name else version,
        "resources": entries,
    }


def _aggregated_resource(resource: ResourceType) -> Document:
    entry: Document = {
        "resource": resource.plural,
        "responseKind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": subresource.name,
                "responseKind": {
                    "group": resource.group if subresource.group is None else subresource.group,
                    "version": subresource.version or resource.version,
                    "kind": subresource.kind,
                },
                "verbs": list(subresource.verbs),
            }
            for subresource in resource.subresources
        ]
    return entry


def aggregated(registry: Registry, version: str, *, core: bool) -> Document:
    """Return the aggregated document of ``GET /api`` or ``GET /apis``.

    Args:
        registry: the served resources.
        version: version of the document, ``v2`` or ``v2beta1``.
        core: whether to list the core group only, or else all other groups.
    """
    items: list[Document] = []
    for name, versions in registry.groups().items():
        if bool(name) == core:
            continue
        entries = [
            {
                "version": each,
                "resources": [
                    _aggregated_resource(resource)
                    for resource in sorted(resources, key=lambda found: found.plural)
                ],
                "freshness": "Current",
            }
            for each, resources in versions.items()
        ]
        metadata: Document = {"creationTimestamp": None}
        if name:
            metadata = {"name": name, "creationTimestamp": None}
        items.append({"metadata": metadata, "versions": entries})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }
