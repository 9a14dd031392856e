"""Pods in the node's cache."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field

from traincrew.engine.objects import FullObjectMeta, View

__all__ = ["BoundPod"]


class BoundPod(View, frozen=True, gc=False, kw_only=True):
    """A pod. `spec` and `status` are plain JSON data; treat them as read-only."""

    metadata: FullObjectMeta = field(default_factory=FullObjectMeta)
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.metadata.uid

    def document(self) -> dict[str, Any]:
        """Return the object as a dictionary that shares `spec` and `status` with this view."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": msgspec.to_builtins(self.metadata),
            "spec": self.spec,
            "status": self.status,
        }

    def reference(self, field_path: str = "") -> dict[str, Any]:
        """Return an object reference for events."""
        reference = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": self.metadata.name,
            "namespace": self.metadata.namespace,
            "uid": self.uid,
        }
        return reference | ({"fieldPath": field_path} if field_path else {})
