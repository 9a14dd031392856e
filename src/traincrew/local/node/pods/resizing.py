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
        self._allocated = _resources(view.spec)
        for name in self._allocated:
            # What an earlier node has given it, which the specification may have left since.
            shown = pod.shown_container(name)
            if "resources" in shown:
                self._allocated[name] = shown["resources"]

    def allocated(self, spec: Document) -> dict[str, Any]:
        """Return the specification with the resources that the containers have."""
        kinds = {
            kind: [{**each, "resources": self._allocated[each["name"]]} for each in spec[kind]]
            for kind in ("initContainers", "containers")
            if spec.get(kind)
        }
        return {**spec, **kinds}

    def update(self, spec: Document, *, reports: bool = True) -> None:
        """Handle a new version of the specification.

        Args:
            spec: Of the pod.
            reports: Whether to report what follows from it; not before the containers of an earlier
                node are known, or the pod's status would be that of a new one.
        """
        wanted = _resources(spec)
        record, pod = self._pod.record, self._pod
        if wanted == self._allocated:
            fault = None
        else:
            fault = resize_fault(spec, pod.context.allocatable.get(pod.node, {}))
        if fault != record.pending_resize:
            record.pending_resize = fault
            if reports:
                if fault is not None:
                    text = f"Pod resize is infeasible: {fault[1]}"
                    pod.event("Warning", "ResizeInfeasible", text)
                pod.changed()
        for name, resources in self._allocated.items():
            record.containers[name].resources = resources if fault is not None else None
        if fault is not None or wanted == self._allocated:
            return
        before, self._allocated = self._allocated, wanted
        for each in _containers(spec):
            container = self._container(each["name"])
            if container is not None:
                container.resize(each, before[each["name"]])
        if reports:
            pod.event("Normal", "ResizeCompleted", "Pod resize completed")
            pod.changed()


def _containers(spec: Document) -> list[Document]:
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def _resources(spec: Document) -> dict[str, Document]:
    return {each["name"]: each.get("resources") or {} for each in _containers(spec)}
