"""Namespaces."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy, Subresource
from traincrew.local.apiserver.values.selectors import FieldLabels

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "namespaces",
            "Namespace",
            namespaced=False,
            short_names=("ns",),
            verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
            status=True,
            subresources=(Subresource("finalize", "Namespace", ("update",)),),
        ),
    ),
    selectable=FieldLabels.of("status.phase"),
)
