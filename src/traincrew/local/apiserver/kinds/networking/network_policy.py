"""NetworkPolicies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of, selector_text
from traincrew.local.apiserver.kinds.shared.fields import PROTOCOLS, port_or_name
from traincrew.local.apiserver.kinds.shared.meta import label_selector
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a NetworkPolicy."""
    return [name_of(obj), selector_text(field(obj, "spec").get("podSelector")), age_of(obj, now)]


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    for direction in ("ingress", "egress"):
        for rule in items(spec, direction):
            for port in items(rule, "ports"):
                port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a NetworkPolicy."""
    spec = field(obj, "spec")
    label_selector(found, spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(items(spec, direction)):
            here = f"spec.{direction}[{index}]"
            for position, entry in enumerate(items(rule, "ports")):
                protocol = entry.get("protocol", "TCP")
                if protocol not in PROTOCOLS:
                    where = f"{here}.ports[{position}].protocol"
                    found.append(why.not_supported(where, protocol, ("TCP", "UDP", "SCTP")))
                if entry.get("port") is not None:
                    port_or_name(found, f"{here}.ports[{position}].port", entry["port"])
            for position, peer in enumerate(items(rule, peers)):
                _peer(found, peer, f"{here}.{peers}[{position}]")
    kinds = spec.get("policyTypes") or []
    if len(kinds) > len(_DIRECTIONS):
        text = "may not specify more than two policyTypes"
        found.append(why.invalid("spec.policyTypes", kinds, text))
        return
    for index, kind in enumerate(kinds):
        if kind not in _DIRECTIONS:
            found.append(why.not_supported(f"spec.policyTypes[{index}]", kind, _DIRECTIONS))


_DIRECTIONS = ("Ingress", "Egress")


def _peer(found: list[Cause], peer: Document, path: str) -> None:
    if not peer:
        found.append(why.required(path, "must specify a peer"))
    elif "ipBlock" in peer and len(peer) > 1:
        found.append(why.forbidden(path, "may not specify both ipBlock and another peer"))
    for key in ("podSelector", "namespaceSelector"):
        label_selector(found, peer.get(key), f"{path}.{key}")


STRATEGY = Strategy(
    columns="Name Pod-Selector Age",
    row=_row,
    default=_default,
    validate=_validate,
)
