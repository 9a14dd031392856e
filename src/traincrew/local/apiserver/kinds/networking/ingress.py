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
    from collections.abc import Iterator

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


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    key = "kubernetes.io/ingress.class"
    marked = key in field(obj, "metadata", "annotations")
    if old is None and marked and "ingressClassName" not in field(obj, "spec"):
        yield f"annotation \"{key}\" is deprecated, please use 'spec.ingressClassName' instead"


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
    warn=_warn,
)
