"""Workloads: templates of the PodGroups of one controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.scheduling.policies import (
    drop_gated,
    required_name,
    scheduling_policy,
    unchanged,
)
from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy, WriteContext
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import label_fault, subdomain_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

_MOST_TEMPLATES = 8


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Workload."""
    return [name_of(obj), age_of(obj, now)]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a Workload."""
    spec = field(obj, "spec")
    if old is not None:
        unchanged(found, spec, field(old, "spec"), "controllerRef", "podGroupTemplates")
        return
    _controller(found, spec)
    _templates(found, spec.get("podGroupTemplates") or [])


def _controller(found: list[Cause], spec: Document) -> None:
    reference, path = spec.get("controllerRef"), "spec.controllerRef"
    if reference is None:
        return
    group = reference.get("apiGroup", "")
    if group and (fault := subdomain_fault(group)):
        found.append(why.invalid(f"{path}.apiGroup", group, fault))
    for key in ("kind", "name"):
        value = reference.get(key, "")
        required_name(found, f"{path}.{key}", value, _segment_fault(value))


def _segment_fault(value: str) -> str:
    """Return why a text is no segment of a path."""
    if value in {".", ".."}:
        return f"may not be '{value}'"
    return next((f"may not contain '{mark}'" for mark in "/%" if mark in value), "")


def _templates(found: list[Cause], templates: list[Document]) -> None:
    path = "spec.podGroupTemplates"
    if not templates:
        found.append(why.required(path))
    elif len(templates) > _MOST_TEMPLATES:
        found.append(why.too_many(path, len(templates), _MOST_TEMPLATES))
    else:
        seen: set[str] = set()
        for index, template in enumerate(templates):
            here, name = f"{path}[{index}]", template.get("name", "")
            required_name(found, f"{here}.name", name, label_fault(name))
            if name in seen:
                found.append(why.duplicate(here, name))
            seen.add(name)
            scheduling_policy(found, template, here)


def _prepare_create(_context: WriteContext, new: Document) -> None:
    for template in new["spec"].get("podGroupTemplates") or ():
        drop_gated(template)


def _prepare_update(
    _context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    before = {
        template.get("name"): template for template in old["spec"].get("podGroupTemplates") or ()
    }
    for template in new["spec"].get("podGroupTemplates") or ():
        drop_gated(template, before.get(template.get("name")))


STRATEGY = Strategy(
    columns="Name Age",
    row=_row,
    validate=_validate,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
)
