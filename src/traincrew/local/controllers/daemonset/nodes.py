"""The nodes on which a DaemonSet runs, and its pod for one of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from traincrew.engine.resources import Resource
from traincrew.local.controllers.common import owner_reference
from traincrew.local.controllers.placement import matches_node, untolerated
from traincrew.local.controllers.pods import from_template, generated_base
from traincrew.local.controllers.revisions import REVISION_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.engine.objects import AnyObject

DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")

GENERATION = "deprecated.daemonset.template.generation"
"""Annotation of a DaemonSet: number of its template."""
GENERATION_LABEL = "pod-template-generation"
"""Label of a pod: the number of its template."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NAME = "metadata.name"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
"""Taints that every pod of a DaemonSet tolerates."""


class Node(Struct, frozen=True):
    """What of a node decides whether a pod runs there."""

    name: str
    labels: Mapping[str, str]
    taints: list[dict[str, Any]]


class Fit(NamedTuple):
    """Whether a pod is created on a node, and whether one that is there may stay."""

    runs: bool
    stays: bool


def node_of(node: AnyObject) -> Node:
    """Return what counts of a node."""
    return Node(node.metadata.name, node.metadata.labels, node.spec.get("taints") or [])


def fit(spec: Mapping[str, Any], node: Node) -> Fit:
    """Return whether a pod with this spec runs on a node (upstream `NodeShouldRunDaemonPod`).

    What a node has free does not count: the pod waits for it.
    """
    wanted = spec.get("nodeName")
    if (wanted and wanted != node.name) or not matches_node(spec, node):
        return Fit(runs=False, stays=False)
    accepted = tolerations(spec)
    if untolerated(accepted, node.taints, {"NoSchedule", "NoExecute"}) is None:
        return Fit(runs=True, stays=True)
    return Fit(runs=False, stays=untolerated(accepted, node.taints, {"NoExecute"}) is None)


def tolerations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tolerations of a pod of a DaemonSet: those of its template, and the default ones.

    A pod is not evicted from a node with a problem, and is created on one that is cordoned.
    """
    kinds = [*_TOLERATED]
    if spec.get("hostNetwork"):
        kinds.append(("network-unavailable", "NoSchedule"))
    found = [dict(each) for each in spec.get("tolerations") or ()]
    for name, effect in kinds:
        default = {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        given = [each for each in found if {**each, **default} == each]
        for each in given:
            each.pop("tolerationSeconds", None)  # no limit
        if not given:
            found.append(default)
    return found


def target_of(pod: AnyObject) -> str:
    """Return the node for which a pod was created; empty if its affinity names none."""
    if name := pod.spec.get("nodeName"):
        return str(name)
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for each in term.get("matchFields") or ():
            if each.get("key") == _NAME and each.get("operator") == "In":
                values = each.get("values") or []
                return str(values[0]) if len(values) == 1 else ""
    return ""


def pod_of(owner: AnyObject, node: str, revision: str) -> dict[str, Any]:
    """Return the pod for a node, which the scheduler binds to it.

    Args:
        owner: The DaemonSet.
        node: Name of the node.
        revision: Hash of the current revision.
    """
    template = owner.spec.get("template") or {}
    spec = template.get("spec") or {}
    affinity = spec.get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    term = {"matchFields": [{"key": _NAME, "operator": "In", "values": [node]}]}
    required = {**(of_nodes.get(_REQUIRED) or {}), "nodeSelectorTerms": [term]}
    labels = {REVISION_LABEL: revision}
    if (generation := generation_of(owner)) is not None:
        labels[GENERATION_LABEL] = generation
    return from_template(
        template,
        namespace=owner.metadata.namespace,
        owner=owner_reference(owner, DAEMON_SETS),
        generate_name=generated_base(owner.metadata.name),
        labels=labels,
        spec={
            "affinity": {**affinity, "nodeAffinity": {**of_nodes, _REQUIRED: required}},
            "tolerations": tolerations(spec),
        },
    )


def generation_of(owner: AnyObject) -> str | None:
    """Return the number of the template; None if the annotation has none."""
    value = owner.metadata.annotations.get(GENERATION, "")
    return value if value.isdecimal() else None


def is_updated(owner: AnyObject, pod: AnyObject, revision: str) -> bool:
    """Return whether a pod was created from the current template."""
    labels, generation = pod.metadata.labels, generation_of(owner)
    return labels.get(REVISION_LABEL) == revision or (
        generation is not None and labels.get(GENERATION_LABEL) == generation
    )
