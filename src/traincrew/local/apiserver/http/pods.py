"""What the streams of a pod need: the pod, one of its containers, the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.values.errors import StatusError, bad_request

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.values.documents import Document

    from .node_backend import NodeBackend
    from .responder import Responder

__all__ = ["check_host", "container_of", "node_of", "pod_of"]


def pod_of(responder: Responder, call: Call, resource: ResourceType) -> Document:
    """Return the pod that a path names.

    Raises:
        StatusError: 404 without it.
    """
    assert call.target.name is not None
    return responder.verbs.find(resource, call.target.namespace, call.target.name).obj


def check_host(pod: Document) -> None:
    """Check that a pod is bound to a node.

    Raises:
        StatusError: 400 if it is not.
    """
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")


def node_of(responder: Responder) -> NodeBackend:
    """Return the node backend.

    Raises:
        StatusError: 503 before it is set.
    """
    if responder.node is None:
        raise StatusError(503, "ServiceUnavailable", "no node serves logs and commands yet")
    return responder.node


def container_of(pod: Document, wanted: str) -> str:
    """Return the requested container; the only one when the request names none.

    Raises:
        StatusError: 400 naming the choices.
    """
    name, spec = pod["metadata"]["name"], pod["spec"]
    containers = [each["name"] for each in spec["containers"]]
    init = [each["name"] for each in spec.get("initContainers") or ()]
    if wanted:
        ephemeral = [each["name"] for each in spec.get("ephemeralContainers") or ()]
        if wanted not in (*containers, *init, *ephemeral):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(containers) == 1:
        return str(containers[0])
    text = (
        f"a container name must be specified for pod {name}, "
        f"choose one of: [{' '.join(containers)}]"
    )
    if init:
        text += f" or one of the init containers: [{' '.join(init)}]"
    raise bad_request(text)
