"""PersistentVolumeClaims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.defaults import default_claim
from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_claim
from traincrew.local.apiserver.kinds.shared.cells import (
    UNSET,
    access_modes,
    age_of,
    name_of,
    volume_phase,
)
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PersistentVolumeClaim."""
    spec, status = field(obj, "spec"), field(obj, "status")
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        volume_phase(obj),
        spec.get("volumeName", ""),
        str(field(status, "capacity").get("storage", "0")) if bound else "",
        access_modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        age_of(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _warn(obj: Document, _old: Document | None) -> Iterator[str]:
    key = "volume.beta.kubernetes.io/storage-class"
    if key in field(obj, "metadata", "annotations"):
        text = 'deprecated since v1.8; use "storageClassName" attribute instead'
        yield f"metadata.annotations[{key}]: {text}"
    yield from warn_of_claim(field(obj, "spec"), "spec")


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "persistentvolumeclaims",
            "PersistentVolumeClaim",
            short_names=("pvc",),
            status=True,
            returns_deleted=True,
        ),
    ),
    columns=(
        "Name Status Volume Capacity "
        "Access_Modes StorageClass VolumeAttributesClass Age VolumeMode*"
    ),
    row=_row,
    warn=_warn,
    default=default_claim,
)
