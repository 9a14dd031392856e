"""PersistentVolumes; those of the embedded cluster are directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.resources import access_modes, exclusive_mode
from traincrew.local.apiserver.kinds.podspec.volumes import path_without_backsteps, source_rules
from traincrew.local.apiserver.kinds.shared.cells import (
    UNSET,
    age_of,
    name_of,
    short_modes,
    volume_phase,
)
from traincrew.local.apiserver.kinds.shared.defaults import default_phase
from traincrew.local.apiserver.kinds.shared.fields import immutable
from traincrew.local.apiserver.kinds.strategy import Strategy, WriteContext
from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.schema.unversioned import difference
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import subdomain_fault
from traincrew.local.quantity import parse

from . import volumes

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PersistentVolume."""
    spec = field(obj, "spec")
    claim = field(spec, "claimRef")
    return [
        name_of(obj),
        str(field(spec, "capacity").get("storage", "0")),
        short_modes(spec.get("accessModes")),
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


# In the order upstream checks them; the first one found is accepted, others are refused.
# fmt: off
_SOURCES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd",
    "quobyte", "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume",
    "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
)

# fmt: on
_POLICIES = ("Delete", "Recycle", "Retain")

_VOLUME_MODES = ("Block", "Filesystem")


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a PersistentVolume."""
    spec = field(obj, "spec")
    access_modes(found, spec, "spec", none="")
    exclusive_mode(found, spec, "spec")
    _capacity(found, spec)
    policy = spec.get("persistentVolumeReclaimPolicy", "Retain")
    if policy not in _POLICIES:
        found.append(why.not_supported("spec.persistentVolumeReclaimPolicy", policy, _POLICIES))
    if "nodeAffinity" in spec and not field(spec, "nodeAffinity").get("required"):
        detail = "must specify required node constraints"
        found.append(why.required("spec.nodeAffinity.required", detail))
    _source(found, spec)
    if field(spec, "hostPath").get("path") == "/" and policy == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        found.append(why.forbidden("spec.persistentVolumeReclaimPolicy", detail))
    name = spec.get("storageClassName", "")
    if name and (fault := subdomain_fault(name)):
        found.append(why.invalid("spec.storageClassName", name, fault))
    mode = spec.get("volumeMode", "Filesystem")
    if mode not in _VOLUME_MODES:
        found.append(why.not_supported("spec.volumeMode", mode, _VOLUME_MODES))
    if old is not None:
        _volume_update(found, spec, field(old, "spec"))


def _capacity(found: list[Cause], spec: Document) -> None:
    capacity = field(spec, "capacity")
    if not capacity:
        found.append(why.required("spec.capacity"))
    if set(capacity) != {"storage"}:
        found.append(why.not_supported("spec.capacity", spec.get("capacity"), ("storage",)))
    for name, amount in sorted(capacity.items()):
        if parse(amount) <= 0:
            detail = "must be greater than zero"
            found.append(why.invalid(f"spec.capacity[{name}]", str(amount), detail))


def _source(found: list[Cause], spec: Document) -> None:
    kinds = [kind for kind in _SOURCES if kind in spec]
    if not kinds:
        found.append(why.required("spec", "must specify a volume type"))
        return
    kind, source = kinds[0], field(spec, kinds[0])
    if kind == "local":
        if source.get("path"):
            path_without_backsteps(found, source["path"], "spec.local.path")
        else:
            found.append(why.required("spec.local.path"))
        if "nodeAffinity" not in spec:
            detail = "Local volume requires node affinity"
            found.append(why.required("spec.nodeAffinity", detail))
    else:
        source_rules(found, kind, source, f"spec.{kind}")
    detail = "may not specify more than 1 volume type"
    found.extend(why.forbidden(f"spec.{each}", detail) for each in kinds[1:])


def _volume_update(found: list[Cause], spec: Document, old: Document) -> None:
    before, after = ({key: each[key] for key in _SOURCES if key in each} for each in (old, spec))
    if before != after:
        detail = "spec.persistentvolumesource is immutable after creation\n"
        changes = difference("core.PersistentVolumeSource", before, after)
        found.append(why.forbidden("spec.persistentvolumesource", detail + changes))
    immutable(found, "volumeMode", spec.get("volumeMode"), old.get("volumeMode"))


def _prepare_create(context: WriteContext, new: Document) -> None:
    volumes.protect(new, volumes.VOLUME_PROTECTION)
    now = timestamp(context.clock())
    new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def _prepare_update(
    context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    status, before = field(new, "status"), field(old, "status")
    key = "lastPhaseTransitionTime"
    if status.get("phase") != before.get("phase") and status.get(key) == before.get(key):
        new["status"] = {**status, key: timestamp(context.clock())}


STRATEGY = Strategy(
    columns=(
        "Name Capacity Access_Modes Reclaim_Policy Status "
        "Claim StorageClass VolumeAttributesClass Reason Age VolumeMode*"
    ),
    row=_row,
    default=_default,
    validate=_validate,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
)
