"""The children of such a job, as documents.

For a job J with a replica type T, and i from 0:

    Service J-t-i    headless; its name resolves to the pod of the same name
    Pod J-t-i
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.api.meta import Owner
    from traincrew.plan.shared.replicas.places import Place

Document = dict[str, Any]
_KEPT = ("labels", "annotations", "finalizers")
"""What a pod takes over from the metadata of its template."""


def service(owner: Owner, place: Place, labels: Mapping[str, str], **spec: Any) -> Document:
    """Return the Service of a pod.

    Args:
        owner: The job.
        place: Where the pod is.
        labels: Labels of the Service, which also select the pod.
        spec: More fields of its ``spec``.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": place.name(owner.name),
            "namespace": owner.namespace,
            "labels": dict(labels),
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": {"clusterIP": "None", "selector": dict(labels), **spec},
    }


def pod(owner: Owner, place: Place, template: Document) -> Document:
    """Return the pod of a place, of a template that is complete."""
    metadata = template["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{name: metadata[name] for name in _KEPT if metadata.get(name)},
            "name": place.name(owner.name),
            "namespace": owner.namespace,
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": template["spec"],
    }
