"""The rules of built-in kinds beyond their schemas; those of custom resources are in `custom`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.values import causes as why

from .shared.meta import object_meta, object_meta_update, standard_finalizers

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

    from .strategy import Strategy

__all__ = ["validate"]


def validate(strategy: Strategy, obj: Document, old: Document | None = None) -> list[Cause]:
    """Validate an object.

    Args:
        strategy: of the kind.
        obj: the object, defaulted and valid by its schema.
        old: the stored object when this is an update.
    """
    found = why.Causes()
    if strategy.name_fault is not None:
        object_meta(found, obj["metadata"], strategy.name_fault)
        standard_finalizers(found, obj["metadata"])
        if old is not None:
            object_meta_update(found, obj["metadata"], old["metadata"])
    if strategy.validate is not None:
        strategy.validate(found, obj, old)
    return found
