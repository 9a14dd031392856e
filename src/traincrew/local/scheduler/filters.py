"""Filters: the hard rules that concern one node alone. Pure.

The reasons are upstream's, word for word, because people search for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.controllers.selectors import matches_expression
from traincrew.local.scheduler.state import UNSCHEDULABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traincrew.local.scheduler.state import NodeState, PodInfo


def why_not(info: PodInfo, node: NodeState) -> list[str]:
    """Return the reasons of the first filter that rejects the node; empty if none does."""
    spec = info.pod.spec
    tolerations = spec.get("tolerations") or ()
    if node.unschedulable and not _tolerates(
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


def untolerated(
    tolerations: Iterable[Mapping[str, Any]],
    taints: Iterable[Mapping[str, Any]],
    effects: set[str],
) -> Mapping[str, Any] | None:
    """Return the first taint with one of these effects that is not tolerated."""
    for taint in taints:
        if taint.get("effect") in effects and not _tolerates(tolerations, taint):
            return taint
    return None


def _tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]) -> bool:
    for toleration in tolerations:
        effect = toleration.get("effect")
        if effect and effect != taint.get("effect"):
            continue
        operator = toleration.get("operator") or "Equal"
        key = toleration.get("key") or ""
        if not key:
            if operator == "Exists":
                return True
            continue
        if key != taint.get("key"):
            continue
        if operator == "Exists" or (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def matches_node(spec: Mapping[str, Any], node: NodeState) -> bool:
    """Return whether `nodeSelector` and the required node affinity match the node."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if node.labels.get(key) != value:
            return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(matches_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def matches_term(term: Mapping[str, Any], node: NodeState) -> bool:
    """Return whether one node selector term matches; an empty one never does."""
    expressions: Sequence[Any] = term.get("matchExpressions") or ()
    fields: Sequence[Any] = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(matches_expression(item, node.labels) for item in expressions) and all(
        matches_expression(item, {"metadata.name": node.name}) for item in fields
    )


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
