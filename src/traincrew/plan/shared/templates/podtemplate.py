"""Functions over pod templates: each takes a template and returns a changed copy.

Templates are plain documents as users wrote them. Only the changed parts are copied, and the
template passed in is not modified. What the user wrote comes first, and takes precedence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Document = dict[str, Any]


def plain(template: Document) -> Document:
    """Keep only the fields of a pod template; old manifests add ``apiVersion`` and ``kind``."""
    return {
        "metadata": dict(template.get("metadata") or {}),
        "spec": dict(template.get("spec") or {}),
    }


def with_spec(template: Document, **fields: Any) -> Document:
    """Set fields of the pod's ``spec``, whatever the user wrote there."""
    return {**template, "spec": {**template["spec"], **fields}}


def with_default(template: Document, **fields: Any) -> Document:
    """Set fields of the pod's ``spec`` that the user left out."""
    return {**template, "spec": {**fields, **template["spec"]}}


def with_cluster_names(template: Document) -> Document:
    """Make a pod with the network of its node resolve the cluster's names, which its program needs.

    With `ClusterFirst`, the API's default, such a pod queries the servers of its node, which do not
    know them. A `dnsPolicy` that says something else is kept.
    """
    spec = template["spec"]
    if not spec.get("hostNetwork") or spec.get("dnsPolicy") not in {None, "", "ClusterFirst"}:
        return template
    return with_spec(template, dnsPolicy="ClusterFirstWithHostNet")


def without_token(template: Document) -> Document:
    """Mount no token of the API in a pod that does not need it, unless the user asks for it."""
    if template["spec"].get("automountServiceAccountToken") is not None:
        return template
    return with_spec(template, automountServiceAccountToken=False)


def with_labels(template: Document, labels: Mapping[str, str]) -> Document:
    """Add labels to the pod; ours replace the user's, because selectors depend on them."""
    metadata = template["metadata"]
    merged = {**(metadata.get("labels") or {}), **labels}
    return {**template, "metadata": {**metadata, "labels": merged}}


def with_annotations(template: Document, annotations: Mapping[str, str]) -> Document:
    """Add annotations to the pod, except those the user has set."""
    metadata = template["metadata"]
    merged = {**annotations, **(metadata.get("annotations") or {})}
    return {**template, "metadata": {**metadata, "annotations": merged}}


def index_of(template: Document, name: str) -> int | None:
    """Return the index of the container of a name; None if there is none."""
    names = [each.get("name") for each in template["spec"].get("containers") or []]
    return names.index(name) if name in names else None


def with_volumes(template: Document, volumes: Iterable[Document]) -> Document:
    """Add volumes after the user's."""
    return with_spec(template, volumes=[*(template["spec"].get("volumes") or []), *volumes])


def with_init_containers(template: Document, containers: Iterable[Document]) -> Document:
    """Add init containers after the user's."""
    existing = template["spec"].get("initContainers") or []
    return with_spec(template, initContainers=[*existing, *containers])


def map_containers(
    template: Document, change: Callable[[Document], Document], *, init: bool = False
) -> Document:
    """Apply a function to every container, or to every init container."""
    name = "initContainers" if init else "containers"
    if not template["spec"].get(name):
        return template
    return with_spec(template, **{name: [change(item) for item in template["spec"][name]]})


def add_env(container: Document, variables: Mapping[str, str]) -> Document:
    """Add environment variables before the user's, except those the user has set.

    ``$(NAME)`` in a value stands for a variable further up in the list, so the user's may refer to
    ours (Kubernetes documentation, "Define dependent environment variables").
    """
    existing = container.get("env") or []
    taken = {entry.get("name") for entry in existing}
    added = [
        {"name": name, "value": value} for name, value in variables.items() if name not in taken
    ]
    return {**container, "env": [*added, *existing]}


def add_mounts(container: Document, mounts: Iterable[Document]) -> Document:
    """Append volume mounts."""
    return {**container, "volumeMounts": [*(container.get("volumeMounts") or []), *mounts]}


def with_log_fallback(template: Document) -> Document:
    """Make containers that fail without a termination message report the end of their log.

    The kubelet stores it (the last 80 lines, 2 KiB) in the pod's status with the exit code, so that
    it outlives the log. A policy that the user chose is kept.
    """

    def reporting(container: Document) -> Document:
        if container.get("terminationMessagePolicy"):
            return container
        return {**container, "terminationMessagePolicy": "FallbackToLogsOnError"}

    template = map_containers(template, reporting)
    return map_containers(template, reporting, init=True)


def helper(name: str, image: str, main: Document, **fields: Any) -> Document:
    """Return a container of ours that prepares something for the main container of a pod.

    It has the security context and the CPU and memory of the main container. So it is admitted
    wherever that container is, needs no more than it does, and does not change the pod's QoS class.
    """
    container: Document = {"name": name, "image": image, **fields}
    resources = {
        kind: {unit: amount for unit, amount in amounts.items() if unit in {"cpu", "memory"}}
        for kind, amounts in (main.get("resources") or {}).items()
        if kind in {"limits", "requests"} and amounts
    }
    if any(resources.values()):
        container["resources"] = {kind: amounts for kind, amounts in resources.items() if amounts}
    if main.get("securityContext"):
        container["securityContext"] = main["securityContext"]
    return container


def pod(workload: Document, name: str) -> Document:
    """Return the pod that a controller makes of a workload, as far as admission is concerned.

    It has no labels, so that no selector matches it.
    """
    template = workload["spec"]["template"]
    metadata = {"name": name, "namespace": workload["metadata"]["namespace"]}
    if annotations := template.get("metadata", {}).get("annotations"):
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
