"""LimitRanges: every write respects those of its namespace, as upstream's plugin LimitRanger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.core.limits import limits_of
from traincrew.local.apiserver.values.errors import forbidden

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["enforce"]


def enforce(storage: Storage, resource: ResourceType, obj: Document, old: Document | None) -> None:
    """Reject an object that violates a LimitRange of its namespace.

    Args:
        storage: holds the LimitRanges.
        resource: the object's resource.
        obj: the object, already validated.
        old: the stored object, for an update.

    Raises:
        StatusError: 403 with all violations.
    """
    rule = resource.strategy.limit_faults
    if rule is None:
        return
    metadata = obj["metadata"]
    for limits in limits_of(storage, metadata["namespace"]):
        faults = list(dict.fromkeys(fault for limit in limits for fault in rule(limit, obj, old)))
        if faults:
            why = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
            raise forbidden(resource.plural, resource.group, metadata["name"], why)
