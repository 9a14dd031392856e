"""Deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.defaults import default_template
from traincrew.local.apiserver.kinds.podspec.templates import (
    default_rolling_update,
    warn_of_replicas,
)
from traincrew.local.apiserver.kinds.shared.cells import (
    TEMPLATE_COLUMNS,
    age_of,
    containers_of,
    name_of,
    selector_text,
    template_spec,
)
from traincrew.local.apiserver.kinds.strategy import ResourceType, ScalePaths, Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Deployment."""
    spec, status = field(obj, "spec"), field(obj, "status")
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *containers_of(template_spec(obj)),
        selector_text(spec.get("selector")),
    ]


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    spec.setdefault("replicas", 1)
    default_rolling_update(spec.setdefault("strategy", {}), maxUnavailable="25%", maxSurge="25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    default_template(spec.get("template"))


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "apps",
            "v1",
            "deployments",
            "Deployment",
            short_names=("deploy",),
            categories=("all",),
            status=True,
            # Annotations count, because they are copied to the Deployment's ReplicaSets.
            generation="spec and annotations",
            scale=ScalePaths(selector=".spec.selector"),
        ),
    ),
    columns=f"Name Ready Up-to-date Available Age {TEMPLATE_COLUMNS}",
    row=_row,
    warn=warn_of_replicas,
    default=_default,
)
