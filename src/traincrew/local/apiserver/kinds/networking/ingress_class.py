"""IngressClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, name_with_default
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of an IngressClass."""
    spec = field(obj, "spec")
    parameters = field(spec, "parameters")
    shown = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        shown = f"{parameters.get('kind')}{group}/{parameters.get('name')}"
    annotation = "ingressclass.kubernetes.io/is-default-class"
    name = name_with_default(obj, annotation)
    return [name, spec.get("controller", ""), shown, age_of(obj, now)]


STRATEGY = Strategy(
    columns="Name Controller Parameters Age",
    row=_row,
)
