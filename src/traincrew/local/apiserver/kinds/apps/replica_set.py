"""ReplicaSets."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.podspec.templates import default_replicas, warn_of_replicas
from traincrew.local.apiserver.kinds.shared.cells import TEMPLATE_COLUMNS, replica_row
from traincrew.local.apiserver.kinds.strategy import ResourceType, ScalePaths, Strategy
from traincrew.local.apiserver.values.selectors import FieldLabels

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "apps",
            "v1",
            "replicasets",
            "ReplicaSet",
            short_names=("rs",),
            categories=("all",),
            status=True,
            generation="spec",
            scale=ScalePaths(selector=".spec.selector"),
        ),
    ),
    selectable=FieldLabels.of(
        "status.replicas", absent={"status.replicas": "0"}, own_message=False
    ),
    columns=f"Name Desired:integer Current:integer Ready:integer Age {TEMPLATE_COLUMNS}",
    row=replica_row,
    warn=warn_of_replicas,
    default=default_replicas,
)
