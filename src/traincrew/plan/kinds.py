"""The registry of kinds for the operator: the ``KIND`` of each folder."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import structs

from traincrew.api.kinds import FOLDERS

if TYPE_CHECKING:
    from traincrew.plan.shared.kind import PlannedKind

__all__ = ["KINDS"]


def _kinds(folder: str) -> list[PlannedKind]:
    found: PlannedKind = import_module(f"traincrew.plan.{folder}").KIND
    return [structs.replace(found, definition=served) for served in found.definition.served]


KINDS = tuple(kind for folder in FOLDERS for kind in _kinds(folder))
"""All kinds, in the order of `traincrew.api.kinds.KINDS`."""
