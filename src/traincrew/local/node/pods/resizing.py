"""Changes of the resources of a running pod.

Upstream: ``pkg/kubelet/allocation``. A change holds at once, as it is only measured here; one that
the whole node is too small for is pending, and the containers keep what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from traincrew.local.quantity import parse
from traincrew.local.quotas.podresources import pod_total

if TYPE_CHECKING:
    from traincrew.local.node.containers.container import Container
    from traincrew.local.node.containers.handle import PodHandle
    from traincrew.local.node.records.views import BoundPod

__all__ = ["Resizing", "resize_fault"]

Document = Mapping[str, Any]


def resize_fault(spec: Document, allocatable: Mapping[str, str]) -> tuple[str, str] | None:
    """Return why a node can never give a pod its resources, as (reason, message). Pure.

    Args:
        spec: Of the pod.
        allocatable: Of the node, by resource.
    """
    requests = pod_total(spec, "requests", overhead=True)
    for name, scale in (("memory", 1), ("cpu", 1000)):
        wanted, most = (int(parse(each.get(name, "0")) * scale) for each in (requests, allocatable))
        if wanted > most:
            text = f"{name}, requested: {wanted}, capacity: {most}"
            return "Infeasible", f"Node didn't have enough capacity: {text}"
    return None


class Resizing:
    """Gives the containers of a pod the resources of its specification.

    Args:
        pod: The pod.
        view: The pod as it was when this node took it over.
        container: Returns one of its containers, not of the ephemeral ones; None before it runs.
    """

    def __init__(
        self, pod: PodHandle, view: BoundPod, container: Callable[[str], Container | None]
    ) -> None:
        self._pod = pod
        self._container = container
        self._allocated = {
            each["name"]: pod.shown_container(each["name"]).get("resources")
            if _is_pending(view.status)
            else each.get("resources")
            for each in _containers(view.spec)
        }

    def update(self, spec: Document) -> None:
        """Handle a new version of the specification, or the first one."""
        wanted = {each["name"]: each.get("resources") for each in _containers(spec)}
        record, pod = self._pod.record, self._pod
        if wanted == self._allocated:
            fault = None
        else:
            fault = resize_fault(spec, pod.context.allocatable.get(pod.node, {}))
        if fault != record.pending_resize:
            record.pending_resize = fault
            if fault is not None:
                pod.event("Warning", "ResizeInfeasible", f"Pod resize is infeasible: {fault[1]}")
            pod.changed()
        for name, resources in self._allocated.items():
            record.containers[name].resources = (resources or {}) if fault is not None else None
        if fault is not None or wanted == self._allocated:
            return
        before, self._allocated = self._allocated, wanted
        for each in _containers(spec):
            container = self._container(each["name"])
            if container is not None:
                container.resize(each, before[each["name"]] or {})
        pod.event("Normal", "ResizeCompleted", "Pod resize completed")
        pod.changed()


def _containers(spec: Document) -> list[Document]:
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def _is_pending(status: Document) -> bool:
    conditions = status.get("conditions") or ()
    return any(each.get("type") == "PodResizePending" for each in conditions)
