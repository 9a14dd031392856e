"""PersistentVolumes; those of the embedded cluster are directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import (
    UNSET,
    access_modes,
    age_of,
    name_of,
    volume_phase,
)
from traincrew.local.apiserver.kinds.shared.defaults import default_phase
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PersistentVolume."""
    spec = field(obj, "spec")
    claim = field(spec, "claimRef")
    return [
        name_of(obj),
        str(field(spec, "capacity").get("storage", "0")),
        access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        volume_phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        field(obj, "status").get("reason", ""),
        age_of(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is dict:
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if type(spec.get("hostPath")) is dict:
            spec["hostPath"].setdefault("type", "")
    default_phase(obj, "Pending")


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "persistentvolumes",
            "PersistentVolume",
            namespaced=False,
            short_names=("pv",),
            status=True,
            returns_deleted=True,
        ),
    ),
    columns=(
        "Name Capacity Access_Modes Reclaim_Policy Status "
        "Claim StorageClass VolumeAttributesClass Reason Age VolumeMode*"
    ),
    row=_row,
    default=_default,
)
