"""The APIs of schedulers that place gangs, as definitions that the embedded API server accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import NotFoundError

if TYPE_CHECKING:
    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource


def definition(resource: Resource, *, status: bool = False) -> dict[str, Any]:
    """The definition of a resource with any fields, and with a ``status`` of its own."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **({"subresources": {"status": {}}} if status else {}),
                }
            ],
        },
    }


async def is_served(client: Client, resource: Resource) -> bool:
    """Whether the API server serves a resource at the moment."""
    try:
        await client.list(resource, "default")
    except NotFoundError:
        return False
    return True


def size(group: dict[str, Any]) -> int:
    """The number of pods of the gang of a PodGroup."""
    spec = group["spec"]
    found: int = (
        spec["minMember"] if "minMember" in spec else (spec["schedulingPolicy"]["gang"]["minCount"])
    )
    return found


def owned(groups: list[dict[str, Any]], job: str) -> dict[str, Any] | None:
    """The PodGroup of a job among others; None if it has none."""
    for each in groups:
        if any(owner["name"] == job for owner in each["metadata"].get("ownerReferences", ())):
            return each
    return None
