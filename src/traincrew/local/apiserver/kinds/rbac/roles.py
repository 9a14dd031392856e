"""Roles and ClusterRoles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.shared.meta import path_segment_fault
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a Role or ClusterRole."""
    namespaced = obj.get("kind") == "Role"
    for index, rule in enumerate(items(obj, "rules")):
        here = f"rules[{index}]"
        if not rule.get("verbs"):
            detail = "verbs must contain at least one value"
            found.append(why.required(f"{here}.verbs", detail))
        urls = rule.get("nonResourceURLs")
        if urls:
            if namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                found.append(why.invalid(f"{here}.nonResourceURLs", urls, detail))
            if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                found.append(why.invalid(f"{here}.nonResourceURLs", urls, detail))
            continue
        for key, noun in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get(key):
                detail = f"resource rules must supply at least one {noun}"
                found.append(why.required(f"{here}.{key}", detail))


STRATEGY = Strategy(
    validate=_validate,
    name_fault=path_segment_fault,
)
