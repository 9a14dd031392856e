"""Admission of new claims and volumes: the default class, and protection while in use.

The rules are those of upstream's plugins DefaultStorageClass and StorageObjectInUseProtection
(``k8s.io/kubernetes/plugin/pkg/admission/storage``). The controllers in
`traincrew.local.controllers.volumes` remove the finalizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["CLAIM_PROTECTION", "VOLUME_PROTECTION", "protect", "set_class"]

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
"""Finalizer of a PersistentVolumeClaim that a pod may use."""
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
"""Finalizer of a PersistentVolume that may be bound."""
_CLASSES = "storageclasses.storage.k8s.io"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULTS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def set_class(storage: Storage, claim: Document) -> None:
    """Set the class of a new claim that names none, in place: of several defaults the newest."""
    if "storageClassName" in claim["spec"]:
        return
    if _CLASS in (claim["metadata"].get("annotations") or {}):
        return
    defaults = []
    for entry in storage.scan(_CLASSES):
        metadata = entry.obj["metadata"]
        annotations = metadata.get("annotations") or {}
        if any(annotations.get(key) == "true" for key in _DEFAULTS):
            defaults.append((metadata["creationTimestamp"], metadata["name"]))
    if defaults:
        newest = max(created for created, _ in defaults)
        claim["spec"]["storageClassName"] = min(
            name for created, name in defaults if created == newest
        )


def protect(obj: Document, finalizer: str) -> None:
    """Add a finalizer to a new object, in place, unless it has it."""
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer not in finalizers:
        metadata["finalizers"] = [*finalizers, finalizer]
