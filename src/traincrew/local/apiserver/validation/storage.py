"""Rules for PersistentVolumeClaims and StorageClasses.

Source: ``pkg/apis/core/validation``. The embedded cluster's volumes are directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.schema.unversioned import difference
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field
from traincrew.local.quantity import parse

from .fields import immutable
from .meta import label_selector

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "access_modes",
    "claim_spec",
    "exclusive_mode",
    "persistent_volume_claim",
    "storage_class",
]

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def access_modes(
    found: list[Cause],
    spec: Document,
    path: str,
    *,
    none: str = "at least 1 access mode is required",
) -> None:
    """Validate access modes.

    Args:
        found: Receives the faults.
        spec: Of a claim or volume.
        path: Of the spec.
        none: The detail of the fault if there are none.
    """
    modes, here = spec.get("accessModes") or [], f"{path}.accessModes"
    if not modes:
        found.append(why.required(here, none))
    found.extend(why.not_supported(here, mode, _MODES) for mode in modes if mode not in _MODES)


def exclusive_mode(found: list[Cause], spec: Document, path: str) -> None:
    """Refuse ReadWriteOncePod beside other modes."""
    modes = set(spec.get("accessModes") or ())
    if "ReadWriteOncePod" in modes and len(modes & set(_MODES)) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        found.append(why.forbidden(f"{path}.accessModes", detail))


def claim_spec(found: list[Cause], spec: Document, path: str) -> None:
    """Validate the spec of a claim, also of a claim template of a StatefulSet."""
    access_modes(found, spec, path)
    label_selector(found, spec.get("selector"), f"{path}.selector")
    exclusive_mode(found, spec, path)
    wanted = field(spec, "resources", "requests").get("storage")
    here = f"{path}.resources[storage]"
    if wanted is None:
        found.append(why.required(here))
    elif parse(wanted) <= 0:
        found.append(why.invalid(here, str(wanted), "must be greater than zero"))
    mode = spec.get("volumeMode", "Filesystem")
    if mode not in ("Block", "Filesystem"):
        found.append(why.not_supported(f"{path}.volumeMode", mode, ("Block", "Filesystem")))


def persistent_volume_claim(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a PersistentVolumeClaim."""
    spec = field(obj, "spec")
    claim_spec(found, spec, "spec")
    if old is not None:
        _claim_update(found, spec, field(old, "spec"), field(obj, "status"))


def _claim_update(found: list[Cause], spec: Document, old: Document, status: Document) -> None:
    capacity = field(status, "capacity")
    before, after = clone(old), clone(spec)
    if not old.get("volumeName") and "volumeName" in spec:  # may be set once, by binding
        before["volumeName"] = spec["volumeName"]
    if "storageClassName" not in old:  # the default class may be set later
        after.pop("storageClassName", None)
    if status.get("phase") == "Bound":
        for each in (before, after):
            field(each, "resources", "requests").pop("storage", None)
            each.pop("volumeAttributesClassName", None)
    if before != after:
        detail = (
            "spec is immutable after creation except resources.requests and"
            " volumeAttributesClassName for bound claims\n"
        )
        changes = difference("core.PersistentVolumeClaimSpec", before, after)
        found.append(why.forbidden("spec", detail + changes))
    sizes = [field(each, "resources", "requests").get("storage", 0) for each in (old, spec)]
    if parse(sizes[1]) < parse(sizes[0]) and parse(sizes[1]) <= parse(capacity.get("storage", 0)):
        detail = "field can not be less than status.capacity"
        found.append(why.forbidden("spec.resources.requests.storage", detail))
    immutable(found, "volumeMode", spec.get("volumeMode"), old.get("volumeMode"))


def storage_class(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a StorageClass."""
    if old is None:
        return
    found.extend(
        why.forbidden(key, f"updates to {key} are forbidden.")
        for key in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
        if obj.get(key) != old.get(key)
    )
