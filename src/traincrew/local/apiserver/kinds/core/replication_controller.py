"""ReplicationControllers; no controller runs them here."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.podspec.templates import warn_of_replicas
from traincrew.local.apiserver.kinds.shared.cells import TEMPLATE_COLUMNS, replica_row
from traincrew.local.apiserver.kinds.strategy import ResourceType, ScalePaths, Strategy
from traincrew.local.apiserver.values.selectors import FieldLabels

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "replicationcontrollers",
            "ReplicationController",
            short_names=("rc",),
            categories=("all",),
            status=True,
            generation="spec",
            scale=ScalePaths(selector=".spec.selector"),
            orphan_by_default=True,
        ),
    ),
    selectable=FieldLabels.of("status.replicas", absent={"status.replicas": "0"}),
    columns=f"Name Desired:integer Current:integer Ready:integer Age {TEMPLATE_COLUMNS}",
    row=replica_row,
    warn=warn_of_replicas,
)
