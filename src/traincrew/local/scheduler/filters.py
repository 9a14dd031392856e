"""Filters: the hard rules that concern one node alone. Pure.

The reasons are upstream's, word for word, because people search for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.controllers.placement import matches_node, tolerates, untolerated
from traincrew.local.scheduler.state import UNSCHEDULABLE

if TYPE_CHECKING:
    from traincrew.local.scheduler.state import NodeState, PodInfo


def why_not(info: PodInfo, node: NodeState) -> list[str]:
    """Return the reasons of the first filter that rejects the node; empty if none does."""
    spec = info.pod.spec
    tolerations = spec.get("tolerations") or ()
    if node.unschedulable and not tolerates(
        tolerations, {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
    ):
        return ["node(s) were unschedulable"]
    wanted = spec.get("nodeName")
    if wanted and wanted != node.name:
        return ["node(s) didn't match the requested node name"]
    taint = untolerated(tolerations, node.taints, {"NoSchedule", "NoExecute"})
    if taint is not None:
        return [f"node(s) had untolerated taint {{{taint.get('key')}: {taint.get('value') or ''}}}"]
    if not matches_node(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    if _ports_conflict(info, node):
        return ["node(s) didn't have free ports for the requested pod ports"]
    return _insufficient(info, node)


def _insufficient(info: PodInfo, node: NodeState) -> list[str]:
    reasons = []
    if "pods" in node.allocatable and len(node.pods) >= node.allocatable["pods"]:
        reasons.append("Too many pods")
    reasons += [
        f"Insufficient {resource}"
        for resource, number in info.requests.items()
        if number > node.free(resource)
    ]
    return reasons


def _ports_conflict(info: PodInfo, node: NodeState) -> bool:
    if not info.ports:
        return False
    anywhere = "0.0.0.0"  # noqa: S104 - how manifests say "every address"
    for other in node.pods.values():
        for protocol, address, number in other.ports:
            for mine in info.ports:
                if (mine[0], mine[2]) == (protocol, number) and (
                    mine[1] == address or anywhere in {mine[1], address}
                ):
                    return True
    return False
