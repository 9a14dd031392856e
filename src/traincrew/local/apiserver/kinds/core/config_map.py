"""ConfigMaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field

from .data import (
    SIZE_LIMIT,
    changes_of_immutable,
    decoded_values,
    key_rules,
    refuse_change_of_immutable,
)

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a ConfigMap."""
    count = len(field(obj, "data")) + len(field(obj, "binaryData"))
    return [name_of(obj), count, age_of(obj, now)]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a ConfigMap."""
    data, binary = field(obj, "data"), field(obj, "binaryData")
    key_rules(found, data, "data")
    key_rules(found, binary, "binaryData")
    for key in data:
        if key in binary:
            detail = "duplicate of key present in binaryData"
            found.append(why.invalid(f"data[{key}]", key, detail))
    size = sum(len(value.encode()) for value in data.values())
    size += sum(len(value) for value in decoded_values(found, binary, "binaryData").values())
    if size > SIZE_LIMIT:
        found.append(why.too_long("[]", SIZE_LIMIT))
    found += changes_of_immutable(obj, old)


STRATEGY = Strategy(
    columns="Name Data Age",
    row=_row,
    validate=_validate,
    prepare_update=refuse_change_of_immutable,
)
