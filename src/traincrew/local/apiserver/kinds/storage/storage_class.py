"""StorageClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_with_default
from traincrew.local.apiserver.kinds.shared.fields import immutable
from traincrew.local.apiserver.kinds.strategy import Strategy

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a StorageClass."""
    return [
        name_with_default(obj, "storageclass.kubernetes.io/is-default-class"),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age_of(obj, now),
    ]


def _default(obj: Document) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a StorageClass."""
    if old is None:
        return
    for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        immutable(found, key, obj.get(key), old.get(key))


STRATEGY = Strategy(
    columns="Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age",
    row=_row,
    default=_default,
    validate=_validate,
)
