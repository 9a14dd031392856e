"""ServiceAccounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of kinds with no other columns."""
    return [name_of(obj), age_of(obj, now)]


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    key = "kubernetes.io/enforce-mountable-secrets"
    marked = [key in field(each or {}, "metadata", "annotations") for each in (obj, old)]
    if marked == [True, False]:
        text = "prefer separate namespaces to isolate access to mounted secrets"
        yield f"metadata.annotations[{key}]: deprecated in v1.32+; {text}"


STRATEGY = Strategy(
    columns="Name Age",
    row=_row,
    warn=_warn,
)
