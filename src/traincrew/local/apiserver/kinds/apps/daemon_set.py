"""DaemonSets; no controller runs them here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.defaults import default_template
from traincrew.local.apiserver.kinds.podspec.templates import default_rolling_update
from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_template
from traincrew.local.apiserver.kinds.shared.cells import (
    TEMPLATE_COLUMNS,
    age_of,
    containers_of,
    label_text,
    name_of,
    selector_text,
    template_spec,
)
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import TEMPLATE_GENERATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.documents import Document


__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a DaemonSet."""
    status = field(obj, "status")
    numbers = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(obj),
        *(status.get(number, 0) for number in numbers),
        label_text(field(template_spec(obj), "nodeSelector")),
        age_of(obj, now),
        *containers_of(template_spec(obj)),
        selector_text(field(obj, "spec").get("selector")),
    ]


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    generations = [
        field(each, "metadata", "annotations").get(TEMPLATE_GENERATION)
        for each in (obj, *filter(None, [old]))
    ]
    if old is None or generations[0] != generations[1]:
        yield from warn_of_template(field(obj, "spec", "template"), "spec.template")


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    metadata = obj.setdefault("metadata", {})
    if type(metadata) is dict:
        annotations = metadata["annotations"] = metadata.get("annotations") or {}
        if type(annotations) is dict:
            annotations.setdefault(TEMPLATE_GENERATION, "0")
    strategy = spec.setdefault("updateStrategy", {})
    default_rolling_update(strategy, maxUnavailable=1)
    if type(strategy) is dict and type(strategy.get("rollingUpdate")) is dict:
        # Not a pointer in upstream's internal type, so it is always written.
        strategy["rollingUpdate"].setdefault("maxUnavailable", 0)
        strategy["rollingUpdate"].setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    default_template(spec.get("template"))


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "apps",
            "v1",
            "daemonsets",
            "DaemonSet",
            short_names=("ds",),
            categories=("all",),
            status=True,
            generation="spec",
        ),
    ),
    columns=(
        "Name Desired:integer Current:integer Ready:integer "
        f"Up-to-date:integer Available:integer Node_Selector Age {TEMPLATE_COLUMNS}"
    ),
    row=_row,
    warn=_warn,
    default=_default,
)
