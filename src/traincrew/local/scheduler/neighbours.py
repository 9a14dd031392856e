"""Filters and scores that depend on other pods: affinity, anti-affinity, topology spread. Pure.

A *domain* is a value of a node label (`topologyKey`): all nodes with that value belong to it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from traincrew.local.controllers.placement import matches_node, untolerated
from traincrew.local.controllers.selectors import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traincrew.local.scheduler.state import ClusterState, NodeState, PodInfo

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = "node(s) didn't match pod affinity rules"
_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_SPREAD = "node(s) didn't match pod topology spread constraints"


class Neighbourhood:
    """The effect of placed pods on one pod; computed once and evaluated for every node."""

    def __init__(self, info: PodInfo, state: ClusterState, nodes: Iterable[NodeState]) -> None:
        self._info = info
        self._nodes = list(nodes)
        self._namespaces = state.namespaces
        self._attract = self._domains("podAffinity")
        self._repel = self._domains("podAntiAffinity")
        self._forbidden = self._forbidden_by(state.repelling())
        self._constraints = [
            (constraint, *self._counts(constraint))
            for constraint in info.pod.spec.get("topologySpreadConstraints") or ()
        ]
        self._alone = all(
            not domains and self.selects(term, info, info) for term, domains in self._attract
        )

    @cached_property
    def _placed(self) -> list[tuple[NodeState, PodInfo]]:
        return [(node, other) for node in self._nodes for other in node.pods.values()]

    def why_not(self, node: NodeState) -> list[str]:
        """Return the reasons to reject the node; empty if there are none."""
        for constraint, counts, eligible in self._constraints:
            if constraint.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule":
                continue
            domain = node.labels.get(constraint["topologyKey"])
            if domain is None:
                return [_SPREAD + " (missing required label)"]
            if self._skew(constraint, counts, eligible, domain) > int(constraint["maxSkew"]):
                return [_SPREAD]
        if any(node.labels.get(key) == domain for key, domain in self._forbidden):
            return [_EXISTING]
        for term, domains in self._repel:
            if node.labels.get(term["topologyKey"]) in domains:
                return [_ANTI_AFFINITY]
        for term, domains in self._attract:
            domain = node.labels.get(term["topologyKey"])
            # The first pod of a group with affinity to itself has to be placed somewhere.
            if domain is None or (domain not in domains and not self._alone):
                return [_AFFINITY]
        return []

    def preference(self, node: NodeState) -> float:
        """Return the score of the soft rules; only differences between nodes matter."""
        total = 0.0
        affinity = self._info.pod.spec.get("affinity") or {}
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for weighted in (affinity.get(kind) or {}).get(PREFERRED) or ():
                term = weighted.get("podAffinityTerm") or {}
                domain = node.labels.get(term.get("topologyKey", ""))
                if domain is None:
                    continue
                near = sum(
                    other_node.labels.get(term["topologyKey"]) == domain
                    and self.selects(term, self._info, other)
                    for other_node, other in self._placed
                )
                total += sign * near * int(weighted.get("weight", 1))
        for constraint, counts, _ in self._constraints:
            if constraint.get("whenUnsatisfiable") == "ScheduleAnyway":
                domain = node.labels.get(constraint["topologyKey"])
                fullest = max(counts.values(), default=0)
                total -= 10 * (fullest + 1 if domain is None else counts.get(domain, 0))
        return total

    def selects(self, term: Mapping[str, Any], owner: PodInfo, other: PodInfo) -> bool:
        """Return whether an affinity term of `owner` selects `other`."""
        namespaces = set(term.get("namespaces") or ())
        by_label = term.get("namespaceSelector")
        if not namespaces and by_label is None:
            namespaces = {owner.namespace}
        if other.namespace not in namespaces and not (
            by_label is not None and matches(by_label, self._namespaces.get(other.namespace, {}))
        ):
            return False
        if not matches(term.get("labelSelector"), other.labels):
            return False
        return all(
            owner.labels.get(key) == other.labels.get(key)
            for key in term.get("matchLabelKeys") or ()
        ) and not any(
            owner.labels.get(key) == other.labels.get(key)
            for key in term.get("mismatchLabelKeys") or ()
        )

    def _domains(self, kind: str) -> list[tuple[Mapping[str, Any], set[str]]]:
        """Return for each required term the domains with a pod that it selects."""
        affinity = (self._info.pod.spec.get("affinity") or {}).get(kind) or {}
        result = []
        for term in affinity.get(REQUIRED) or ():
            key = term["topologyKey"]
            domains = {
                node.labels[key]
                for node, other in self._placed
                if key in node.labels and self.selects(term, self._info, other)
            }
            result.append((term, domains))
        return result

    def _forbidden_by(self, others: list[tuple[NodeState, PodInfo]]) -> set[tuple[str, str]]:
        """Return the (label, domain) pairs where the anti-affinity of a placed pod forbids it."""
        forbidden = set()
        for node, other in others:
            affinity = (other.pod.spec.get("affinity") or {}).get("podAntiAffinity") or {}
            for term in affinity.get(REQUIRED) or ():
                key = term["topologyKey"]
                if key in node.labels and self.selects(term, other, self._info):
                    forbidden.add((key, node.labels[key]))
        return forbidden

    def _counts(self, constraint: Mapping[str, Any]) -> tuple[dict[str, int], set[str]]:
        """Return the selected pods per domain of a spread constraint, and the eligible domains."""
        key = constraint["topologyKey"]
        spec = self._info.pod.spec
        eligible: set[str] = set()
        counts: dict[str, int] = {}
        for node in self._nodes:
            if key not in node.labels:
                continue
            if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not matches_node(
                spec, node
            ):
                continue
            if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and untolerated(
                spec.get("tolerations") or (), node.taints, {"NoSchedule", "NoExecute"}
            ):
                continue
            eligible.add(node.labels[key])
            counts[node.labels[key]] = counts.get(node.labels[key], 0) + sum(
                self._is_spread(constraint, other) for other in node.pods.values()
            )
        return counts, eligible

    def _is_spread(self, constraint: Mapping[str, Any], other: PodInfo) -> bool:
        info = self._info
        return (
            other.namespace == info.namespace
            and other.pod.metadata.deletion_timestamp is None
            and matches(constraint.get("labelSelector"), other.labels)
            and all(
                info.labels.get(key) == other.labels.get(key)
                for key in constraint.get("matchLabelKeys") or ()
            )
        )

    def _skew(
        self,
        constraint: Mapping[str, Any],
        counts: Mapping[str, int],
        eligible: set[str],
        domain: str,
    ) -> int:
        lowest = min((counts.get(name, 0) for name in eligible), default=0)
        if len(eligible) < int(constraint.get("minDomains") or 1):
            lowest = 0
        return counts.get(domain, 0) + self._is_spread(constraint, self._info) - lowest
