"""Bindings: a scheduler assigns a pod to a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a Binding."""
    target = field(obj, "target")
    if target.get("kind", "Node") not in ("", "Node"):
        found.append(why.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        found.append(why.required("target.name"))


STRATEGY = Strategy(
    validate=_validate,
    name_fault=None,
)
