"""Admission of new claims and volumes: nothing in use is deleted.

The rules are those of upstream's plugin StorageObjectInUseProtection
(``k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection``). The controllers
in `traincrew.local.controllers.volumes` remove the finalizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["CLAIM_PROTECTION", "VOLUME_PROTECTION", "protect"]

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
"""Finalizer of a PersistentVolumeClaim that a pod may use."""
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
"""Finalizer of a PersistentVolume that may be bound."""


def protect(obj: Document, finalizer: str) -> None:
    """Add a finalizer to a new object, in place, unless it has it."""
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer not in finalizers:
        metadata["finalizers"] = [*finalizers, finalizer]
