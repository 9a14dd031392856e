"""Ingresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import (
    NONE,
    age_of,
    balancer_addresses,
    name_of,
    shortened,
)
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field, items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of an Ingress."""
    spec = field(obj, "spec")
    hosts = [rule["host"] for rule in items(spec, "rules") if rule.get("host")]
    return [
        name_of(obj),
        spec.get("ingressClassName") or NONE,
        shortened(hosts, "*"),
        ",".join(balancer_addresses(obj)),
        "80, 443" if spec.get("tls") else "80",
        age_of(obj, now),
    ]


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "networking.k8s.io",
            "v1",
            "ingresses",
            "Ingress",
            short_names=("ing",),
            status=True,
            generation="spec",
        ),
    ),
    columns="Name Class Hosts Address Ports Age",
    row=_row,
)
