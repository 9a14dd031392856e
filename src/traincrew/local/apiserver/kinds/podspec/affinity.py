"""Rules for the affinities of a pod (``pkg/apis/core/validation/validation.go``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.shared.meta import label_selector, operator_values
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import qualified_name_faults

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["affinity_rules"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity_rules(found: list[Cause], affinity: Document, path: str) -> None:
    """Validate the affinities of a pod."""
    required = field(affinity, "nodeAffinity").get(_REQUIRED)
    if required is not None:
        here = f"{path}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
        if not required.get("nodeSelectorTerms"):
            found.append(why.required(here, "must have at least one node selector term"))
        for index, term in enumerate(items(required, "nodeSelectorTerms")):
            _node_expressions(found, term, f"{here}[{index}]")
    _affinities(found, affinity, path)


def _node_expressions(found: list[Cause], term: Document, path: str) -> None:
    for index, expression in enumerate(items(term, "matchExpressions")):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or ()
        if operator in ("Gt", "Lt"):
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                found.append(why.required(f"{here}.values", detail))
        elif not operator_values(found, operator, values, here):
            found.append(why.invalid(f"{here}.operator", operator, "not a valid selector operator"))


def _affinities(found: list[Cause], affinity: Document, path: str) -> None:
    """Validate the terms of pod (anti-)affinities, and the weights of all preferred terms."""
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        here, of_pods = f"{path}.{kind}", kind != "nodeAffinity"
        for index, term in enumerate(items(affinity, kind, _REQUIRED) if of_pods else ()):
            _pod_term(found, term, f"{here}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(items(affinity, kind, name)):
            weight, place = weighted.get("weight", 0), f"{here}.{name}[{index}]"
            if not 1 <= weight <= 100:
                found.append(why.invalid(f"{place}.weight", weight, "must be in the range 1-100"))
            if of_pods:
                _pod_term(found, field(weighted, "podAffinityTerm"), f"{place}.podAffinityTerm")


def _pod_term(found: list[Cause], term: Document, path: str) -> None:
    label_selector(found, term.get("labelSelector"), f"{path}.labelSelector")
    label_selector(found, term.get("namespaceSelector"), f"{path}.namespaceSelector")
    key = term.get("topologyKey", "")
    if not key:
        found.append(why.required(f"{path}.topologyKey", "can not be empty"))
    here = f"{path}.topologyKey"
    found.extend(why.invalid(here, key, fault) for fault in qualified_name_faults(key))
