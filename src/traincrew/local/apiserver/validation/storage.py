"""Rules for PersistentVolumeClaims, PersistentVolumes and StorageClasses.

Source: ``pkg/apis/core/validation``. The embedded cluster's volumes are directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.schema.unversioned import difference
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import subdomain_fault
from traincrew.local.quantity import parse

from .fields import immutable
from .resources import access_modes, claim_spec, exclusive_mode
from .volumes import path_without_backsteps, source_rules

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["persistent_volume", "persistent_volume_claim", "storage_class"]

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


def persistent_volume(found: list[Cause], obj: Document, old: Document | None) -> None:
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
        found.append(why.not_supported("spec.capacity", capacity, ("storage",)))
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


def storage_class(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a StorageClass."""
    if old is None:
        return
    found.extend(
        why.forbidden(key, f"updates to {key} are forbidden.")
        for key in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
        if obj.get(key) != old.get(key)
    )
