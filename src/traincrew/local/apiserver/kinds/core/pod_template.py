"""PodTemplates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.defaults import default_template
from traincrew.local.apiserver.kinds.podspec.pod import pod_template
from traincrew.local.apiserver.kinds.podspec.templates import same_generation
from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_template
from traincrew.local.apiserver.kinds.shared.cells import containers_of, label_text, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document


__all__ = ["STRATEGY"]


def _row(obj: Document, _now: float) -> list[Any]:
    """Return the cells of a PodTemplate."""
    template = field(obj, "template")
    labels = field(template, "metadata", "labels")
    return [name_of(obj), *containers_of(field(template, "spec")), label_text(labels)]


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    if not same_generation(obj, old):
        yield from warn_of_template(field(obj, "template"), "template")


def _default(obj: Document) -> None:
    default_template(obj.get("template"))


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a PodTemplate."""
    pod_template(found, field(obj, "template"), "template")


STRATEGY = Strategy(
    columns="Name Containers Images Pod_Labels",
    row=_row,
    warn=_warn,
    default=_default,
    validate=_validate,
)
