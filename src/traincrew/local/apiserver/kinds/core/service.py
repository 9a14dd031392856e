"""Services."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import (
    PROXY_VERBS,
    ResourceType,
    Strategy,
    Subresource,
)
from traincrew.local.apiserver.values.selectors import FieldLabels

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "services",
            "Service",
            short_names=("svc",),
            categories=("all",),
            status=True,
            subresources=(Subresource("proxy", "ServiceProxyOptions", PROXY_VERBS),),
            create_on_update=True,
            returns_deleted=True,
        ),
    ),
    selectable=FieldLabels.of("spec.clusterIP", "spec.type"),
)
