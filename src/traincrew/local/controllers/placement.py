"""Which nodes a pod may run on: taints, node selector and node affinity. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from traincrew.local.controllers.selectors import matches_expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Place(Protocol):
    """What of a node affinity rules see."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""


def untolerated(
    tolerations: Iterable[Mapping[str, Any]],
    taints: Iterable[Mapping[str, Any]],
    effects: set[str],
) -> Mapping[str, Any] | None:
    """Return the first taint with one of these effects that is not tolerated."""
    for taint in taints:
        if taint.get("effect") in effects and not tolerates(tolerations, taint):
            return taint
    return None


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]) -> bool:
    """Return whether a taint is tolerated."""
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


def matches_node(spec: Mapping[str, Any], node: Place) -> bool:
    """Return whether `nodeSelector` and the required node affinity match the node."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if node.labels.get(key) != value:
            return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(matches_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def matches_term(term: Mapping[str, Any], node: Place) -> bool:
    """Return whether one node selector term matches; an empty one never does."""
    expressions: Sequence[Any] = term.get("matchExpressions") or ()
    fields: Sequence[Any] = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(matches_expression(item, node.labels) for item in expressions) and all(
        matches_expression(item, {"metadata.name": node.name}) for item in fields
    )
