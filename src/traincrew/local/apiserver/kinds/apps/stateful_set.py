"""StatefulSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.defaults import default_claim, default_template
from traincrew.local.apiserver.kinds.podspec.templates import same_generation
from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_claim, warn_of_template
from traincrew.local.apiserver.kinds.shared.cells import (
    age_of,
    containers_of,
    name_of,
    template_spec,
)
from traincrew.local.apiserver.kinds.strategy import ResourceType, ScalePaths, Strategy
from traincrew.local.apiserver.values.documents import field, items

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.documents import Document


__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a StatefulSet."""
    ready = field(obj, "status").get("readyReplicas", 0)
    return [
        name_of(obj),
        f"{ready}/{field(obj, 'spec').get('replicas', 0)}",
        age_of(obj, now),
        *containers_of(template_spec(obj)),
    ]


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    spec = field(obj, "spec")
    if not same_generation(obj, old):
        yield from warn_of_template(field(spec, "template"), "spec.template")
    for index, claim in enumerate(items(spec, "volumeClaimTemplates")):
        here = f"spec.volumeClaimTemplates[{index}]" + (".Spec" if old is not None else "")
        yield from warn_of_claim(field(claim, "spec"), here)
    if spec.get("revisionHistoryLimit", 0) < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {text}"


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if type(strategy) is dict:
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        rolling = strategy.get("rollingUpdate")
        if strategy["type"] == "RollingUpdate" and type(rolling) is dict:
            rolling.setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    if type(retention) is dict:
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in items(spec, "volumeClaimTemplates"):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        default_claim(claim)
    default_template(spec.get("template"))


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "apps",
            "v1",
            "statefulsets",
            "StatefulSet",
            short_names=("sts",),
            categories=("all",),
            status=True,
            generation="spec",
            scale=ScalePaths(selector=".spec.selector"),
        ),
    ),
    columns="Name Ready Age Containers* Images*",
    row=_row,
    warn=_warn,
    default=_default,
)
