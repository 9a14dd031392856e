"""Secrets."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Secret."""
    return [name_of(obj), obj.get("type", ""), len(field(obj, "data")), age_of(obj, now)]


def _default(obj: Document) -> None:
    if not obj.get("type"):
        obj["type"] = "Opaque"
    texts = obj.get("stringData")
    if type(texts) is not dict or not all(type(text) is str for text in texts.values()):
        return
    # Write-only: the API only returns data.
    del obj["stringData"]
    data = obj.setdefault("data", {})
    if type(data) is dict:
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


STRATEGY = Strategy(
    resources=(ResourceType("", "v1", "secrets", "Secret", significant_empty=("data",)),),
    selectable=FieldLabels.of("type"),
    columns="Name Type Data Age",
    row=_row,
    default=_default,
)
