"""PersistentVolumeClaims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.defaults import default_claim
from traincrew.local.apiserver.kinds.podspec.resources import claim_spec
from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_claim
from traincrew.local.apiserver.kinds.shared.cells import (
    UNSET,
    age_of,
    name_of,
    short_modes,
    volume_phase,
)
from traincrew.local.apiserver.kinds.shared.fields import immutable
from traincrew.local.apiserver.kinds.strategy import Strategy, WriteContext
from traincrew.local.apiserver.schema.unversioned import difference
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field
from traincrew.local.quantity import parse

from . import volumes
from .limits import claim_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
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
        short_modes(status.get("accessModes")) if bound else "",
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


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
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


def _prepare_create(context: WriteContext, new: Document) -> None:
    volumes.set_class(context.storage, new)
    volumes.protect(new, volumes.CLAIM_PROTECTION)
    new["status"] = {"phase": "Pending"}


STRATEGY = Strategy(
    columns=(
        "Name Status Volume Capacity "
        "Access_Modes StorageClass VolumeAttributesClass Age VolumeMode*"
    ),
    row=_row,
    warn=_warn,
    default=default_claim,
    validate=_validate,
    prepare_create=_prepare_create,
    limit_faults=claim_faults,
    defaulted_on_read=("status.phase",),
)
